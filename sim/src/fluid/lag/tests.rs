// SPDX-License-Identifier: MIT OR Apache-2.0
//! Courses of events worked out by hand.

use super::*;
use crate::scenario;

const MS: u64 = 1_000_000;

fn lag_of(text: &str) -> Lag {
    Lag::new(&scenario::parse("t.json", text).unwrap().setup, 0)
}

fn tell(lag: &mut Lag, at_ms: f64, cpu: u32, what: What) {
    let at_ns = (at_ms * MS as f64) as u64;
    lag.event(&Event { at_ns, cpu, what });
}

/// Tasks 0, 1, ... of the setup exist and are woken at 0.
fn begin(lag: &mut Lag, tasks: u32) {
    for task in 0..tasks {
        tell(
            lag,
            0.0,
            0,
            What::Created {
                task,
                of: task as usize,
            },
        );
        tell(lag, 0.0, 0, What::Woken { task, on: 0 });
    }
}

fn switch(lag: &mut Lag, at_ms: f64, cpu: u32, prev: Option<(TaskId, Left)>, next: Option<TaskId>) {
    tell(lag, at_ms, cpu, What::Switch { prev, next });
}

const PREEMPTED: Left = Left::Preempted;

#[test]
fn who_waits_is_behind_by_its_part() {
    let mut lag = lag_of(r#"{"tasks": {"a": {"hog": true}, "b": {"hog": true, "instance": 3}}}"#);
    begin(&mut lag, 4);
    switch(&mut lag, 0.0, 0, None, Some(0));
    let worst = lag.worst(100 * MS);
    assert!((worst.lag_ms - 25.0).abs() < 1e-6, "{worst:?}");
    assert!(
        (worst.slices - 25.0 / 1.05).abs() < 1e-6,
        "a slice is a quarter of 4 ms: {worst:?}"
    );
    assert_eq!((worst.from_s, worst.to_s), (0.0, 0.1));
}

#[test]
fn turns_leave_nobody_further_behind_than_a_turn() {
    let mut lag = lag_of(r#"{"tasks": {"a": {"hog": true}, "b": {"hog": true}}}"#);
    begin(&mut lag, 2);
    switch(&mut lag, 0.0, 0, None, Some(0));
    for turn in 1..5000 {
        let (prev, next) = ((turn - 1) % 2, turn % 2);
        switch(
            &mut lag,
            f64::from(turn) * 2.0,
            0,
            Some((prev, PREEMPTED)),
            Some(next),
        );
    }
    let worst = lag.worst(10_000 * MS);
    assert!((worst.lag_ms - 1.0).abs() < 1e-6, "{worst:?}");
}

#[test]
fn a_window_forgets_what_was_had_before() {
    // a has all for 100 ms, then b: in the second half a is behind, whatever it had.
    let mut lag = lag_of(r#"{"tasks": {"a": {"hog": true}, "b": {"hog": true}}}"#);
    begin(&mut lag, 2);
    switch(&mut lag, 0.0, 0, None, Some(0));
    switch(&mut lag, 100.0, 0, Some((0, PREEMPTED)), Some(1));
    let worst = lag.worst(300 * MS);
    assert_eq!(worst.task, "a");
    assert!(
        (worst.lag_ms - 100.0).abs() < 1e-6 && worst.from_s == 0.1,
        "{worst:?}"
    );
}

#[test]
fn who_sleeps_ahead_stays_counted_until_that_is_repaid() {
    // 2 ms of work in 10 ms beside a hog: that is the sleeper's, and the hog is never behind by more than half of it.
    let text = r#"{"tasks": {"s": {"run": 2000, "sleep": 8000}, "h": {"hog": true}}}"#;
    let mut lag = lag_of(text);
    begin(&mut lag, 2);
    for turn in 0..500 {
        let at_ms = f64::from(turn) * 10.0;
        tell(&mut lag, at_ms, 0, What::Woken { task: 0, on: 0 });
        switch(
            &mut lag,
            at_ms,
            0,
            (turn > 0).then_some((1, PREEMPTED)),
            Some(0),
        );
        switch(&mut lag, at_ms + 2.0, 0, Some((0, Left::Slept)), Some(1));
    }
    let worst = lag.worst(5000 * MS);
    assert!((worst.lag_ms - 1.0).abs() < 1e-3, "{worst:?}");
}

#[test]
fn who_sleeps_more_than_its_share_away_leaves_others_behind() {
    // 7 ms of each 10 beside a hog: 5 are its own, as who sleeps for 3 ms owes 3.5.
    let text = r#"{"tasks": {"s": {"run": 7000, "sleep": 3000}, "h": {"hog": true}}}"#;
    let mut lag = lag_of(text);
    begin(&mut lag, 2);
    for turn in 0..500 {
        let at_ms = f64::from(turn) * 10.0;
        tell(&mut lag, at_ms, 0, What::Woken { task: 0, on: 0 });
        switch(
            &mut lag,
            at_ms,
            0,
            (turn > 0).then_some((1, PREEMPTED)),
            Some(0),
        );
        switch(&mut lag, at_ms + 7.0, 0, Some((0, Left::Slept)), Some(1));
    }
    let worst = lag.worst(5000 * MS);
    assert!(
        worst.task == "h" && (worst.lag_ms - 1000.0).abs() < 10.0,
        "{worst:?}"
    );
}

#[test]
fn members_of_a_domain_are_one() {
    let text = r#"{"domains": {"d": {}}, "tasks": {"h": {"hog": true},
        "m": {"instance": 2, "join": "d", "run": 1000, "poll": {"due": 0}}}}"#;
    let mut lag = lag_of(text);
    begin(&mut lag, 3);
    for task in [1, 2] {
        tell(
            &mut lag,
            0.0,
            0,
            What::Membership {
                task,
                domain: 0,
                joined: true,
            },
        );
    }
    // One of the two has all that is theirs.
    switch(&mut lag, 0.0, 0, None, Some(1));
    for turn in 0..1000 {
        let at_ms = f64::from(turn) * 3.0;
        switch(&mut lag, at_ms + 2.0, 0, Some((1, PREEMPTED)), Some(0));
        switch(&mut lag, at_ms + 3.0, 0, Some((0, PREEMPTED)), Some(1));
    }
    let worst = lag.worst(3000 * MS);
    assert!(
        worst.slices <= 0.0,
        "within what a domain may borrow: {worst:?}"
    );
    let unit = lag.units.iter().map(|unit| unit.lag_ns).fold(0.0, f64::max);
    assert!(unit < 1e6, "{unit}");
}

#[test]
fn an_idle_cpu_beside_work_is_another_rules_affair() {
    let text = r#"{"machine": {"cpus": 2}, "tasks": {"a": {"hog": true}, "b": {"hog": true}}}"#;
    let mut lag = lag_of(text);
    begin(&mut lag, 2);
    switch(&mut lag, 0.0, 0, None, Some(0));
    assert!(lag.worst(100 * MS).slices <= 0.0);
    // Where it may not run there, it is behind: two of three CPUs' worth of weight, and one CPU.
    let text = r#"{"machine": {"cpus": 2}, "tasks": {"a": {"hog": true, "cpus": [0]}, "b": {"hog": true, "cpus": [0]}}}"#;
    let mut lag = lag_of(text);
    begin(&mut lag, 2);
    switch(&mut lag, 0.0, 0, None, Some(0));
    assert!((lag.worst(100 * MS).lag_ms - 50.0).abs() < 1e-6);
}

#[test]
fn who_has_a_cpu_for_itself_is_not_behind() {
    // b waits for 10 ms; from then on each has a CPU, and b could have no more if it was owed some.
    let text = r#"{"machine": {"cpus": 2}, "tasks": {"a": {"hog": true}, "b": {"hog": true}, "c": {"hog": true}}}"#;
    let mut lag = lag_of(text);
    begin(&mut lag, 3);
    switch(&mut lag, 0.0, 0, None, Some(0));
    switch(&mut lag, 0.0, 1, None, Some(2));
    switch(&mut lag, 10.0, 1, Some((2, Left::Ended)), Some(1));
    lag.worst(100 * MS);
    assert!(
        (lag.worst.lag_ms - 20.0 / 3.0).abs() < 1e-6,
        "{:?}",
        lag.worst
    );
    assert!(lag.units.iter().all(|unit| unit.lag_ns <= 0.0));
    let given = lag.given_ns();
    // c owes 10/3 ms, for 5 ms in which b has two thirds.
    assert!(
        (given[1] - (10.0 / 1.5 + 5.0 / 1.5 + 85.0) * MS as f64).abs() < 1e3,
        "{given:?}"
    );
}
