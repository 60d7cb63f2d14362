// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The binary layout shared by programs, the daemon and the scheduler.
//!
//! Everything here is generated from `consort_abi.h`, which is its documentation.
#![allow(non_camel_case_types, non_upper_case_globals)]

include!(concat!(env!("OUT_DIR"), "/abi.rs"));
