// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run in numbers: what the table, the page and the JSON file show.

use serde::Serialize;

use super::{
    distribution::{ms, Distribution},
    recorder::{Recorder, TaskRecord},
};
use crate::{
    fluid::Behind,
    groups::RoleTotal,
    trace::{Outcome, Violation},
};

/// One task, or several that are instances of the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    pub name: String,
    /// How many tasks it is about.
    pub tasks: usize,
    /// CPU time, of one CPU.
    pub share_percent: f64,
    /// The least and the most share that each of them had in any second; none where the run is shorter.
    pub any_second_percent: Option<(f64, f64)>,
    pub switches_per_s: f64,
    pub migrations_per_s: f64,
    pub wakeups_per_s: f64,
    pub wait_max_ms: f64,
    pub tardiness: Distribution,
    pub polls_per_s: f64,
    /// The part of the polls that entered the kernel.
    pub polls_in_kernel_percent: f64,
    pub frames_per_s: f64,
}

/// All of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// What was run: the scenario, and how it was scheduled.
    pub title: String,
    /// What the numbers do not show: where the model was compared with no kernel, and what it does not have.
    pub limits: Vec<String>,
    pub window_s: f64,
    /// Those that were offline for a time included.
    pub cpus: usize,
    /// Of the time that CPUs were online.
    pub idle_percent: f64,
    pub decisions_per_s: f64,
    /// Faults that were injected.
    pub faults: u64,
    /// What the daemon did not grant, and why.
    pub refusals: Vec<String>,
    /// How many of these were reservations.
    pub refused_reservations: usize,
    pub total: Row,
    /// By scenario task, in the order of the scenario.
    pub groups: Vec<Row>,
    /// Every task.
    pub tasks: Vec<Row>,
    pub counters: Vec<(&'static str, u64)>,
    /// What became of the intervals of roles in groups, from the beginning on.
    pub roles: Vec<RoleTotal>,
    /// Who was furthest behind the fluid ideal, where that is defined.
    pub fluid_lag: Option<Behind>,
    pub violation: Option<Violation>,
}

impl Summary {
    /// Of a run that has ended; `recorder` must have been told so.
    pub fn new(title: &str, recorder: &Recorder, outcome: &Outcome) -> Self {
        let window_s = (recorder.window_ns() as f64 / 1e9).max(f64::MIN_POSITIVE);
        let records: Vec<&TaskRecord> = recorder.tasks().iter().collect();
        let mut total = row("all", &records, window_s);
        total.switches_per_s = recorder.switches() as f64 / window_s;
        let run_ns: u64 = records.iter().map(|record| record.run_ns).sum();
        let run_s = outcome.end_ns as f64 / 1e9;
        Self {
            title: title.to_owned(),
            limits: Vec::new(),
            window_s,
            cpus: recorder.cpus(),
            // Who sends the last task away from a CPU that goes offline may still do so when it counts as offline.
            idle_percent: (100.0 - 100.0 * run_ns as f64 / recorder.capacity_ns().max(1) as f64)
                .max(0.0),
            decisions_per_s: outcome.decisions as f64 / run_s.max(f64::MIN_POSITIVE),
            faults: recorder.faults(),
            refusals: recorder.refusals().to_vec(),
            refused_reservations: recorder.refused_reservations(),
            total,
            groups: groups(&records, window_s),
            tasks: records
                .iter()
                .map(|record| row(&record.name, &[record], window_s))
                .collect(),
            counters: outcome.counters.clone(),
            roles: outcome.roles.clone(),
            fluid_lag: outcome.fluid_lag.clone(),
            violation: outcome.violation.clone(),
        }
    }
}

