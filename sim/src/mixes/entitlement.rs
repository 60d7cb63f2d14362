// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each task of a mix is entitled to over a window, from its text alone.
//!
//! Rule     Between two arrivals: the fluid ideal of who is there, each with no more than it asks for. A task that works and
//!          then sleeps is entitled to what it has if it runs at its part of the ideal whenever it wants to: it asks later,
//!          then. Over the window: the mean. Where others come in bursts at the same time, it has less even in the ideal:
//!          no more than where the mix runs in the ideal itself (poured.rs). And it may wait for a slice each time.
//! Limits   Nobody is known to end before the run does, and others ask for as much as they would alone: a task is entitled
//!          to at least this.

use super::poured::poured;
use crate::fluid::{demand, is_defined, weight_of_nice, Claim, Demand, Ideal};
use crate::setup::{any_step, Program, Setup, Step};
use std::collections::{BTreeMap, BTreeSet};

/// The scheduler's own granularity and least slice.
const SLICE_MAX_NS: f64 = 4e6;
const SLICE_MIN_NS: f64 = 5e5;

/// Of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entitled {
    /// With what it asks for when it is served at once.
    pub most: f64,
    /// When it runs at its part of the ideal.
    pub least: f64,
    /// Whether its text says what it asks for; else it may have asked for less.
    pub is_exact: bool,
    /// Whether anything is known of what it asks for.
    pub is_known: bool,
}

/// By task; none where somebody's weight or mask changes, or the number of tasks is not known.
pub fn entitled(setup: &Setup, from_ns: u64, to_ns: u64) -> Option<Vec<Entitled>> {
    let forks = |program: &Program| match program {
        Program::Steps(steps) => any_step(steps, &|step| matches!(step, Step::Fork(_))),
        _ => false,
    };
    if !is_defined(setup) || to_ns <= from_ns || setup.tasks.iter().any(|it| forks(&it.program)) {
        return None;
    }
    let demands: Vec<Demand> = setup
        .tasks
        .iter()
        .map(|task| demand(&task.program))
        .collect();
    let known = |demand: &Demand| Entitled {
        is_exact: demand.is_exact(),
        is_known: *demand != Demand::Unknown,
        ..Entitled::default()
    };
    let mut all: Vec<Entitled> = demands.iter().map(known).collect();
    let starts = setup.tasks.iter().filter_map(|task| task.start_ns);
    let mut times: BTreeSet<u64> = starts.filter(|at| (from_ns..to_ns).contains(at)).collect();
    times.extend([from_ns, to_ns]);
    let times: Vec<u64> = times.into_iter().collect();
    for epoch in times.windows(2) {
        let part = (epoch[1] - epoch[0]) as f64 / (to_ns - from_ns) as f64;
        add_epoch(setup, &demands, epoch[0], part, &mut all);
    }
    if let Some(shares) = poured(setup, from_ns, to_ns) {
        for (it, share) in all.iter_mut().zip(shares) {
            it.least = it.least.min(share);
        }
    }
    for (it, demand) in all.iter_mut().zip(&demands) {
        if let (Demand::Closed { run_ns, .. }, true) = (demand, it.least > 0.0) {
            it.least = run_ns / (run_ns / it.least + slice_ns(setup));
        }
    }
    Some(all)
}

/// How long somebody may run before he is compared again, where all are there.
fn slice_ns(setup: &Setup) -> f64 {
    let each = setup.tasks.len().div_ceil(setup.machine.cpus() as usize);
    (SLICE_MAX_NS / each.max(1) as f64).max(SLICE_MIN_NS)
}

/// Adds what those are entitled to that are there at a time.
fn add_epoch(setup: &Setup, demands: &[Demand], at_ns: u64, part: f64, all: &mut [Entitled]) {
    let is_there = |at: &usize| {
        setup.tasks[*at]
            .start_ns
            .is_some_and(|start| start <= at_ns)
    };
    let there: Vec<usize> = (0..setup.tasks.len()).filter(is_there).collect();
    let mut ideal = Ideal::of(setup);
    let claims: Vec<Claim> = there
        .iter()
        .map(|&at| {
            let task = &setup.tasks[at];
            Claim {
                group: task.cgroup,
                weight: weight_of_nice(task.nice),
                most: demands[at].most(),
                set: ideal.set_of(task.affinity.as_deref()),
            }
        })
        .collect();
    let shares = ideal.shares(&claims);
    // Tasks that are alike have the same part while they run.
    let mut rates: BTreeMap<(usize, u64, u64, usize), f64> = BTreeMap::new();
    for (number, &at) in there.iter().enumerate() {
        all[at].most += part * shares[number];
        let Demand::Closed { .. } = demands[at] else {
            all[at].least += part * shares[number];
            continue;
        };
        let claim = claims[number];
        let kind = (
            claim.group,
            claim.weight.to_bits(),
            claim.most.to_bits(),
            claim.set,
        );
        let rate = *rates.entry(kind).or_insert_with(|| {
            let mut claims = claims.clone();
            claims[number].most = 1.0;
            ideal.shares(&claims)[number]
        });
        all[at].least += part * demands[at].at_rate(rate).min(shares[number]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn of(text: &str) -> Vec<Entitled> {
        let setup = crate::scenario::parse("e.json", text).unwrap().setup;
        entitled(&setup, 0, setup.duration_ns).unwrap()
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value}, not {expected}");
    }

    #[test]
    fn who_comes_late_takes_nothing_before() {
        let text = r#"{"global": {"duration": 10}, "tasks": {"a": {"hog": true}, "late": {"hog": true, "delay": "5s"}}}"#;
        let all = of(text);
        assert_near(all[0].least, 0.75);
        assert_near(all[1].least, 0.25);
    }

    #[test]
    fn who_sleeps_is_entitled_to_its_part_whenever_it_wants_it() {
        let text = r#"{"tasks": {"hog": {"hog": true, "instance": 3}, "s": {"run": 2000, "sleep": 20000}}}"#;
        let all = of(text);
        assert_near(all[3].most, 2.0 / 22.0);
        assert_near(all[3].least, 2.0 / 29.0);
        assert_near(all[0].least, (1.0 - 2.0 / 22.0) / 3.0);
    }

    #[test]
    fn what_cannot_be_known_is_not_judged() {
        let text =
            r#"{"tasks": {"a": {"hog": true}}, "actions": [{"at": "1s", "nice": 5, "task": "a"}]}"#;
        let setup = crate::scenario::parse("e.json", text).unwrap().setup;
        assert_eq!(entitled(&setup, 0, S), None);
        let ends = of(r#"{"tasks": {"a": {"hog": true}, "b": {"loop": 3, "run": 1000}}}"#);
        assert!(!ends[1].is_known && ends[0].is_exact);
        assert_near(ends[0].least, 0.5);
    }
}
