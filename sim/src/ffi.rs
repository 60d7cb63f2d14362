// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the scheduler's C and the model share; generated from shim/host.h.
#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code
)]
#![allow(clippy::all)]

include!(concat!(env!("OUT_DIR"), "/host.rs"));
