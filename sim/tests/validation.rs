// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same players in the simulator and on the real kernel (validation/players.json): tardiness within 10 %.

mod common;

use common::{assert_fine, empty, task, Tardiness, MS, S};
use consort_sim::random::Random;
use consort_sim::setup::{Kernel, Machine, Player, Program, Task};
use consort_sim::trace::Event;
use consort_sim::{consort, run};

const BEGIN_NS: u64 = S / 2;
const WINDOW_NS: u64 = 20 * S;
const PERIOD_NS: u64 = S / 24;
const ERROR_MAX_PERCENT: f64 = 10.0;
/// What a tardiness is told to in the guest: its mean of four players is 50 us, and an interrupt takes some.
const RESOLUTION_MS: f64 = 0.01;

/// As bench/player makes them from a seed.
fn players(count: u64, seed: u64) -> Vec<Task> {
    let mut random = Random::new(seed);
    let gap_ns = PERIOD_NS as f64 / count as f64;
    let mut player = |index: u64| {
        let jitter = (random.unit() * 2.0 - 1.0) * 0.25;
        let phase_ns = ((index as f64 + 1.0 + jitter) * gap_ns) as u64;
        Program::Player(Player {
            load: 1.0 / 6.5,
            chunk_ns: MS,
            seed: random.next_u64(),
            first_due_ns: BEGIN_NS + PERIOD_NS + phase_ns,
            domain: Some(0),
        })
    };
    (0..count)
        .map(|index| task("player", player(index)))
        .collect()
}

fn error_percent(simulated_ms: f64, measured_ms: f64) -> f64 {
    let apart_ms = ((simulated_ms - measured_ms).abs() - RESOLUTION_MS).max(0.0);
    apart_ms / measured_ms * 100.0
}

#[test]
fn tardiness_is_that_of_the_kernel() {
    let text = include_str!("../validation/players.json");
    let measured: serde_json::Value = serde_json::from_str(text).unwrap();
    let mut worst: f64 = 0.0;
    println!("players  mean: guest, simulated  p99: guest, simulated");
    for row in measured["players"].as_array().unwrap() {
        let number = |name: &str| row[name].as_f64().unwrap();
        let count = row["players"].as_u64().unwrap();
        let mut setup = empty(
            Machine::simple(1, 1, Kernel::V7_2),
            BEGIN_NS + 2 * S + WINDOW_NS,
        );
        setup.tasks = players(count, 1);
        let mut tardiness = Tardiness {
            from_ns: BEGIN_NS + 2 * S,
            ..Tardiness::default()
        };
        let outcome = run(&setup, consort(), &mut |event: &Event| {
            tardiness.note(event)
        })
        .unwrap();
        assert_fine(&outcome);
        let (mean_ms, p99_ms) = (tardiness.mean_ms(), tardiness.percentile_ms(99.0));
        println!(
            "{count:7}  {:.4} {mean_ms:.4}  {:.4} {p99_ms:.4}",
            number("mean_ms"),
            number("p99_ms")
        );
        worst = worst
            .max(error_percent(mean_ms, number("mean_ms")))
            .max(error_percent(p99_ms, number("p99_ms")));
    }
    println!("worst error: {worst:.1} %");
    assert!(worst <= ERROR_MAX_PERCENT, "{worst} %");
}
