// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler's side of a member's contract: nobody is demoted for polling late who could not have polled in time.

use super::Kernel;
use crate::ffi::CONSORT_WHY_POLLED_LATE;
use crate::setup::{Cpu, Domain};
use crate::trace::TaskId;

/// What a switch takes, and the time by which a timer may be early.
const SLACK_NS: u64 = 10_000;

impl Kernel {
    /// The scheduler gives the task to the kernel to be run.
    pub(super) fn begin_run(&mut self, task: TaskId) {
        let task = &mut self.tasks[task as usize];
        task.ran_before_ns = task.c.se.sum_exec_runtime;
    }

    /// The scheduler has chosen on a CPU that `prev` had: whoever it has demoted for polling late has had the CPU for an event
    /// and its grace since it was chosen.
    pub(super) fn check_demotion(&mut self, cpu: Cpu, prev: Option<TaskId>, count: u32) {
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        let demoted = unsafe { (*scheduler).demoted(cpu) };
        let Some(prev) = prev else { return };
        let task = &self.tasks[prev as usize];
        if demoted.count == count
            || demoted.why != CONSORT_WHY_POLLED_LATE
            || demoted.pid != task.c.pid
        {
            return;
        }
        let ran_ns = task.c.se.sum_exec_runtime - task.ran_before_ns;
        if ran_ns + SLACK_NS < self.grace_min_ns() {
            let name = self.task_name(prev);
            self.violate(
                "contract",
                format!("{name} is demoted after {} us of its run", ran_ns / 1000),
            );
        }
    }

    /// The least that a domain of this run allows.
    fn grace_min_ns(&self) -> u64 {
        let graces_ns = self.setup.domains.iter().map(Domain::grace_ns);
        graces_ns.min().unwrap_or(0)
    }
}
