// SPDX-License-Identifier: MIT OR Apache-2.0
//! What fixed reservations have promised, held at the end of a run: who always wants the CPU has had its rate.

use super::{Kernel, Life};
use crate::rates::{Rates, Reserve};
use crate::setup::{any_step, ActionKind, Program, Setup, Step};
use consort_rates::classes::Order;

const MILLION: f64 = 1e6;
/// A run on each level of the tree, and a late timer.
const SLICES_NS: f64 = 4.0 * 4_250_000.0;
/// Periods in which a rate need not be had: the one that has begun, and the one that was before it.
const PERIODS: f64 = 2.0;
/// What is promised of one CPU to tasks of that CPU, at most: the rest is for tasks without reservations.
const FULL: f64 = 0.95;

/// Whether reservations are what they were at first: nobody asks for another, and nothing is asked of the scheduler.
pub(super) fn stay(setup: &Setup) -> bool {
    let asks = |step: &Step| matches!(step, Step::Rates(_) | Step::Fork(_) | Step::Policy(_));
    let may_ask = |program: &Program| match program {
        Program::Steps(steps) => any_step(steps, &asks),
        _ => false,
    };
    let acts = |action: &crate::setup::Action| {
        matches!(
            action.what,
            ActionKind::Call(_) | ActionKind::Affinity { .. } | ActionKind::Tunables(_)
        )
    };
    let faults = &setup.faults;
    let is_sound = faults.allocation + faults.lookup + faults.timer_late + faults.pause <= 0.0;
    is_sound
        && setup.cpus_stay()
        && setup.pi_locks.is_empty()
        && !setup.actions.iter().any(acts)
        && !setup.tasks.iter().any(|task| may_ask(&task.program))
}

/// What the class can give of a rate: less if more has been promised than it has. None by the clock (order `rc`), which
/// promises nothing.
fn least_rate(rates: &Rates, reserve: &Reserve) -> Option<f64> {
    let class = rates.classes.get(reserve.class)?;
    let of_class = rates
        .reserved
        .iter()
        .filter(|it| it.1.class == reserve.class);
    let all: u64 = of_class.map(|it| it.1.rate).sum();
    let part = (class.capacity as f64 / all.max(1) as f64).min(1.0);
    (class.order != Order::Rc).then_some((part * reserve.rate as f64 / MILLION).min(1.0))
}

/// Whether a task that may not run everywhere is promised its rate all the same: on one CPU, which can give what is promised to
/// all of that mask, while no other mask's tasks share a promise with them. Admission looks at no masks.
fn is_promised_there(setup: &Setup, rates: &Rates, affinity: &[u32]) -> bool {
    let masks = rates
        .reserved
        .iter()
        .filter_map(|it| Some((setup.tasks[it.0].affinity.as_deref()?, it.1.rate)));
    let mut there = 0;
    for (mask, rate) in masks {
        if mask.len() != 1 {
            return false;
        }
        if mask == affinity {
            there += rate;
        }
    }
    affinity.len() == 1 && there as f64 <= FULL * MILLION
}

