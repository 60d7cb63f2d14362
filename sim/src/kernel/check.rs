// SPDX-License-Identifier: MIT OR Apache-2.0
//! Promises that hold at every step: no task is lost, none starves, no CPU idles while a task that may run there waits.

use super::{Custody, Dsq, Kernel, Life, Task, NEVER_NS};
use crate::setup::Cpu;
use crate::trace::TaskId;

/// Looking at everything is dear where there is much to look at: that often it is done, and so many times a run at
/// most. In a run of a second that is at nearly every step; in one of an hour, every 100 ms.
const PERIOD_PER_TASK_NS: u64 = 2_000;
const CHECKS_MAX: u64 = 36_000;
/// How long a CPU may idle beside a task that could run there: kicks and interrupts take their time. Added to
/// whatever a fault may make a CPU pause for.
const IDLE_MAX_NS: u64 = 1_000_000;
const IDLE_MAX_WITH_FAULTS_NS: u64 = 12_000_000;
/// How many of a queue a CPU looks at that has nothing to do (STEAL_LOOKS).
const LOOKS_MAX: usize = 8;
/// A task that waits that long makes the kernel throw the scheduler out (scx_watchdog_timeout; `consort serve --watchdog` leaves it at that).
const WATCHDOG_NS: u64 = 30_000_000_000;
/// A task of nice 0 runs at least that often, however many others there are; a lighter one accordingly less.
const STARVATION_NS: u64 = 3_000_000_000;

impl Kernel {
    pub(crate) fn check_step(&mut self) {
        if self.now_ns < self.checked_at_ns
            || self.violation.is_some()
            || self.bypassed_at_ns > self.now_ns
        {
            return;
        }
        let period_ns = PERIOD_PER_TASK_NS * self.tasks.len() as u64;
        self.checked_at_ns = self.now_ns + period_ns.max(self.end_ns / CHECKS_MAX);
        self.check_waiting();
        self.check_limits();
        self.check_group_rates();
        if self.cpus.iter().all(|cpu| !cpu.in_kernel) {
            self.check_custody();
            let scheduler = self.scheduler();
            // SAFETY: the scheduler lives as long as the kernel.
            if let Some(violation) = unsafe { (*scheduler).check(self) } {
                self.violation.get_or_insert(violation);
            }
        }
    }

    /// A CPU that has nothing to do, and has known that for a while.
    fn idles(&self, cpu: Cpu, since_ns: u64) -> bool {
        let state = &self.cpus[cpu as usize];
        state.online
            && !state.in_kernel
            && state.current.is_none()
            && state.realtime.is_empty()
            && state.idle_since_ns < since_ns
    }

    fn check_waiting(&mut self) {
        let faults = &self.faults;
        let window_ns = if faults.pause + faults.timer_late + faults.timer_fails > 0.0 {
            IDLE_MAX_WITH_FAULTS_NS
        } else {
            IDLE_MAX_NS
        };
        let since_ns = self.now_ns.saturating_sub(window_ns);
        let idle: Vec<Cpu> = (0..self.machine.cpus())
            .filter(|cpu| self.idles(*cpu, since_ns))
            .collect();
        let mut found = None;
        for task in &self.tasks {
            if task.waits_since_ns == NEVER_NS || task.life != Life::Runnable || task.is_realtime()
            {
                continue;
            }
            let waits_ns = self.now_ns - task.waits_since_ns;
            if waits_ns > WATCHDOG_NS && self.attached {
                found = Some(("ejected", task.id, None, waits_ns));
                break;
            }
            if waits_ns > STARVATION_NS
                && waits_ns > self.starvation_ns(task.id)
                && !self.realtime_anywhere()
                && !self.may_be_held(task, since_ns)
                && !self.setup.punishes()
            {
                found = Some(("starvation", task.id, None, waits_ns));
                break;
            }
            if task.waits_since_ns.max(task.allowed_since_ns) >= since_ns
                || self.waits_for_realtime(task)
                || self.is_left_aside(task)
                || self.may_be_held(task, since_ns)
            {
                continue;
            }
            if let Some(cpu) = idle.iter().find(|cpu| self.is_for(task, **cpu)) {
                found = Some(("idle-beside-work", task.id, Some(*cpu), waits_ns));
                break;
            }
        }
        if let Some((rule, task, cpu, waits_ns)) = found {
            let name = self.task_name(task);
            let beside = cpu.map_or(String::new(), |cpu| format!(" while CPU {cpu} idles"));
            self.violate(
                rule,
                format!("{name} has waited for {} us{beside}", waits_ns / 1000),
            );
        }
    }

