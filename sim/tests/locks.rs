// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks in scenarios: who gets them, when, and what happens where somebody ends, waits in vain or waits in a circle.

use crate::common::{assert_fine, MS};
use consort_sim::trace::{Event, Outcome, What};
use consort_sim::{consort, run, scenario};

fn outcome(text: &str) -> (Outcome, Vec<Event>) {
    let scenario = scenario::parse("locks.json", text).unwrap();
    let mut events = Vec::new();
    let mut note = |event: &Event| events.push(event.clone());
    let outcome = run(&scenario.setup, consort(), &mut note).unwrap();
    assert_fine(&outcome);
    (outcome, events)
}

/// With locks that inherit, and with ordinary ones.
fn both(tasks: &str) -> [(Outcome, Vec<Event>); 2] {
    [true, false].map(|pi| {
        outcome(&format!(
            r#"{{ "global": {{ "duration": 2, "pi_enabled": {pi} }}, "tasks": {{ {tasks} }} }}"#
        ))
    })
}

/// Tasks in the order in which they ended.
fn ended(run: &(Outcome, Vec<Event>)) -> Vec<&str> {
    let (outcome, events) = run;
    let name = |event: &Event| match event.what {
        What::Ended { task } => Some(outcome.tasks[task as usize].name.as_str()),
        _ => None,
    };
    events.iter().filter_map(name).collect()
}

/// When the task of this name ended, in ms.
fn ended_ms(run: &(Outcome, Vec<Event>), name: &str) -> u64 {
    let (outcome, events) = run;
    let is_it = |event: &&Event| match event.what {
        What::Ended { task } => outcome.tasks[task as usize].name == name,
        _ => false,
    };
    events.iter().find(is_it).expect("it has ended").at_ns / MS
}

#[test]
fn a_lock_that_nobody_holds_concerns_no_scheduler() {
    let callbacks = |lock: &str, unlock: &str| {
        let text = format!(
            r#""a": {{ "loop": 50, {lock} "run": "1ms", {unlock} "sleep": "1ms" }}, "b": {{ "hog": true }}"#
        );
        both(&text).map(|(_, events)| {
            let is_call = |event: &&Event| matches!(event.what, What::Callback { .. });
            events.iter().filter(is_call).count()
        })
    };
    let [with, ordinary] = callbacks(r#""lock": "x","#, r#""unlock": "x","#);
    let [without, _] = callbacks("", "");
    assert!(with > 100);
    assert_eq!((with, ordinary), (without, without));
}

#[test]
fn who_comes_first_is_served_first() {
    for run in both(
        r#""a": { "loop": 1, "lock": "x", "run": "5ms", "sleep": "50ms", "unlock": "x", "run2": "20ms" },
           "b": { "loop": 1, "delay": "20ms", "lock": "x", "run": "5ms", "unlock": "x" },
           "c": { "loop": 1, "delay": "10ms", "lock": "x", "run": "1ms", "sleep": "30ms", "unlock": "x" }"#,
    ) {
        assert_eq!(ended(&run), ["a", "c", "b"]);
        assert!(ended_ms(&run, "b") >= 90, "b got the lock before c gave it");
    }
}

#[test]
fn who_waits_in_vain_goes_on_without_the_lock() {
    for run in both(
        r#""holder": { "loop": 1, "lock": "x", "sleep": "1s", "unlock": "x" },
           "a": { "loop": 1, "delay": "10ms", "lock": { "ref": "x", "timeout": "100ms" }, "run": "1ms", "unlock": "x" },
           "b": { "loop": 1, "delay": "20ms", "lock": { "ref": "x", "timeout": "1500ms" }, "run": "1ms", "unlock": "x" }"#,
    ) {
        assert!((111..115).contains(&ended_ms(&run, "a")));
        assert!((1001..1005).contains(&ended_ms(&run, "b")));
    }
}

#[test]
fn a_lock_outlives_its_owner_and_who_waits() {
    const TASKS: &str = r#"
        "owner": { "loop": 1, "lock": "x", "sleep": "10s" },
        "waits": { "loop": 1, "delay": "10ms", "lock": "x", "run": "1ms" },
        "next": { "loop": 1, "delay": "20ms", "lock": "x", "run": "1ms" }"#;
    for pi in [true, false] {
        let run = outcome(&format!(
            r#"{{ "global": {{ "duration": 1, "pi_enabled": {pi} }}, "tasks": {{ {TASKS} }},
                 "actions": [ {{ "at": "30ms", "kill": "waits" }}, {{ "at": "40ms", "kill": "owner" }} ] }}"#
        ));
        assert_eq!(ended(&run), ["waits", "owner", "next"]);
    }
}