impl Kernel {
    /// Who has had less than its reserved rate, and in what words.
    pub(super) fn less_than_reserved(&self) -> Option<(&'static str, String)> {
        let rates = self.setup.rates.as_ref().filter(|_| stay(&self.setup))?;
        rates.reserved.iter().find_map(|(index, reserve)| {
            let plan = &self.setup.tasks[*index];
            let task = self.tasks.iter().find(|task| task.of == *index)?;
            let affinity = plan.affinity.as_ref();
            let is_steady = plan.program == Program::Hog
                && affinity.is_none_or(|cpus| is_promised_there(&self.setup, rates, cpus));
            // What is promised ends with what a cgroup may have at most.
            if !is_steady
                || self.is_limited(task.cgroup)
                || task.life != Life::Runnable
                || task.killed
                || task.was_refused
            {
                return None;
            }
            let rate = least_rate(rates, reserve)?;
            let since_ns = self.end_ns.saturating_sub(plan.start_ns?) as f64;
            let least_ns = rate * (since_ns - PERIODS * reserve.period_ns as f64) - SLICES_NS;
            let had_ns = self.runtime_ns(task.id) as f64;
            (had_ns < least_ns).then(|| {
                let (name, had, least) = (self.task_name(task.id), had_ns / 1e6, least_ns / 1e6);
                (
                    "reserved",
                    format!("{name} has had {had:.1} ms, reserved were {least:.1} at least"),
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{run, scenario};

    const TEXT: &str = r#"{"global": {"duration": 4}, "classes": {"half": {"capacity": "50%", "overbooking": 1.0}},
        "tasks": {"a": {"hog": true, "reserve": {"class": "half", "rate": 0.4, "period": "100ms"}},
                  "b": {"hog": true, "reserve": {"class": "half", "rate": 0.4, "period": "100ms"}},
                  "hog": {"hog": true, "instance": 9}}}"#;

    #[test]
    fn an_overbooked_class_promises_what_it_has() {
        let setup = scenario::parse("r.json", TEXT).unwrap().setup;
        let rates = setup.rates.as_ref().unwrap();
        assert!(stay(&setup));
        let least = least_rate(rates, &rates.reserved[0].1).unwrap();
        assert!((least - 0.25).abs() < 1e-9, "{least}");
    }

    #[test]
    fn nothing_is_promised_to_who_was_refused() {
        let text = TEXT.replace("1.0", "0.0");
        let setup = scenario::parse("r.json", &text).unwrap().setup;
        let outcome = run(&setup, crate::consort(), &mut ()).unwrap();
        assert_eq!(outcome.violation, None);
    }

    /// On two CPUs, `a` may run on the first, where three hogs are, and `b` on those of `mask`.
    fn masked(mask: &str) -> Setup {
        let text = format!(
            r#"{{"global": {{"duration": 2}}, "machine": {{"cpus": 2}}, "tasks": {{
                "a": {{"hog": true, "cpus": [0], "reserve": {{"class": "guaranteed", "rate": 0.5, "period": "20ms"}}}},
                "b": {{"hog": true, "cpus": {mask}, "reserve": {{"class": "guaranteed", "rate": 0.3, "period": "20ms"}}}},
                "hog": {{"hog": true, "instance": 3, "cpus": [0]}}}}}}"#
        );
        scenario::parse("m.json", &text).unwrap().setup
    }

    #[test]
    fn a_promise_on_one_cpu_counts_where_that_can_give_it() {
        for (mask, counts) in [("[1]", true), ("[0]", true), ("[0, 1]", false)] {
            let setup = masked(mask);
            let rates = setup.rates.as_ref().unwrap();
            assert_eq!(is_promised_there(&setup, rates, &[0]), counts, "{mask}");
            let outcome = run(&setup, crate::consort(), &mut ()).unwrap();
            assert_eq!(outcome.violation, None, "{mask}");
        }
        let setup = masked("[1]");
        let turns: scenario::Configuration = "rr".parse().unwrap();
        let mut kernel = Kernel::new(&setup, turns.scheduler(), &mut ()).unwrap();
        kernel.run().unwrap();
        for task in &mut kernel.tasks {
            task.life = Life::Runnable;
        }
        let (_, detail) = kernel
            .less_than_reserved()
            .expect("in turns it has a fourth of its CPU");
        assert!(detail.starts_with("a ("), "{detail}");
    }

    #[test]
    fn who_has_less_than_was_reserved_is_found() {
        let setup = scenario::parse("r.json", TEXT).unwrap().setup;
        let outcome = run(&setup, crate::consort(), &mut ()).unwrap();
        assert_eq!(outcome.violation, None);
        // In turns each has a ninth.
        let turns: scenario::Configuration = "rr".parse().unwrap();
        let mut kernel = Kernel::new(&setup, turns.scheduler(), &mut ()).unwrap();
        kernel.run().unwrap();
        for task in &mut kernel.tasks {
            task.life = Life::Runnable;
        }
        let (rule, detail) = kernel
            .less_than_reserved()
            .expect("a ninth of 4 s is not a quarter");
        assert!(rule == "reserved" && detail.starts_with("a ("), "{detail}");
    }
}
