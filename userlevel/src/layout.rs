// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that the members of a domain share: a header, and a seat for each member. Numbers only: no pointer, no index
//! that anybody follows. Each number is read once, checked, and used.
//!
//! ```text
//!  0        256      512      768                        256 * (SEATS + 1)
//!  | header | seat 0 | seat 1 | ...                      |
//! ```

use consort_abi::Slot;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// "CNSU"
pub const MAGIC: u32 = 0x5553_4e43;
pub const VERSION: u32 = 3;
/// Members of a domain at a time.
pub const SEATS: usize = 1023;
pub const BYTES: usize = size_of::<Shared>();

/// What a member is up to. As [`crate::policy`]'s, and what the policy does not know.
pub const OUT: u32 = 0; // has joined, and not polled yet
pub const RUNNING: u32 = 1; // it has a turn
pub const WAITING: u32 = 2; // for its turn
pub const ASLEEP: u32 = 3; // until its due time, where others can wake it
pub const AWAY: u32 = 4; // until its due time or until a file descriptor is ready: it wakes by itself
pub const ABSENT: u32 = 5; // it was skipped: it had a turn, and did not poll

#[repr(C, align(256))]
pub struct Header {
    pub magic: AtomicU32,
    pub version: AtomicU32,
    /// The same in the file by which members find each other; never 0.
    pub token: AtomicU64,
    pub event_ns: AtomicU64,
    pub order: AtomicU32,
    /// See lock.rs.
    pub lock: AtomicU32,
    /// All members are in the seats before this one.
    pub seats_used: AtomicU32,
    pub reserved: AtomicU32,
    /// When somebody looks next who has died.
    pub tended_at_ns: AtomicU64,
    /// When somebody looks next whether a daemon is there, and when a member last moved to one.
    pub look_for_daemon_at_ns: AtomicU64,
    pub moved_to_daemon_at_ns: AtomicU64,
    /// The domain, as policy.h has it.
    pub clock: AtomicU64,
    pub vmin: AtomicU64,
    pub served_least: AtomicU64,
    pub turn_least: AtomicU64,
    pub idle_since_ns: AtomicU64,
    /// Counters, for those who look.
    pub handovers: AtomicU64,
    pub skipped: AtomicU64,
    pub readmitted: AtomicU64,
    pub buried: AtomicU64,
    pub locks_taken_over: AtomicU64,
}

#[repr(C, align(256))]
pub struct Seat {
    pub slot: Slot,
    /// Whose it is: a random number; 0 is nobody's.
    pub owner: AtomicU64,
    pub pid: AtomicU32,
    pub tid: AtomicU32,
    /// When its process was started, as the kernel says; 0: unknown.
    pub started: AtomicU64,
    /// The namespace in which `pid` means something; 0: unknown.
    pub pid_space: AtomicU64,
    /// Odd while it has a turn; waits are on this word. The rest is counted up to wake it for another reason.
    pub turn: AtomicU32,
    pub state: AtomicU32,
    /// While it sleeps or waits: when it looks by itself.
    pub looks_at_ns: AtomicU64,
    /// While it has a turn: by when it is to poll.
    pub polls_by_ns: AtomicU64,
    pub since_ns: AtomicU64,
    /// On which CPUs it may run: bit n is CPU n; all bits: any.
    pub cpus: AtomicU64,
    /// How many members may run on these at a time.
    pub cpus_most: AtomicU32,
    pub weight: AtomicU32,
    /// What it has told, and the rest of what the policy knows of it.
    pub due_ns: AtomicU64,
    pub key: AtomicU64,
    pub priority: AtomicU32,
    pub reserved: AtomicU32,
    pub vtime: AtomicU64,
    pub debt_vtime: AtomicU64,
    pub served: AtomicU64,
    pub turn_ns: AtomicU64,
    pub turn_vtime: AtomicU64,
    pub turn_from: AtomicU64,
    pub run_due_ns: AtomicU64,
    /// Counters: turns given to others, and how often it was skipped.
    pub yields: AtomicU32,
    pub skips: AtomicU32,
}

#[repr(C)]
pub struct Shared {
    pub header: Header,
    pub seats: [Seat; SEATS],
}

const _: () = assert!(size_of::<Header>() == 256 && size_of::<Seat>() == 256);
