// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared layout with Rust's types: limits and constants.
#![allow(clippy::unnecessary_cast)] // the generator picks each constant's width by its value

pub use consort_abi::message::{Join, Name, Request};
pub use consort_abi::{
    consort_mapping, consort_page, consort_reply as RawReply, consort_usage_reply as RawUsage,
    Slot, Variables,
};

/// No such event, no such time.
pub const NEVER: u64 = consort_abi::CONSORT_NEVER as u64;
/// The least important best-effort priority; 0 runs first.
pub const PRIORITY_MAX: u32 = consort_abi::CONSORT_PRIORITY_MAX as u32;
/// In the slot: no best-effort event.
pub const PRIORITY_NONE: u32 = consort_abi::CONSORT_PRIORITY_NONE as u32;
/// The farthest future a due time may lie in.
pub const DUE_AHEAD_MAX_NS: u64 = consort_abi::CONSORT_DUE_AHEAD_MAX_NS as u64;
/// Shortest longest event that a domain may declare.
pub const EVENT_MIN_NS: u64 = consort_abi::CONSORT_EVENT_MIN_NS as u64;
/// Longest longest event that a domain may declare.
pub const EVENT_MAX_NS: u64 = consort_abi::CONSORT_EVENT_MAX_NS as u64;
/// Bytes of a domain's name.
pub const NAME_MAX: usize = consort_abi::CONSORT_NAME_MAX as usize;
/// Threads of one program that may be members at a time.
pub const SLOTS: usize = consort_abi::CONSORT_SLOTS as usize;

pub const MAGIC: u32 = consort_abi::CONSORT_ABI_MAGIC as u32;
pub const VERSION: u32 = consort_abi::CONSORT_ABI_VERSION as u32;
/// The greatest and the least version of messages that this library speaks.
pub const WIRE_VERSION: u32 = consort_abi::CONSORT_WIRE_VERSION as u32;
pub const WIRE_VERSION_LEAST: u32 = consort_abi::CONSORT_WIRE_VERSION_LEAST as u32;
pub const PAGE_BYTES: usize = consort_abi::CONSORT_PAGE_BYTES as usize;
/// The page and the variables behind it.
pub const MAPPING_BYTES: usize = consort_abi::CONSORT_MAPPING_BYTES as usize;
/// State variables of a thread, and control variables.
pub const VARIABLES: usize = consort_abi::CONSORT_VARIABLES as usize;

pub const HELLO: u16 = consort_abi::CONSORT_HELLO as u16;
pub const USAGE: u16 = consort_abi::CONSORT_USAGE as u16;
pub const RATE_UNKNOWN: u32 = consort_abi::CONSORT_RATE_UNKNOWN as u32;
pub const RESERVE_THREAD: u32 = consort_abi::CONSORT_RESERVE_THREAD as u32;
pub const RATE_ONE_CPU: u32 = consort_abi::CONSORT_RATE_ONE_CPU as u32;
pub const JOIN_PREEMPT: u32 = consort_abi::CONSORT_JOIN_PREEMPT as u32;

pub const RUNNING: u32 = consort_abi::CONSORT_RUNNING as u32;
pub const YIELDING: u32 = consort_abi::CONSORT_YIELDING as u32;
pub const SLEEPING: u32 = consort_abi::CONSORT_SLEEPING as u32;

pub const STANDING_OUTSIDE: u32 = consort_abi::CONSORT_OUTSIDE as u32;
pub const MEMBER: u32 = consort_abi::CONSORT_MEMBER as u32;
pub const DEMOTED: u32 = consort_abi::CONSORT_DEMOTED as u32;

pub const ORDER_PROGRAM: u32 = consort_abi::CONSORT_ORDER_PROGRAM as u32;
pub const ORDER_PROGRESS: u32 = consort_abi::CONSORT_ORDER_PROGRESS as u32;
pub const ORDER_SERVICE: u32 = consort_abi::CONSORT_ORDER_SERVICE as u32;

const _: () = {
    assert!(size_of::<consort_page>() == PAGE_BYTES);
    assert!(size_of::<consort_mapping>() == MAPPING_BYTES);
    assert!(NEVER == u64::MAX);
    assert!(SLOTS < 64); // the slots in use are bits of one u64
};
