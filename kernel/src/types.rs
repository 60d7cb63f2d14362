// SPDX-License-Identifier: GPL-2.0-only
//! What is said to the scheduler, and what it says about itself.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{
    skeleton::interface::{self, CONSORT_EXIT_MORE_CPUS},
    TunablesChange,
};

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

/// Members that a group has room for whose decision function is not `fair`.
pub const ROLES_MAX: usize = consort_abi::CONSORT_ROLES as usize;
/// State variables of a member, and control variables.
pub const VARIABLES: usize = consort_abi::CONSORT_VARIABLES as usize;
/// Intervals of one plan, at most.
pub const PLAN_INTERVALS_MAX: usize = interface::CONSORT_PLAN_INTERVALS as usize;
/// No interval is shorter.
pub const INTERVAL_MIN_NS: u64 = interface::CONSORT_INTERVAL_MIN_NS as u64;
/// No interval ends later after its plan's beginning, and no plan is repeated after a longer time.
pub const PLAN_MAX_NS: u64 = interface::CONSORT_PLAN_MAX_NS;
/// No time: plans that stand still begin then.
pub const NEVER_NS: u64 = u64::MAX;

/// Who decides in a group which member runs next. Values are those of `enum consort_function`; a cooperation domain,
/// whose members decide, is made by [`crate::Scheduler::create_domain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    Fair = 1,
    Period = 2,
    Plan = 3,
    Pipeline = 4,
    Follow = 5,
    /// Of a user's own: [`crate::Scheduler::put_user`].
    User = 6,
}

/// What a group's file says of one of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoleTerms {
    /// `period`: how long its periods are; 0: it has none.
    pub period_ns: u64,
    /// `period`: CPU time in each, at most its period; 0: its weight's part of it.
    pub budget_ns: u64,
    /// The member whose submissions it serves.
    pub follows: Option<u32>,
    /// How long it runs at most after each.
    pub follow_ns: u64,
    /// `pipeline`: the level up to which its output queue is filled; 0: it has none.
    pub high: u32,
    /// `pipeline`: by how much that queue is drained before it is filled again; 0: the member is no stage.
    pub step: u32,
}

/// When a member is to run, relative to its plan's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Interval {
    pub start_ns: u64,
    pub end_ns: u64,
}

/// One thread coming to a role of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindArgs {
    pub thread: Thread,
    pub group: u32,
    /// `None`: only in a group whose function is `fair`.
    pub role: Option<u32>,
    /// Its program's page and its slot there, where it publishes; `None`: it has none.
    pub slot: Option<(u32, u32)>,
}

/// What a member's thread would tell, said in its stead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tell {
    /// It has submitted something to the server that follows it.
    Submitted,
    /// It has done what its interval was for.
    Done,
}

/// What a member does, and what became of its intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct RoleStatus {
    /// Its thread, in the init pid namespace; 0: nobody plays it.
    pub tid: i32,
    /// Its thread wants the CPU, or has it.
    pub awake: bool,
    pub runs: bool,
    /// Its interval is on.
    pub on: bool,
    /// It runs as if in no group: there are seats for no more accounts.
    pub outside: bool,
    /// Its group is as far ahead of its share as it may be.
    pub blocked: bool,
    pub state: [i64; VARIABLES],
    pub control: [i64; VARIABLES],
    /// Its present interval, or the next one, of CLOCK_MONOTONIC; [`NEVER_NS`]: there is none to come.
    pub from_ns: u64,
    pub until_ns: u64,
    /// Intervals in which it ran, if it had anything to do.
    pub kept: u64,
    /// The others, by cause.
    pub missed: Missed,
    /// From the beginnings of intervals, or wake-ups in them, until it ran: sum and greatest of those kept.
    pub late_ns: u64,
    pub late_max_ns: u64,
    /// CPU time since its thread came.
    pub ran_ns: u64,
    /// When the plans of its group began, see [`crate::Scheduler::begin_plans`].
    pub zero_ns: u64,
}

/// Intervals in which a member did not run, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Missed {
    /// Nobody played it.
    pub vacant: u64,
    /// Its thread did not want the CPU.
    pub asleep: u64,
    /// Its thread had no seat.
    pub outside: u64,
    /// Its group was as far ahead of its share as it may be.
    pub share: u64,
    /// Other due events had the CPU.
    pub others: u64,
}

/// A thread that nobody else can be taken for, also when its number is used again.
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
    /// `SCX_EXIT_UNREG_BPF`: the scheduler's program asked for it.
    const UNREG_BPF: u64 = 65;

    /// True when the kernel threw the scheduler out; false when somebody asked for it (SysRq-S, unload).
    pub fn is_fault(&self) -> bool {
        self.kind >= Self::ERROR
    }

    /// True when the scheduler left because a CPU has come for which it has no room: loaded anew it has.
    pub fn wants_room(&self) -> bool {
        self.kind == Self::UNREG_BPF && self.exit_code == i64::from(CONSORT_EXIT_MORE_CPUS)
    }
}
