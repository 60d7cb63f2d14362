// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules find what is wrong, and nothing where nothing is.

use super::*;
use crate::mixes::generate;
use crate::scenario::parse;
use crate::setup::Kernel;

fn judged(text: &str, configuration: &str) -> Mix {
    judge_as(&parse("mix.json", text).unwrap(), configuration).unwrap()
}

#[test]
fn turns_by_the_clock_are_not_fair() {
    // SCHED_RR knows no weights: the light one has as much as the heavy one.
    let text = r#"{"global": {"duration": 5}, "tasks": {"light": {"hog": true, "priority": 5}, "heavy": {"hog": true}}}"#;
    let mix = judged(text, "rr");
    let share = mix.share_ratio_min.unwrap();
    assert_eq!(share.task, "heavy");
    // Half of the CPU, of 1024 parts in 1024 + 335.
    assert!(
        (share.value - 0.5 * 1359.0 / 1024.0).abs() < 0.02,
        "{share:?}"
    );
    let lag = mix.fluid_lag.unwrap();
    assert!(lag.task == "heavy" && lag.lag_ms > 1000.0, "{lag:?}");
    assert!(
        mix.broken.iter().any(|it| it.contains("fluid ideal")),
        "{:?}",
        mix.broken
    );
}

#[test]
fn a_wait_is_held_against_the_stock_schedulers() {
    let text = r#"{"global": {"duration": 5}, "tasks": {"hog": {"hog": true, "instance": 5}}}"#;
    let mix = judged(text, "rr,quantum=100ms");
    assert!(mix.wait_ratio_max.value > 15.0, "{:?}", mix.wait_ratio_max);
    assert!(
        (mix.wait_max_ms.value - 400.0).abs() < 20.0,
        "{:?}",
        mix.wait_max_ms
    );
}

#[test]
fn late_due_events_are_held_against_the_stock_schedulers() {
    let text = r#"{"global": {"duration": 5}, "tasks": {"hog": {"hog": true, "instance": 3},
        "t": {"run": 500, "timer": {"ref": "x", "period": "20ms"}}}}"#;
    let mix = judged(text, "rr,quantum=20ms");
    assert!(
        mix.broken.iter().any(|it| it.contains("t is late")),
        "{:?}",
        mix.broken
    );
}

/// The model of the stock scheduler is right on one CPU without cgroups, where a timer ends slices (of 6.18 the tick does,
/// 4 ms apart): no rule says otherwise.
#[test]
fn where_the_stock_scheduler_is_right_no_rule_is_broken() {
    let mut judged = 0;
    for seed in 0..300 {
        let mut mix = generate(seed);
        let setup = &mut mix.setup;
        setup.machine.kernel = Kernel::V7_2;
        let is_flat = setup.tasks.iter().all(|task| task.cgroup == 0);
        if !is_flat || setup.machine.cpus() > 1 || setup.duration_ns > 10_000_000_000 {
            continue;
        }
        let found = judge_as(&mix, "eevdf").unwrap();
        let of_ideal = |text: &&String| text.contains("entitled") || text.contains("ideal");
        let broken: Vec<&String> = found.broken.iter().filter(of_ideal).collect();
        assert!(broken.is_empty(), "seed {seed}: {broken:?}");
        judged += 1;
    }
    assert!(judged >= 10, "{judged}");
}

#[test]
fn members_of_a_service_domain_are_equal_only_if_they_want_more() {
    let players = |loads: &str| {
        format!(
            r#"{{"global": {{"duration": 5}}, "domains": {{"d": {{"order": "service"}}}},
            "tasks": {{"p": {{"player": {{"domain": "d", "load": {loads}}}, "instance": 4}}}}}}"#
        )
    };
    let of_service = |loads: &str| {
        let mix = judged(&players(loads), "coop");
        mix.broken.iter().any(|text| text.contains("members of"))
    };
    assert!(!of_service("[0.05, 0.2]"), "all have what they ask for");
}
