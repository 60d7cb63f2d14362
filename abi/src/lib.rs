// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The binary layout shared by programs, the daemon, the scheduler and recorders.
//!
//! All but the atomics of slots, variables and rings is generated from `consort_abi.h` and `consort_trace.h`, which are its
//! documentation.
#![allow(non_camel_case_types, non_upper_case_globals)]

pub mod message;
mod ring;
mod slot;
mod variables;

pub use ring::{Area, Ring};
pub use slot::Slot;
pub use variables::Variables;

include!(concat!(env!("OUT_DIR"), "/abi.rs"));
