// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort_abi.h`, generated.
#![allow(non_camel_case_types, non_upper_case_globals, dead_code, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/abi.rs"));
