// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a scenario came to, and rows of that.

use super::assert_fine;
use consort_sim::report::{Recorder, Row, Summary};
use consort_sim::setup::Action;
use consort_sim::{consort, run, scenario, Scheduler};

pub const SEEDS: [u64; 3] = [1, 2, 3];

/// A run under Consort in which no promise was broken.
pub fn summary(text: &str, seed: u64) -> Summary {
    summary_under(consort(), text, Some(seed))
}

/// The same under any scheduler; without a seed it is the scenario's.
pub fn summary_under(scheduler: Box<dyn Scheduler>, text: &str, seed: Option<u64>) -> Summary {
    summary_of(scheduler, text, &[], seed)
}

/// The same with what happens from outside besides.
pub fn summary_of(
    scheduler: Box<dyn Scheduler>,
    text: &str,
    actions: &[Action],
    seed: Option<u64>,
) -> Summary {
    let mut scenario = scenario::parse("test.json", text).unwrap();
    scenario.setup.seed = seed.unwrap_or(scenario.setup.seed);
    scenario.setup.actions.extend_from_slice(actions);
    let mut recorder = Recorder::new(&scenario.setup, scenario.warmup_ns);
    let outcome = run(&scenario.setup, scheduler, &mut recorder).unwrap();
    assert_fine(&outcome);
    recorder.finish(outcome.end_ns);
    Summary::new("test", &recorder, &outcome)
}

/// One task, or all the instances of it.
pub fn row<'a>(summary: &'a Summary, name: &str) -> &'a Row {
    let is_it = |row: &&Row| row.name.split(" x ").next() == Some(name);
    let found = summary.groups.iter().find(is_it);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", summary.groups))
}

pub fn share(summary: &Summary, name: &str) -> f64 {
    row(summary, name).share_percent
}
