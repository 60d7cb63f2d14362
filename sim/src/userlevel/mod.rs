// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user-level host, [`consort_userlevel`], in a machine of virtual time: threads, futexes and shared memory, with members
//! that are killed and stopped at any access to that, and rules that every run is held to. Mistakes that are planted in the
//! host are found by them. The host's code is the one that programs run; what is modelled is what it calls.

mod explore;
mod machine;
mod members;
mod plan;

pub use explore::{explore, Found};
pub use members::{run, Outcome};
pub use plan::{Fault, Host, Order, Plan, Planned, MS};
