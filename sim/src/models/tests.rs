// SPDX-License-Identifier: MIT OR Apache-2.0
//! The models in whole runs: shares, and what guests measured of the kernel's own.

use crate::{
    explore::generate,
    models::{Algorithm, Eevdf, RateControlled, RoundRobin},
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

fn rate_controlled(algorithm: Algorithm) -> Box<dyn Scheduler> {
    Box::new(RateControlled::new(algorithm, None))
}

const NICE_HOGS: &str = r#"{"tasks": {"a": {"hog": true}, "b": {"hog": true, "priority": 5}}}"#;

fn all() -> [Box<dyn Scheduler>; 4] {
    [
        eevdf(),
        round_robin(),
        rate_controlled(Algorithm::Rc),
        rate_controlled(Algorithm::Frc),
    ]
}

#[test]
fn nice_values_count_for_eevdf_and_not_for_round_robin() {
    let fair = shares(&summary(NICE_HOGS, eevdf()));
    let ratio = fair[0] / fair[1];
    assert!((1024.0 / 335.0 - ratio).abs() < 0.03, "{ratio}");
    let equal = shares(&summary(NICE_HOGS, round_robin()));
    assert!((equal[0] - equal[1]).abs() < 0.5, "{equal:?}");
}

/// Two groups of equal weight on two CPUs: one has three hogs, the other one; a bound hog of the root's beside them. By hand:
/// 3072 is there, 1024 of it for each group and for the hog, and nobody can use more than a CPU.
#[test]
fn groups_are_divided_over_cpus_by_weight() {
    let text = r#"{"global": {"duration": 20, "warmup": 2}, "machine": {"cpus": 2}, "tasks": {
        "many": {"instance": 3, "hog": true, "taskgroup": "/many"},
        "few": {"hog": true, "taskgroup": "/few"},
        "bound": {"hog": true, "cpus": [0]}}}"#;
    let shares = shares(&summary(text, eevdf()));
    let many: f64 = shares[..3].iter().sum();
    for share in [many, shares[3], shares[4]] {
        assert!((55.0..78.0).contains(&share), "{shares:?}");
    }
    assert!(shares.iter().sum::<f64>() > 199.0, "{shares:?}");
}

/// 300 beside 100, whatever the number of tasks in them; half of the larger is an inner group's.
#[test]
fn nested_groups_get_what_they_weigh() {
    let text = r#"{"global": {"duration": 10}, "cgroups": {"/a": {"weight": 300}}, "tasks": {
        "a": {"hog": true, "taskgroup": "/a"}, "inner": {"instance": 4, "hog": true, "taskgroup": "/a/b"},
        "c": {"instance": 2, "hog": true, "taskgroup": "/c"}}}"#;
    let shares = shares(&summary(text, eevdf()));
    let expected = [37.5, 9.375, 9.375, 9.375, 9.375, 12.5, 12.5];
    for (share, expected) in shares.iter().zip(expected) {
        assert!((share - expected).abs() < 0.3, "{shares:?}");
    }
}

/// Three tasks of nice -5 and three of nice 5 on two CPUs: by weight, not by number.
#[test]
fn cpus_are_balanced_by_weight() {
    let text = r#"{"global": {"duration": 20, "warmup": 2}, "machine": {"cpus": 2}, "tasks": {
        "heavy": {"instance": 2, "hog": true, "priority": -5}, "light": {"instance": 4, "hog": true, "priority": 5}}}"#;
    let shares = shares(&summary(text, eevdf()));
    // Each CPU has one of the heavy ones and two of the light ones: 3121 of 3791.
    for share in &shares[..2] {
        assert!((share - 82.3).abs() < 2.0, "{shares:?}");
    }
    for share in &shares[2..] {
        assert!((share - 8.8).abs() < 1.5, "{shares:?}");
    }
}

