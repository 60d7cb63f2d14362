// SPDX-License-Identifier: GPL-2.0-only
//! Generated: the skeleton of `bpf/consort_late.bpf.c`, and the types of `bpf/late.h`.
#![allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals
)]

include!(concat!(env!("OUT_DIR"), "/consort_late.skel.rs"));

/// What the program and its loader share.
pub mod shared {
    include!(concat!(env!("OUT_DIR"), "/late.rs"));
}
