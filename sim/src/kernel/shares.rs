// SPDX-License-Identifier: MIT OR Apache-2.0
//! What everybody has had at the end of a run, held against what he is entitled to. On one CPU, where nobody's weight
//! changes and no higher class takes part of it: what would be fair is plain there.

use super::{Kernel, Life, Task};
use crate::setup::{Length, Program, Setup, Step};
use crate::trace::TaskId;

/// The longest slice by default, how far a domain may borrow, its longest event with grace, and what a late timer adds.
const SLICE_MAX_NS: u64 = 4_000_000;
const WINDOW_NS: u64 = 6_000_000;
const GRACE_NS: u64 = 2_250_000;
const TIMER_LATE_NS: u64 = 3_200_000;
/// The shortest slice by default, and after how long a waiting task runs whatever its weight (LIVE_WAIT_NS).
const SLICE_MIN_NS: f64 = 500_000.0;
const LIVE_WAIT_NS: f64 = 1_500_000_000.0;

/// Runs its period's work in each period, by an absolute timer: (period, work) in ns.
pub(crate) fn punctual(program: &Program) -> Option<(u64, u64)> {
    let Program::Steps(steps) = program else {
        return None;
    };
    let [Step::Loop { times: None, steps }] = &steps[..] else {
        return None;
    };
    match &steps[..] {
        [Step::Timer {
            period_ns,
            absolute: true,
            ..
        }, Step::Run(Length::Fixed(work_ns))] => Some((*period_ns, *work_ns)),
        _ => None,
    }
}

/// What competes below the root, in weights of nice 0: tasks by their nice values, cgroups by theirs.
pub(crate) fn root_weight(setup: &Setup) -> f64 {
    let tasks = setup.tasks.iter().filter(|task| task.cgroup == 0);
    let groups = setup.cgroups.iter().filter(|it| it.parent == Some(0));
    tasks.map(|task| weight_of(task.nice)).sum::<f64>()
        + groups.map(|it| f64::from(it.weight) / 100.0).sum::<f64>()
}

pub(crate) fn weight_of(nice: i32) -> f64 {
    1.25f64.powi(-nice)
}

impl Kernel {
    pub(crate) fn check_shares(&mut self) {
        // SAFETY: the scheduler lives as long as the kernel.
        let promises = unsafe { (*self.scheduler()).name() } == "consort";
        let is_simple = self.machine.cpus() == 1
            && self.setup.rates.is_none()
            && self.setup.weights_stay()
            && self.setup.scheduler_stays();
        if !promises || self.violation.is_some() {
            return;
        }
        let of_shares = || {
            self.unequal_shares()
                .or_else(|| self.greedy_domain())
                .or_else(|| self.late_punctual())
        };
        let simple = is_simple.then(of_shares).flatten();
        let found = simple.or_else(|| self.less_than_reserved());
        if let Some((rule, detail)) = found {
            self.violate(rule, detail);
        }
    }

    fn weight(&self, task: &Task) -> f64 {
        weight_of(task.c.static_prio - 120)
    }

    /// How long whoever runs may do so before it is compared.
    fn quantum_ns(&self) -> f64 {
        let tunables = self.setup.tunables;
        let slice_ns = tunables.granularity_ns.unwrap_or(0).max(SLICE_MAX_NS);
        (slice_ns + TIMER_LATE_NS) as f64
    }

    fn is_steady_hog(&self, task: &Task) -> bool {
        let plan = &self.setup.tasks[task.of];
        plan.program == Program::Hog
            && plan.start_ns == Some(0)
            && task.life == Life::Runnable
            && !task.is_realtime()
            // In a group its function says when, and the group's other members may do so at its cost.
            && !self.setup.may_join(task.of)
    }

    fn steady_hogs(&self) -> Vec<&Task> {
        let tasks = self.tasks.iter();
        tasks.filter(|task| self.is_steady_hog(task)).collect()
    }

    /// How often one of two may have been given a slice because it had waited for too long (core/live.h): only where a round
    /// of everybody's slices, at the lighter one's weight, takes as long as that, or where one has had so little, by the weights
    /// of its cgroups, that it may have been for that alone.
    fn rescues(&self, hogs: &[&Task], one: &Task, other: &Task) -> f64 {
        let (a, b) = (self.weight(one), self.weight(other));
        let round_ns = hogs.len() as f64 * SLICE_MIN_NS * a.max(b) / a.min(b);
        let rescues = self.end_ns as f64 / LIVE_WAIT_NS;
        let had_ns = self.runtime_ns(one.id).min(self.runtime_ns(other.id));
        match round_ns < LIVE_WAIT_NS && had_ns as f64 > 2.0 * rescues * SLICE_MIN_NS {
            true => 0.0,
            false => rescues,
        }
    }

