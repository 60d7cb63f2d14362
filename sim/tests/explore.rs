// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random scenarios and faults break no promise. CONSORT_SIM_SEED says where to begin; the same scenarios come again
//! with the same seed.

use consort_sim::consort::Library;
use consort_sim::explore::{explore, try_apart, ExploreOptions, Verdict};
use std::time::Duration;

const TIME_MAX: Duration = Duration::from_secs(40);
const SEEDS: u64 = 4_000;

#[test]
fn random_scenarios_break_no_promise() {
    let first_seed = std::env::var("CONSORT_SIM_SEED").ok().map_or(0, |seed| {
        seed.parse().expect("CONSORT_SIM_SEED is a number")
    });
    println!("CONSORT_SIM_SEED={first_seed}");
    let options = ExploreOptions {
        first_seed,
        seeds: SEEDS,
        time_max: Some(TIME_MAX),
        shrink_runs_max: 500,
        ..ExploreOptions::default()
    };
    let result = explore(&options, &Library::built_in(), &mut |_| {}).unwrap();
    if let Some(failure) = result.failure {
        let violation = failure.violation.as_ref();
        panic!(
            "seed {} {:?}: {}\n{}\nreplay: consort sim run FILE, with this in FILE:\n{}",
            failure.seed,
            failure.verdict,
            violation.map_or_else(String::new, |it| format!("{}: {}", it.rule, it.detail)),
            violation.map_or_else(String::new, |it| it.state.join("\n")),
            serde_json::to_string(&failure.setup).unwrap()
        );
    }
    println!("{} scenarios", result.done);
    assert!(
        result.done > 100,
        "only {} scenarios in {TIME_MAX:?}",
        result.done
    );
}

#[test]
fn a_scenario_is_the_same_each_time() {
    let library = Library::built_in();
    for seed in [3, 1234] {
        let setup = consort_sim::explore::generate(seed);
        let verdict = try_apart(&setup, &library).unwrap();
        assert_eq!(verdict, try_apart(&setup, &library).unwrap());
        assert_eq!(verdict, Verdict::Fine);
    }
}