/// `pthread_mutex_lock` of an ordinary mutex hangs there; the kernel sees a circle of those that inherit.
#[test]
fn a_circle_is_refused_where_the_kernel_sees_it() {
    let [inheriting, ordinary] = both(
        r#""a": { "loop": 1, "lock": "x", "sleep": "2ms", "lock2": "y", "run": "1ms", "unlock2": "y", "unlock": "x" },
           "b": { "loop": 1, "lock": "y", "sleep": "2ms", "lock2": "z", "run": "1ms", "unlock2": "z", "unlock": "y" },
           "c": { "loop": 1, "lock": "z", "sleep": "2ms", "lock2": "x", "run": "1ms", "unlock2": "x", "unlock": "z" },
           "own": { "loop": 1, "lock": "w", "lock2": "w", "run": "1ms" }"#,
    );
    let mut all = ended(&inheriting);
    all.sort_unstable();
    assert_eq!(all, ["a", "b", "c", "own"]);
    assert!(ended(&ordinary).is_empty());
}

/// The kernel's own inheritance, from class to class.
#[test]
fn who_holds_what_a_real_time_task_wants_is_of_its_class() {
    let served = both(
        r#""holder": { "loop": 1, "lock": "x", "run": "100ms", "unlock": "x", "run2": "10s" },
           "chain": { "loop": 1, "delay": "5ms", "lock": "y", "lock2": "x", "run": "1ms", "unlock2": "x", "unlock": "y" },
           "hog": { "instance": 9, "hog": true },
           "urgent": { "loop": 1, "delay": "10ms", "policy": "SCHED_FIFO", "lock": "y", "run": "1ms" }"#,
    )
    .map(|run| ended_ms(&run, "urgent"));
    assert!((105..115).contains(&served[0]), "{served:?}");
    assert!(served[1] > 900, "{served:?}");
}

#[test]
fn conditions_go_with_both_kinds() {
    for run in both(
        r#""waits": { "instance": 2, "loop": 1, "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "run": "5ms", "unlock": "m" },
           "tells": { "loop": 1, "delay": "10ms", "lock": "m", "broad": "c", "run": "5ms", "unlock": "m" }"#,
    ) {
        assert_eq!(ended(&run), ["tells", "waits-0", "waits-1"]);
    }
}

/// Nobody has chosen it, and it is not left alone for a slice that was given for another purpose.
#[test]
fn who_comes_down_from_a_higher_class_is_compared_soon() {
    let [(outcome, _), _] = both(
        r#""holder": { "loop": 1, "lock": "x", "run": "20ms", "unlock": "x", "run2": "10s" },
           "hog": { "instance": 9, "hog": true },
           "urgent": { "loop": 1, "delay": "5ms", "policy": "SCHED_FIFO", "lock": "x", "run": "1ms" }"#,
    );
    let wait_max_ms = |name: &str| {
        let tasks = outcome.tasks.iter().filter(|it| it.name == name);
        tasks.map(|it| it.wait_max_ns / MS).max().unwrap_or(0)
    };
    let (holder, hog) = (wait_max_ms("holder"), wait_max_ms("hog-0"));
    assert!(holder < 5 * hog, "{holder} ms, a hog waits for {hog} ms");
}
