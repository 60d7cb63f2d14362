// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scenarios of papers' figures (sim/papers) mean something, promise nothing that is refused, and break no promise.
//! What comes out of them is docs/papers.md's affair.

use std::{fs, path::Path};

use crate::common::{assert_fine, MS};
use consort_sim::report::{Recorder, Summary};
use consort_sim::scenario::Configuration;
use consort_sim::trace::{Event, What};
use consort_sim::{run, scenario};

/// Enough for everybody to have begun to run in all that do not begin later; and little for an unoptimised build.
const DURATION_NS: u64 = 1_200_000_000;
const CONFIGURATIONS: [&str; 4] = ["coop", "eevdf", "rc", "frc"];

#[test]
fn every_paper_s_scenario_runs_under_every_scheduler() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("papers");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let command = format!(" sim/papers/{name}\n");
        assert!(text.contains(&command), "{name} does not say how to run it");
        for configuration in CONFIGURATIONS {
            let summary = summary(name, &text, configuration);
            // Only Consort knows credits.
            if configuration != "coop" && text.contains("\"lend\"") {
                continue;
            }
            assert!(
                summary.refusals.is_empty(),
                "{name}: {:?}",
                summary.refusals
            );
        }
        seen += 1;
    }
    assert!(seen >= 19, "{seen} scenarios");
}

/// Figure 10a: with inheritance a tick is late by no more than a player holds the lock for, under any scheduler.
#[test]
fn the_clock_waits_for_as_long_as_a_lock_is_held() {
    for configuration in CONFIGURATIONS {
        let [inherits, ordinary] = gaps_max_ms("004-figure-10a", configuration, "clock");
        assert!(
            inherits < 12.5 && ordinary > 15.0,
            "{configuration}: {inherits} ms with inheritance, {ordinary} ms without"
        );
    }
}

/// A player waits for a program that has reserved nothing: Consort lends that its rate.
#[test]
fn a_player_does_not_wait_among_greedy_programs() {
    let [inherits, ordinary] = gaps_max_ms("004-figure-10a-display", "coop", "mpeg-0");
    assert!(
        inherits < 36.0 && ordinary > 42.0,
        "{inherits} ms, {ordinary} ms without"
    );
}

/// The longest time between two time stamps of a task: with locks that inherit, and with ordinary ones.
fn gaps_max_ms(name: &str, configuration: &str, task: &str) -> [f64; 2] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("papers/{name}.json"));
    let text = fs::read_to_string(path).unwrap();
    [true, false].map(|pi| {
        let text = text.replace("\"pi_enabled\": true", &format!("\"pi_enabled\": {pi}"));
        let mut scenario = scenario::parse(name, &text).unwrap();
        let configuration: Configuration = configuration.parse().unwrap();
        configuration.apply(&mut scenario.setup);
        scenario.setup.duration_ns = 3 * DURATION_NS;
        let index = scenario.setup.tasks.iter().position(|it| it.name == task);
        let (mut number, mut last_ns, mut most_ns) = (None, 0, 0);
        let mut note = |event: &Event| match event.what {
            What::Created { task, of } if Some(of) == index => number = Some(task),
            What::Served { task, .. } if Some(task) == number => {
                if last_ns > 0 {
                    most_ns = most_ns.max(event.at_ns - last_ns);
                }
                last_ns = event.at_ns;
            }
            _ => {}
        };
        assert_fine(&run(&scenario.setup, configuration.scheduler(), &mut note).unwrap());
        most_ns as f64 / MS as f64
    })
}

fn summary(name: &str, text: &str, configuration: &str) -> Summary {
    let mut scenario = scenario::parse(name, text).unwrap();
    let configuration: Configuration = configuration.parse().unwrap();
    scenario.setup.duration_ns = scenario.setup.duration_ns.min(DURATION_NS);
    configuration.apply(&mut scenario.setup);
    let mut recorder = Recorder::new(&scenario.setup, scenario.warmup_ns);
    let outcome = run(&scenario.setup, configuration.scheduler(), &mut recorder).unwrap();
    assert_fine(&outcome);
    recorder.finish(outcome.end_ns);
    Summary::new(name, &recorder, &outcome)
}
