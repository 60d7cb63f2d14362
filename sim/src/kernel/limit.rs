// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of cgroups (cpu.max): what the scheduler is told, and what it is held to. Budgets are kept here a second time, by what
//! tasks have really had.

use super::{Kernel, Task};
use crate::setup::{self, Action, ActionKind, CgroupIndex, Limit, Program, Setup};
use crate::trace::TaskId;
use std::rc::Rc;

/// The kernel's word for no limit.
const QUOTA_NONE: u64 = u64::MAX;
/// What a CPU may run beyond a budget: until its timer ends the run, and it has switched.
const LATE_NS: i64 = 1_000_000;
/// What a task may have of a budget that is used up (LIMIT_LEAST_NS), and as much until that has ended.
const LEAST_NS: i64 = 200_000;
/// What is owed at most when a period begins (LIMIT_OWES_NS).
const OWES_NS: i64 = 100_000_000;
/// The longest slice that a scenario may ask for: so much of a budget a running task may have taken, and not used.
const GRANTED_MAX_NS: i64 = 20_000_000;

/// A cgroup, and those above it.
fn path_of(setup: &Setup, cgroup: CgroupIndex) -> impl Iterator<Item = CgroupIndex> + '_ {
    std::iter::successors(Some(cgroup), |it| setup.cgroups[*it].parent)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub limit: Limit,
    left_ns: i64,
    began_ns: u64,
    /// Since when there may have been something left.
    freed_ns: u64,
    /// What those may have had that ran already when it came.
    before_ns: i64,
}

impl Budget {
    pub fn new(limit: Limit, now_ns: u64) -> Self {
        Self {
            limit,
            left_ns: limit.quota_ns as i64,
            began_ns: now_ns,
            freed_ns: now_ns,
            before_ns: 0,
        }
    }

    fn fill(&mut self, now_ns: u64) {
        let full_ns = (self.limit.quota_ns + self.limit.burst_ns) as i64;
        while now_ns - self.began_ns >= self.limit.period_ns {
            self.began_ns += self.limit.period_ns;
            self.freed_ns = self.began_ns;
            let filled_ns = self.left_ns.max(-OWES_NS) + self.limit.quota_ns as i64;
            self.left_ns = filled_ns.min(full_ns.max(self.left_ns));
        }
    }
}

impl Kernel {
    /// Period, quota and burst in microseconds, as the kernel tells them.
    pub(crate) fn limit_us(&self, cgroup: CgroupIndex) -> (u64, u64, u64) {
        match &self.cgroups[cgroup].budget {
            Some(budget) => {
                let limit = budget.limit;
                let us = |ns| ns / 1000;
                (us(limit.period_ns), us(limit.quota_ns), us(limit.burst_ns))
            }
            None => (100_000, QUOTA_NONE, 0),
        }
    }

    /// A scheduler begins, and knows of nothing that was used before.
    pub(crate) fn begin_limits(&mut self) {
        let now_ns = self.now_ns;
        for cgroup in &mut self.cgroups {
            cgroup.budget = cgroup
                .budget
                .map(|budget| Budget::new(budget.limit, now_ns));
        }
    }

    pub(crate) fn set_cgroup_limit(&mut self, cgroup: CgroupIndex, limit: Option<Limit>) {
        let now_ns = self.now_ns;
        let running_ns = GRANTED_MAX_NS * i64::from(self.machine.cpus());
        self.cgroups[cgroup].changed_ns = now_ns;
        self.cgroups[cgroup].budget = limit.map(|limit| {
            let mut new = Budget::new(limit, now_ns);
            new.before_ns = running_ns;
            new
        });
        if !self.attached {
            return;
        }
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        unsafe { (*scheduler).cgroup_set_limit(self, cgroup) };
    }

    /// A task has run.
    pub(crate) fn charge_limits(&mut self, task: TaskId, ran_ns: u64) {
        let state = &self.tasks[task as usize];
        if state.is_realtime() {
            return;
        }
        let now_ns = self.now_ns;
        let setup = Rc::clone(&self.setup);
        for cgroup in path_of(&setup, state.cgroup) {
            if let Some(budget) = &mut self.cgroups[cgroup].budget {
                budget.fill(now_ns);
                budget.left_ns -= ran_ns as i64;
            }
        }
    }

    /// Whether it, or one above it, has a limit.
    pub(crate) fn is_limited(&self, cgroup: CgroupIndex) -> bool {
        path_of(&self.setup, cgroup).any(|it| self.cgroups[it].budget.is_some())
    }

    /// Whether the limit of it, or of one above it, has changed.
    fn was_limited(&self, cgroup: CgroupIndex) -> bool {
        path_of(&self.setup, cgroup).any(|it| self.cgroups[it].changed_ns > 0)
    }

    /// Whether a limit may be why a task has not run since then: others may have taken what is left.
    pub(crate) fn may_be_held(&self, task: &Task, since_ns: u64) -> bool {
        let granted_ns = GRANTED_MAX_NS * i64::from(self.machine.cpus());
        // A timer that cannot be started lets nobody go sooner than the one before it.
        if self.faults.timer_fails > 0.0
            && (self.is_limited(task.cgroup) || self.was_limited(task.cgroup))
        {
            return true;
        }
        path_of(&self.setup, task.cgroup).any(|cgroup| {
            let state = &self.cgroups[cgroup];
            let may_bind = |mut budget: Budget| {
                budget.fill(self.now_ns);
                budget.left_ns < granted_ns || budget.freed_ns >= since_ns
            };
            state.changed_ns >= since_ns || state.budget.is_some_and(may_bind)
        })
    }

    /// No cgroup has more than its budget, but for what cannot be ended in time. Not where threads run in each other's seats, or
    /// the daemon is asked to reserve for cgroups: those above do not count then.
    pub(crate) fn check_limits(&mut self) {
        let faults = &self.faults;
        let late = faults.pause + faults.timer_late + faults.timer_fails + faults.allocation > 0.0;
        let takes_seats = |it: &setup::Task| matches!(it.program, Program::Steps(_));
        let calls = |it: &Action| matches!(it.what, ActionKind::Call(_));
        if late
            || self.setup.actions.iter().any(calls)
            || (!self.setup.pi_locks.is_empty() && self.setup.tasks.iter().any(takes_seats))
        {
            return;
        }
        let most_ns = LATE_NS * i64::from(self.machine.cpus()) + LEAST_NS * self.tasks.len() as i64;
        let over = (0..self.cgroups.len()).find_map(|cgroup| {
            let budget = self.cgroups[cgroup].budget.as_ref()?;
            let over = budget.left_ns < -most_ns - budget.before_ns;
            over.then_some((cgroup, budget.left_ns))
        });
        if let Some((cgroup, left_ns)) = over {
            let name = self.setup.cgroups[cgroup].name.clone();
            self.violate(
                "limit",
                format!("{name} has had {} us more than its limit", -left_ns / 1000),
            );
        }
    }
}