    /// Whether an idle CPU is to find the waiting task. One that may run on some CPUs only can wait behind others that
    /// may not run where a CPU idles: the scheduler looks at the first few of a queue.
    fn is_for(&self, task: &Task, cpu: Cpu) -> bool {
        if task.c.migration_disabled != 0 || !task.allowed.has(cpu) {
            return false;
        }
        let waits = |other: &&Task| other.waits_since_ns != NEVER_NS;
        task.allowed.count() == self.machine.cpus()
            || self.tasks.iter().filter(waits).count() <= LOOKS_MAX
    }

    /// A CPU that idles is given a task, and before it runs it a higher class takes the CPU: the kernel tells nobody,
    /// and the task stays in the kernel's queue.
    fn waits_for_realtime(&self, task: &Task) -> bool {
        let cpu = &self.cpus[task.cpu as usize];
        !cpu.released
            && task.dsq == Some(Dsq::Local(task.cpu))
            && cpu
                .current
                .is_some_and(|current| self.tasks[current as usize].is_realtime())
    }

    /// A task that a higher class has put aside goes elsewhere by its CPU's timer, and without that when the higher class is
    /// done (kernel/bpf/higher.h).
    fn is_left_aside(&self, task: &Task) -> bool {
        let cpu = &self.cpus[task.cpu as usize];
        // Or it is just choosing again.
        let is_taken = cpu.in_kernel
            || cpu
                .current
                .is_some_and(|current| self.tasks[current as usize].is_realtime());
        self.faults.timer_fails > 0.0 && is_taken
    }

    fn realtime_anywhere(&self) -> bool {
        self.tasks
            .iter()
            .any(|task| task.is_realtime() && task.life == Life::Runnable)
    }

    /// Lighter tasks, and those in lighter groups, may wait longer.
    fn starvation_ns(&self, task: TaskId) -> u64 {
        let task = &self.tasks[task as usize];
        let nice = (task.c.static_prio - 120).max(0);
        let lightness = 1.25f64.powi(nice);
        let mut group = 1.0f64;
        let mut at = Some(task.cgroup);
        while let Some(index) = at {
            group *= (100.0 / f64::from(self.cgroups[index].weight.max(1))).max(1.0);
            at = self.setup.cgroups[index].parent;
        }
        (STARVATION_NS as f64 * lightness * group) as u64
    }

    /// A runnable task runs, is in a queue of the kernel, or is the scheduler's.
    fn check_custody(&mut self) {
        let lost = self.tasks.iter().find(|task| {
            task.on_rq
                && !task.is_realtime()
                && task.enabled
                && self.cpus[task.cpu as usize].current != Some(task.id)
                && task.dsq.is_none()
                && !matches!(task.custody, Custody::Scheduler(_))
        });
        if let Some(task) = lost {
            let (id, custody) = (task.id, task.custody);
            let name = self.task_name(id);
            self.violate(
                "lost-task",
                format!("{name} is nowhere, custody is {custody:?}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{run, scenario};

    #[test]
    fn the_kernels_watchdog_looks_at_everybody() {
        let text = r#"{"global": {"duration": 40}, "tasks": {"a": {"hog": true},
            "light": {"hog": true, "priority": 19}}}"#;
        let setup = scenario::parse("watchdog.json", text).unwrap().setup;
        let turns: scenario::Configuration = "rr,quantum=60s".parse().unwrap();
        let violation = run(&setup, turns.scheduler(), &mut ()).unwrap().violation;
        let violation = violation.expect("a wait of 40 s");
        assert_eq!(violation.rule, "ejected");
        assert!(
            (30_000_000_000..30_200_000_000).contains(&violation.at_ns),
            "{violation:?}"
        );
        assert!(violation.detail.contains("light"), "{violation:?}");
    }
}