/// A slice of 0.1 ms makes who wakes beside hogs go before all whose own deadlines are later, and leaves the shares as they
/// are.
#[test]
fn who_asks_for_short_slices_waits_less() {
    let wait_ms = |slice: &str| {
        let text = format!(
            r#"{{"global": {{"duration": 10, "warmup": 1}}, "tasks": {{ "hog": {{"instance": 4, "hog": true}},
                "ticker": {{ {slice} "run": "300us", "timer": {{"ref": "unique", "period": "5ms", "mode": "absolute"}} }} }} }}"#
        );
        let summary = summary(&text, eevdf());
        assert!((summary.tasks[4].share_percent - 6.0).abs() < 0.5);
        summary.tasks[4].tardiness.mean_ms
    };
    let (long, short) = (wait_ms(""), wait_ms(r#""slice": "100us","#));
    assert!(short < long / 2.0, "{short} {long}");
}

#[test]
fn no_cpu_idles_while_there_is_work_and_nobody_starves() {
    let text = r#"{"global": {"duration": 4}, "machine": {"cpus": 4, "llc": 2},
        "tasks": {"h": {"instance": 6, "hog": true}, "pinned": {"hog": true, "cpus": [2]}}}"#;
    for scheduler in all() {
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

const CLASSES: &str = r#""classes": { "all": { "capacity": "90%" } }"#;

fn reserved(rate: f64, period: &str) -> String {
    format!(r#""reserve": {{ "class": "all", "rate": {rate}, "period": "{period}" }}"#)
}

#[test]
fn reserved_rates_are_given_by_both_algorithms_of_004() {
    let text = format!(
        r#"{{ "global": {{ "duration": 20 }}, {CLASSES}, "tasks": {{ "a": {{ "hog": true, {} }},
            "b": {{ "hog": true, {} }}, "rest": {{ "instance": 2, "hog": true }} }} }}"#,
        reserved(0.6, "33ms"),
        reserved(0.3, "100ms")
    );
    for algorithm in [Algorithm::Rc, Algorithm::Frc] {
        let shares = shares(&summary(&text, rate_controlled(algorithm)));
        for (share, expected) in shares.iter().zip([60.0, 30.0, 5.0, 5.0]) {
            assert!((share - expected).abs() < 1.0, "{algorithm:?}: {shares:?}");
        }
    }
}

/// 004 section 2.1: who ran on a CPU that nobody else wanted is punished for it by RC, not by FRC. sim/scenarios has it.
#[test]
fn rc_punishes_who_ran_alone_and_frc_does_not() {
    let text = include_str!("../../scenarios/punishment.json");
    let longest_wait_ms = |algorithm| {
        let summary = summary(text, rate_controlled(algorithm));
        let early = summary.tasks.iter().find(|task| task.name == "early");
        early.unwrap().wait_max_ms
    };
    // At its rate of 0.9 * 0.2 / 0.7 it would have needed so long for the 2 s that it has had. A task that comes then begins at
    // 2 s, and both rates are 0.2.
    let finish_ms = 2_000.0 * 0.7 / (0.9 * 0.2);
    let punished_ms = (finish_ms - 2_000.0) * 0.2;
    let rc = longest_wait_ms(Algorithm::Rc);
    assert!((rc / punished_ms - 1.0).abs() < 0.05, "{rc}");
    let frc = longest_wait_ms(Algorithm::Frc);
    assert!(frc < 30.0, "{frc}");
}

/// Theorem 1: a punctual task has had its rate in each of its periods, beside whoever does not sleep.
#[test]
fn rc_honours_periods() {
    let text = format!(
        r#"{{ "global": {{ "duration": 10, "warmup": 1 }}, {CLASSES}, "tasks": {{
            "film": {{ {}, "phases": {{ "p": {{ "loop": -1, "run": "8ms",
                "timer": {{ "ref": "unique", "period": "40ms", "mode": "absolute" }} }} }} }},
            "others": {{ "instance": 3, "hog": true, {} }} }} }}"#,
        reserved(0.25, "40ms"),
        reserved(0.2, "200ms")
    );
    let summary = summary(&text, rate_controlled(Algorithm::Rc));
    let share = summary.tasks[0].share_percent;
    assert!((share - 20.0).abs() < 0.5, "{share}");
    assert!(summary.tasks[0].tardiness.max_ms < 40.0);
}

/// Whatever happens to tasks and CPUs, the models lose nobody and break no rule but one: like the kernel's own
/// balancing, theirs may leave a CPU idle for a moment.
#[test]
fn random_scenarios_break_no_rule() {
    for seed in 0..24 {
        let setup = generate(seed);
        for scheduler in all() {
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