fn row(name: &str, records: &[&TaskRecord], window_s: f64) -> Row {
    let sum =
        |value: fn(&TaskRecord) -> u64| records.iter().map(|record| value(record)).sum::<u64>();
    let per_s = |value: fn(&TaskRecord) -> u64| sum(value) as f64 / window_s;
    let mut late_ns: Vec<u64> = records
        .iter()
        .flat_map(|record| record.tardiness_ns.iter().copied())
        .collect();
    late_ns.sort_unstable();
    let longest_ns = records.iter().map(|record| record.wait_max_ns).max();
    let polls = sum(|record| record.polls);
    Row {
        name: name.to_owned(),
        tasks: records.len(),
        share_percent: per_s(|record| record.run_ns) / 1e7,
        any_second_percent: any_second_percent(records, window_s),
        switches_per_s: per_s(|record| record.switches),
        migrations_per_s: per_s(|record| record.migrations),
        wakeups_per_s: per_s(|record| record.wakeups),
        wait_max_ms: ms(longest_ns.unwrap_or(0)),
        tardiness: Distribution::of_sorted_ns(&late_ns),
        polls_per_s: per_s(|record| record.polls),
        polls_in_kernel_percent: 100.0 * sum(|record| record.polls_in_kernel) as f64
            / polls.max(1) as f64,
        frames_per_s: per_s(|record| record.frames_shown),
    }
}

fn any_second_percent(records: &[&TaskRecord], window_s: f64) -> Option<(f64, f64)> {
    let seconds = records
        .iter()
        .filter_map(|record| record.any_second_ns((window_s * 1e9) as u64));
    let both = seconds.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    both.map(|(least, most)| (least as f64 / 1e7, most as f64 / 1e7))
}

/// The name without an instance's number, or a fork's.
pub fn group_name(name: &str) -> &str {
    let name = without_number(name, '+');
    without_number(name, '-')
}

fn without_number(name: &str, mark: char) -> &str {
    match name.rsplit_once(mark) {
        Some((stem, number))
            if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            stem
        }
        _ => name,
    }
}

fn groups(records: &[&TaskRecord], window_s: f64) -> Vec<Row> {
    let mut groups: Vec<(&str, Vec<&TaskRecord>)> = Vec::new();
    for record in records {
        let name = group_name(&record.name);
        // Instances follow each other; forks may not.
        match groups.iter_mut().rev().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(record),
            None => groups.push((name, vec![record])),
        }
    }
    let row_of = |(name, members): &(&str, Vec<&TaskRecord>)| match members.len() {
        1 => row(name, members, window_s),
        count => row(&format!("{name} x {count}"), members, window_s),
    };
    groups.iter().map(row_of).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        report::recorder::tests::{setup, two_tasks, MS},
        trace::Observer,
    };

    pub fn summary() -> Summary {
        let mut recorder = Recorder::new(&setup(), 0);
        for event in two_tasks() {
            recorder.event(&event);
        }
        recorder.finish(40 * MS);
        let outcome = Outcome {
            end_ns: 40 * MS,
            decisions: 8,
            ..Outcome::default()
        };
        Summary::new("two, coop", &recorder, &outcome)
    }

    #[test]
    fn numbers_are_of_the_window() {
        let summary = summary();
        let [a, b] = summary.tasks.as_slice() else {
            panic!("two tasks")
        };
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-6;
        assert!(near(a.share_percent, 92.5) && near(b.share_percent, 5.0));
        assert!(near(summary.idle_percent, 2.5), "{}", summary.idle_percent);
        assert!(near(summary.total.switches_per_s, 75.0));
        assert!(near(summary.decisions_per_s, 200.0));
        assert_eq!(b.tardiness.count, 1);
        assert!(near(b.tardiness.max_ms, 3.0) && near(b.wait_max_ms, 10.0));
        assert!(near(b.polls_in_kernel_percent, 100.0));
    }

    #[test]
    fn instances_and_forks_are_one_group() {
        for (name, group) in [
            ("player-11", "player"),
            ("player-1+2", "player"),
            ("job+3", "job"),
            ("kworker-a", "kworker-a"),
            ("x-", "x-"),
            ("plain", "plain"),
        ] {
            assert_eq!(group_name(name), group, "{name}");
        }
    }
}