    /// Theorem 2, Corollary 2.1: of two members of a group that never stopped wanting the CPU, neither has had more
    /// than the other, each by its weight, by a slice of each.
    fn unequal_shares(&self) -> Option<(&'static str, String)> {
        let hogs = self.steady_hogs();
        hogs.iter().enumerate().find_map(|(at, one)| {
            let other = hogs[at + 1..].iter().find(|other| {
                let (a, b) = (self.weight(one), self.weight(other));
                let had = |task: &Task| task.c.se.sum_exec_runtime as f64;
                let apart_ns = had(one) / a - had(other) / b;
                let slices = 1.0 + self.rescues(&hogs, one, other);
                one.cgroup == other.cgroup
                    && apart_ns.abs() > slices * self.quantum_ns() * (1.0 / a + 1.0 / b)
            })?;
            let text = |task: TaskId| {
                format!(
                    "{} of nice {} has had {} us",
                    self.task_name(task),
                    self.nice(task),
                    self.runtime_ns(task) / 1000
                )
            };
            Some((
                "unequal-shares",
                format!("{}, {}", text(one.id), text(other.id)),
            ))
        })
    }

    /// A domain gets no more than its members would have had beside somebody who always wants the CPU, but for what it
    /// may borrow.
    fn greedy_domain(&self) -> Option<(&'static str, String)> {
        let hog = self
            .steady_hogs()
            .into_iter()
            .find(|task| task.cgroup == 0)?;
        let members: Vec<&Task> = self
            .tasks
            .iter()
            .filter(|task| self.setup.may_join(task.of) && !task.is_realtime())
            .collect();
        if members.iter().any(|task| task.cgroup != 0) {
            return None;
        }
        let weight: f64 = members.iter().map(|task| self.weight(task)).sum();
        let had_ns: u64 = members.iter().map(|task| self.runtime_ns(task.id)).sum();
        let fair_ns = self.runtime_ns(hog.id) as f64 / self.weight(hog) * weight;
        let each_ns = 2.0 * self.quantum_ns() + (WINDOW_NS + GRACE_NS) as f64;
        // A slice of nice 0 may be borrowed in virtual time, whatever the domain weighs.
        let ahead_ns = self.quantum_ns() * (weight / self.weight(hog)).max(weight);
        let most_ns = fair_ns + ahead_ns + each_ns * members.len() as f64;
        (had_ns as f64 > most_ns).then(|| {
            let (had_us, most_us) = (had_ns / 1000, most_ns as u64 / 1000);
            (
                "greedy-domain",
                format!("members have had {had_us} us, {most_us} us at most were theirs"),
            )
        })
    }

    /// Theorem 1: a task that asks for no more than its rate in each period, and asks in time, has had it a period later, and
    /// a moment that does not grow.
    fn late_punctual(&self) -> Option<(&'static str, String)> {
        // Tasks of a cgroup for which there was no memory compete in its parent's group, by their own weights.
        if !self.setup.cpus_stay() || (self.memory_failed && self.cgroups.len() > 1) {
            return None;
        }
        let all = root_weight(&self.setup);
        self.tasks.iter().find_map(|task| {
            let plan = &self.setup.tasks[task.of];
            let (period_ns, work_ns) = punctual(&plan.program)?;
            let rate = self.weight(task) / all;
            let is_steady = task.life != Life::Dead && !task.killed && plan.start_ns.is_some();
            if plan.cgroup != 0
                || self.setup.plays(task.of)
                || !is_steady
                || work_ns as f64 > rate * period_ns as f64
            {
                return None;
            }
            let others = self.setup.tasks.len() as f64;
            let lag_ns =
                2.0 * (others * self.quantum_ns() + (self.quantum_ns() + work_ns as f64) / rate);
            let asked_ns = self.end_ns.saturating_sub(plan.start_ns?) as f64 - lag_ns;
            let periods = (asked_ns / period_ns as f64).floor() - 1.0;
            let least_ns = periods.max(0.0) * work_ns as f64;
            let had_ns = self.runtime_ns(task.id);
            (least_ns > had_ns as f64).then(|| {
                let (name, had_us) = (self.task_name(task.id), had_ns / 1000);
                (
                    "late",
                    format!(
                        "{name} has had {had_us} us of {} us that it asked for in time",
                        least_ns as u64 / 1000
                    ),
                )
            })
        })
    }
}
