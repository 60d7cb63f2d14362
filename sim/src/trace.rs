// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run emits while it runs, and what it ends with.

use crate::fluid::Behind;
use crate::groups::{Interval, RoleTotal};
use crate::setup::{Cpu, TaskIndex};
use serde::Serialize;

/// A task of the run: its number in order of creation, from 0. Tasks of [`crate::setup::Setup::tasks`] that start
/// by themselves come first, in their order; each fork makes a new one.
pub type TaskId = u32;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    pub at_ns: u64,
    /// The CPU that it happens to, or on.
    pub cpu: Cpu,
    pub what: What,
}

/// How a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Left {
    /// It could go on.
    Preempted,
    Yielded,
    Slept,
    Ended,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum What {
    /// A task exists; `of` is what it was made from.
    Created {
        task: TaskId,
        of: TaskIndex,
    },
    Ended {
        task: TaskId,
    },
    /// The CPU changes tasks; none: idle.
    Switch {
        prev: Option<(TaskId, Left)>,
        next: Option<TaskId>,
    },
    /// Why the task got the CPU that it is switched to next: `enum consort_reason`; the scheduler said so.
    Picked {
        task: TaskId,
        reason: u32,
    },
    /// The scheduler found that a member broke its domain's contract: `enum consort_why`.
    Demoted {
        task: TaskId,
        why: u32,
        late_us: u32,
    },
    /// The scheduler found what became of an interval of a role.
    Interval {
        /// Of the role; none: it is vacant.
        task: Option<TaskId>,
        interval: Interval,
    },
    /// It found more at once than it keeps.
    IntervalsLost(u64),
    /// Became runnable; `on` is the CPU it was put on.
    Woken {
        task: TaskId,
        on: Cpu,
    },
    Migrated {
        task: TaskId,
        from: Cpu,
        to: Cpu,
    },
    /// An event of the program was due, and is served now.
    Served {
        task: TaskId,
        due_ns: u64,
    },
    /// A player's frame was shown, or left out.
    Frame {
        task: TaskId,
        shown: bool,
    },
    /// A poll; most do not enter the kernel.
    Polled {
        task: TaskId,
        entered_kernel: bool,
    },
    /// Joined (true) or left a domain.
    Membership {
        task: TaskId,
        domain: usize,
        joined: bool,
    },
    /// A callback of the scheduler begins, about a task: of a dispatch, the one that has run until now.
    Callback {
        name: &'static str,
        task: Option<TaskId>,
    },
    /// A one-shot timer of the scheduler fires.
    TimerFired,
    /// The daemon did not grant what a task asked for.
    Refused {
        task: TaskId,
        text: String,
        /// It asked for a rate of its own, not for credits.
        is_reservation: bool,
    },
    CpuOnline(bool),
    /// The simulator broke something, on purpose.
    Fault(&'static str),
}

/// Receives a run's events, in order of time.
pub trait Observer {
    fn event(&mut self, event: &Event);

    /// True: events need not be made.
    fn is_deaf(&self) -> bool {
        false
    }
}

/// Ignores them.
impl Observer for () {
    fn event(&mut self, _: &Event) {}

    fn is_deaf(&self) -> bool {
        true
    }
}

impl<F: FnMut(&Event)> Observer for F {
    fn event(&mut self, event: &Event) {
        self(event);
    }
}

/// What a task has had, at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskTotal {
    pub name: String,
    pub of: TaskIndex,
    pub run_ns: u64,
    pub switches: u64,
    /// Longest time that it was runnable and did not run.
    pub wait_max_ns: u64,
    pub ended: bool,
}

/// A promise that did not hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    pub at_ns: u64,
    /// A short name: `lost-task`, `ejected`, ...
    pub rule: &'static str,
    pub detail: String,
    /// What the scheduler and the kernel know of every CPU and task, in lines.
    pub state: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    pub end_ns: u64,
    pub tasks: Vec<TaskTotal>,
    /// Choices: calls of the scheduler's dispatch.
    pub decisions: u64,
    pub switches: u64,
    pub idle_ns: u64,
    /// The scheduler's own counters, by name.
    pub counters: Vec<(&'static str, u64)>,
    /// What became of the intervals of roles in groups.
    pub roles: Vec<RoleTotal>,
    /// Who was furthest behind the fluid ideal; none: it was not looked at, or is not defined.
    pub fluid_lag: Option<Behind>,
    /// What the ideal gave to each task of the setup while it was runnable and in no domain; empty as above.
    pub fluid_given_ns: Vec<f64>,
    /// The run ended here; none: it ended in its time.
    pub violation: Option<Violation>,
}
