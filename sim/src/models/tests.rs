// SPDX-License-Identifier: MIT OR Apache-2.0
//! The models in whole runs: shares, and what guests measured of the kernel's own.

use crate::{
    explore::generate,
    models::{Eevdf, RoundRobin},
    report::{Recorder, Summary},
    run,
    scenario::parse,
    Scheduler,
};

fn summary(text: &str, scheduler: Box<dyn Scheduler>) -> Summary {
    let scenario = parse("test.json", text).unwrap();
    let mut recorder = Recorder::new(&scenario.setup, scenario.warmup_ns);
    let outcome = run(&scenario.setup, scheduler, &mut recorder).unwrap();
    recorder.finish(outcome.end_ns);
    assert_eq!(outcome.violation, None, "{text}");
    Summary::new("test", &recorder, &outcome)
}

fn shares(summary: &Summary) -> Vec<f64> {
    summary
        .tasks
        .iter()
        .map(|task| task.share_percent)
        .collect()
}

fn eevdf() -> Box<dyn Scheduler> {
    Box::new(Eevdf::new(None))
}

fn round_robin() -> Box<dyn Scheduler> {
    Box::new(RoundRobin::new(None))
}

const NICE_HOGS: &str = r#"{"tasks": {"a": {"hog": true}, "b": {"hog": true, "priority": 5}}}"#;

#[test]
fn nice_values_count_for_eevdf_and_not_for_round_robin() {
    let fair = shares(&summary(NICE_HOGS, eevdf()));
    let ratio = fair[0] / fair[1];
    assert!((1024.0 / 335.0 - ratio).abs() < 0.03, "{ratio}");
    let equal = shares(&summary(NICE_HOGS, round_robin()));
    assert!((equal[0] - equal[1]).abs() < 0.5, "{equal:?}");
}

#[test]
fn no_cpu_idles_while_there_is_work_and_nobody_starves() {
    let text = r#"{"global": {"duration": 4}, "machine": {"cpus": 4, "llc": 2},
        "tasks": {"h": {"instance": 6, "hog": true}, "pinned": {"hog": true, "cpus": [2]}}}"#;
    for scheduler in [eevdf(), round_robin()] {
        let name = scheduler.name();
        let summary = summary(text, scheduler);
        assert!(
            summary.idle_percent < 0.1,
            "{name}: {}",
            summary.idle_percent
        );
        for share in shares(&summary) {
            assert!((20.0..101.0).contains(&share), "{name}: {share}");
        }
    }
}

/// The table in docs/scenarios.md: the guests' figures, and how near the model must stay.
#[test]
fn players_are_as_late_as_in_guests() {
    let cases = [
        ("7.2", 4, (0.03..0.05), (0.5..0.9)),
        ("7.2", 8, (3.9..4.3), (10.0..11.2)),
        ("7.2", 12, (6.3..6.7), (15.8..16.8)),
        ("6.18", 12, (20.5..21.6), (43.5..45.5)),
    ];
    for (kernel, players, mean_ms, p99_ms) in cases {
        let text = format!(
            r#"{{"global": {{"duration": 22, "warmup": 2}}, "machine": {{"kernel": "{kernel}"}},
                "tasks": {{"p": {{"instance": {players}, "delay": 500000, "player": {{"load": 0.1538}}}}}}}}"#
        );
        let tardiness = summary(&text, eevdf()).total.tardiness;
        assert!(
            mean_ms.contains(&tardiness.mean_ms),
            "{kernel} {players}: {tardiness:?}"
        );
        assert!(
            p99_ms.contains(&tardiness.p99_ms),
            "{kernel} {players}: {tardiness:?}"
        );
    }
}

#[test]
fn a_player_beside_a_hog_is_as_late_as_in_guests() {
    let text = r#"{"global": {"duration": 22, "warmup": 2},
        "tasks": {"p": {"player": {"load": 0.7}}, "h": {"hog": true}}}"#;
    let summary = summary(text, eevdf());
    let tardiness = &summary.total.tardiness;
    assert!((1.6..1.75).contains(&tardiness.mean_ms), "{tardiness:?}");
    assert!((4.7..5.1).contains(&tardiness.max_ms), "{tardiness:?}");
    assert!((49.5..50.5).contains(&summary.tasks[1].share_percent));
}

/// Whatever happens to tasks and CPUs, the models lose nobody and break no rule but one: like the kernel's own
/// balancing, theirs may leave a CPU idle for a moment.
#[test]
fn random_scenarios_break_no_rule() {
    for seed in 0..24 {
        let setup = generate(seed);
        for scheduler in [eevdf(), round_robin()] {
            let name = scheduler.name();
            let violation = run(&setup, scheduler, &mut ()).unwrap().violation;
            if let Some(violation) = violation {
                assert_eq!(
                    violation.rule, "idle-beside-work",
                    "{name}, seed {seed}: {violation:?}"
                );
            }
        }
    }
}
