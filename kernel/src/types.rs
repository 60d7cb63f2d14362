// SPDX-License-Identifier: GPL-2.0-only
//! What is said to the scheduler, and what it says about itself.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{skeleton::interface, TunablesChange};

/// How the scheduler is started.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Schedule only the tasks that opted in with the policy SCHED_EXT, instead of all.
    pub partial: bool,
    /// How long a runnable task may wait until the kernel ejects the scheduler, milliseconds; the kernel takes 30 000
    /// at most.
    pub watchdog_ms: u32,
    /// What shall differ from the scheduler's own choice.
    pub tunables: TunablesChange,
}

/// What belongs to a domain, and is fixed when it is created. Values are those of `consort_abi.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainOptions {
    /// The longest event that a member runs; 0 leaves it to the scheduler.
    pub event_ns: u64,
    /// `enum consort_order`.
    pub order: u32,
    /// `enum consort_join_flags`.
    pub flags: u32,
}

/// A thread that nobody else can be taken for, whoever gets its number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thread {
    /// In the init pid namespace.
    pub tid: i32,
    /// When it started, in clock ticks after boot, as /proc tells.
    pub start: u64,
}

/// One thread entering a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinArgs {
    pub thread: Thread,
    pub client: u32,
    pub slot: u32,
    pub domain: u32,
}

/// One thread leaving its domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaveArgs {
    pub tid: i32,
    pub client: u32,
    pub slot: u32,
}

/// How late a member was lately, and why it was demoted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tardiness {
    /// Due events that were dispatched; those that expire while the member runs are not seen.
    pub events: u64,
    pub mean_ns: u64,
    /// To half an octave.
    pub p99_ns: u64,
    pub max_ns: u64,
    /// Since it joined.
    pub demotions: u64,
    /// The last time: `enum consort_why`, and by how much it polled too late.
    pub why: u32,
    pub why_late_ns: u64,
}

/// Classes that the scheduler has room for.
pub const CLASSES_MAX: usize = interface::CLASSES_MAX as usize;
/// Reservations that the scheduler has room for.
pub const RESERVATIONS_MAX: usize = interface::RESERVATIONS_MAX as usize - 1;
/// All CPUs, as the capacity of a class; one CPU, as a rate.
pub const RATE_ONE: u32 = interface::CONSORT_RATE_ONE;

/// What a reservation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub class: u32,
    /// In parts of [`RATE_ONE`].
    pub rate: u32,
    /// Of that length the periods are over which it has its rate.
    pub period_ns: u64,
}

/// How the machine is divided, in parts of [`RATE_ONE`]; by the classes' numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassTable {
    /// 0: there is no such class.
    pub capacity: [u32; CLASSES_MAX],
    /// What is left for everybody else; not 0.
    pub flexible: u32,
    /// Whose turn it is among a class' reservations: `enum consort_class_order`.
    pub order: [u8; CLASSES_MAX],
}

/// What a reservation's threads have had through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReservationUsage {
    /// How many threads share it.
    pub tasks: u32,
    /// CPU time since it was made.
    pub ran_ns: u64,
}

/// The scheduler's counters, summed over CPUs, by name.
pub type Counters = BTreeMap<&'static str, u64>;

/// Why the scheduler left the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExitReport {
    /// The kernel's `enum scx_exit_kind`.
    pub kind: u64,
    pub exit_code: i64,
    /// The kernel's words for the kind, such as "runnable task stall".
    pub reason: String,
    /// The details, such as which task stalled; may be empty.
    pub message: String,
    /// After a fault: what the kernel and the scheduler said of each CPU and task, in lines.
    pub dump: String,
}

impl fmt::Display for ExitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason.as_str() {
            "" => "no reason given",
            reason => reason,
        };
        write!(f, "{reason} (kind {}, code {})", self.kind, self.exit_code)?;
        match self.message.as_str() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

impl ExitReport {
    /// `SCX_EXIT_ERROR`: this kind and those above are faults, those below were asked for.
    const ERROR: u64 = 1024;

    /// True when the kernel threw the scheduler out; false when somebody asked for it (SysRq-S, unload).
    pub fn is_fault(&self) -> bool {
        self.kind >= Self::ERROR
    }
}
