// SPDX-License-Identifier: GPL-2.0-only
//! Generated: the skeleton of `bpf/consort.bpf.c`, and the types of `bpf/interface.h`.
#![allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals
)]

include!(concat!(env!("OUT_DIR"), "/consort.skel.rs"));

/// What the scheduler and its loader share.
pub mod interface {
    include!(concat!(env!("OUT_DIR"), "/interface.rs"));
}
