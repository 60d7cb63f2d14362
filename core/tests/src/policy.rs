// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The policy's structures and functions, generated from shim.c.

#![allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    dead_code,
    clippy::all
)]

include!(concat!(env!("OUT_DIR"), "/policy.rs"));

/// The longest wait, in the type of all times.
pub const PATIENCE: u64 = PATIENCE_NS as u64;
