// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same scheduler, deterministic, on any machine: Consort's own BPF program, compiled for the host, against
//! a model of the kernel's sched_ext core. One process, virtual time, one seed: the same [`setup::Setup`] gives the
//! same run to the nanosecond.

pub mod consort;
pub use consort_rates::duration;
mod error;
pub mod explore;
mod ffi;
pub mod fluid;
pub mod groups;
mod kernel;
mod machine;
pub mod mixes;
pub mod models;
pub mod mutate;
pub mod profile;
mod programs;
pub mod random;
pub mod rates;
pub mod report;
mod run;
pub mod scenario;
mod scheduler;
pub mod setup;
mod setup_check;
pub mod trace;
pub mod userlevel;
pub mod users;

pub use consort::consort;
pub use error::Error;
pub use kernel::{Kernel, NEVER_NS, SLICE_DEFAULT_NS, SLICE_INFINITE};
pub use run::{run, run_against_ideal};
pub use scheduler::Scheduler;
