// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same players in the simulator and on the real kernel, as `bench/run --only validation` has measured them there
//! last: tardiness within 10 %.

use crate::common::{assert_fine, Tardiness, S};
use consort_sim::scenario;
use consort_sim::trace::Event;
use consort_sim::{consort, run};
use serde_json::Value;

const PLAYERS: std::ops::RangeInclusive<u64> = 4..=12;
/// As the bench: a start is a seed, and what counts is the median of three.
const STARTS: [u64; 3] = [1, 2, 3];
const ERROR_MAX_PERCENT: f64 = 10.0;
/// The way from a timer's interrupt to the program on an idle CPU: see bench/consort_bench/experiments/validation.py.
const FLOOR_MS: f64 = 0.01;
const WARMUP_NS: u64 = 5 * S / 2;

/// Mean and 99th percentile of one start.
fn simulate(count: u64, seed: u64) -> (f64, f64) {
    let text = format!(
        r#"{{
            "global": {{ "duration": "22.5s", "seed": {seed} }},
            "domains": {{ "bench": {{ "event": "1.2ms" }} }},
            "tasks": {{ "player": {{ "instance": {count}, "delay": "0.5s", "player": {{ "domain": "bench" }} }} }}
        }}"#
    );
    let setup = scenario::parse("players.json", &text).unwrap().setup;
    let mut tardiness = Tardiness {
        from_ns: WARMUP_NS,
        ..Tardiness::default()
    };
    let mut note = |event: &Event| tardiness.note(event);
    let outcome = run(&setup, consort(), &mut note).unwrap();
    assert_fine(&outcome);
    (tardiness.mean_ms(), tardiness.percentile_ms(99.0))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The guest's side of a row of results.json.
fn measured_ms(results: &Value, count: u64, statistic: &str) -> f64 {
    let id = format!("sim.validation.n{count}.tardiness_{statistic}_ms");
    let row = results
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == id.as_str());
    let row = row.unwrap_or_else(|| {
        panic!("{id} is not in docs/results: run `bench/run --only validation`")
    });
    row["against"]["guest"].as_f64().unwrap()
}

fn error_percent(simulated_ms: f64, measured_ms: f64) -> f64 {
    let apart_ms = ((simulated_ms - measured_ms).abs() - FLOOR_MS).max(0.0);
    apart_ms / measured_ms * 100.0
}

#[test]
fn tardiness_is_that_of_the_kernel() {
    let text = include_str!("../../docs/results/results.json");
    let results: Value = serde_json::from_str(text).unwrap();
    let mut worst: f64 = 0.0;
    println!("players  mean: guest, simulated  p99: guest, simulated");
    for count in PLAYERS {
        let starts = STARTS.map(|seed| simulate(count, seed));
        let mean_ms = median(starts.iter().map(|it| it.0).collect());
        let p99_ms = median(starts.iter().map(|it| it.1).collect());
        let (mean, p99) = (
            measured_ms(&results, count, "mean"),
            measured_ms(&results, count, "p99"),
        );
        println!("{count:7}  {mean:.4} {mean_ms:.4}  {p99:.4} {p99_ms:.4}");
        worst = worst
            .max(error_percent(mean_ms, mean))
            .max(error_percent(p99_ms, p99));
    }
    println!("worst error: {worst:.1} %");
    assert!(worst <= ERROR_MAX_PERCENT, "{worst} %");
}
