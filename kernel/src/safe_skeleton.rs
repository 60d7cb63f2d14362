// SPDX-License-Identifier: GPL-2.0-only
//! Generated: the skeleton of `bpf/consort_safe.bpf.c`.
#![allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals
)]

include!(concat!(env!("OUT_DIR"), "/consort_safe.skel.rs"));
