// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scenarios of papers' figures (sim/papers) mean something, promise nothing that is refused, and break no promise.
//! What comes out of them is docs/papers.md's affair.

mod common;

use std::{fs, path::Path};

use common::assert_fine;
use consort_sim::report::{Recorder, Summary};
use consort_sim::scenario::Configuration;
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
    assert!(seen >= 17, "{seen} scenarios");
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
