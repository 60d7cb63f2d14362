// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priority inheritance: a task that holds what one with a reservation waits for runs in its place. Each time beside the
//! same with ordinary locks, where that holder waits behind everybody else.

use crate::common::{assert_fine, MS};
use consort_sim::trace::{Event, Outcome, What};
use consort_sim::{consort, run, scenario};

const HOGS: u32 = 20;
/// A time stamp: a due event that is over at once.
const STAMP: &str = r#"{ "ref": "unique_stamp", "period": "1ns", "mode": "absolute" }"#;

struct Run {
    outcome: Outcome,
    /// Time stamps of the task "urgent", in ms.
    stamps: Vec<f64>,
}

impl Run {
    fn new(text: &str) -> Self {
        let scenario = scenario::parse("inherit.json", text).unwrap();
        let (mut urgent, mut stamps) = (None, Vec::new());
        let index = scenario
            .setup
            .tasks
            .iter()
            .position(|it| it.name == "urgent");
        let mut note = |event: &Event| match event.what {
            What::Created { task, of } if Some(of) == index => urgent = Some(task),
            What::Served { task, .. } if Some(task) == urgent => {
                stamps.push(event.at_ns as f64 / MS as f64);
            }
            _ => {}
        };
        let outcome = run(&scenario.setup, consort(), &mut note).unwrap();
        assert_fine(&outcome);
        Self { outcome, stamps }
    }

    /// From when it wants the lock until it has it, on average: two stamps each.
    fn wait_ms(&self) -> f64 {
        let waits: Vec<f64> = self
            .stamps
            .chunks_exact(2)
            .map(|it| it[1] - it[0])
            .collect();
        assert!(waits.len() >= 4, "{} waits", waits.len());
        waits.iter().sum::<f64>() / waits.len() as f64
    }

    /// Of a CPU.
    fn percent(&self, name: &str) -> f64 {
        let task = self.outcome.tasks.iter().find(|it| it.name == name);
        100.0 * task.expect("it is there").run_ns as f64 / self.outcome.end_ns as f64
    }
}

/// `tasks`, beside hogs on each CPU, with locks that inherit and with ordinary ones.
fn both(cpus: u32, tasks: &str) -> [Run; 2] {
    [true, false].map(|pi| {
        Run::new(&format!(
            r#"{{ "global": {{ "duration": 4, "pi_enabled": {pi} }}, "machine": {{ "cpus": {cpus} }},
                 "classes": {{ "all": {{ "capacity": "80%" }} }},
                 "cgroups": {{ "/heavy": {{ "weight": 2000 }} }},
                 "tasks": {{ {tasks}, "hog": {{ "instance": {}, "hog": true }} }} }}"#,
            cpus * HOGS
        ))
    })
}

/// Every 200 ms, with time stamps before and after.
fn wants(lock: &str) -> String {
    format!(
        r#""sleep": "200ms", "timer": {STAMP}, "lock": "{lock}", "timer2": {STAMP}, "unlock": "{lock}""#
    )
}

/// The same with half of a CPU reserved.
fn urgent(lock: &str) -> String {
    format!(
        r#""urgent": {{ "reserve": {{ "class": "all", "rate": 0.5, "period": "30ms" }}, {} }}"#,
        wants(lock)
    )
}

fn assert_faster(inherits: &Run, ordinary: &Run, most_ms: f64, times: f64) {
    let (short, long) = (inherits.wait_ms(), ordinary.wait_ms());
    assert!(
        short < most_ms,
        "{short} ms, at most {most_ms} were expected"
    );
    assert!(
        long > times * short,
        "{long} ms without inheritance, {short} ms with it"
    );
}

/// A task that has reserved nothing, and has the lock most of the time.
const HOLDER: &str = r#""holder": { "lock": "x", "run": "20ms", "unlock": "x", "sleep": "1ms" }"#;

/// Half of the holder's work is left on average, and takes as long as it would take who waits; else as one of 21.
#[test]
fn a_holder_is_as_fast_as_who_waits() {
    for cpus in [1, 4] {
        let [inherits, ordinary] = both(cpus, &format!("{}, {HOLDER}", urgent("x")));
        assert_faster(&inherits, &ordinary, 20.0, 8.0);
    }
}

#[test]
fn who_holds_what_a_holder_waits_for_inherits_too() {
    let [inherits, ordinary] = both(
        1,
        &format!(
            r#"{},
            "first": {{ "lock": "x", "lock2": "y", "run": "1ms", "unlock2": "y", "unlock": "x", "sleep": "1ms" }},
            "second": {{ "lock": "y", "lock2": "z", "run": "1ms", "unlock2": "z", "unlock": "y", "sleep": "1ms" }},
            "third": {{ "lock": "z", "run": "20ms", "unlock": "z", "sleep": "1ms" }}"#,
            urgent("x")
        ),
    );
    assert_faster(&inherits, &ordinary, 25.0, 8.0);
}

/// The kernel gives the lock to who came first: each of those has it for as long as it would take who has reserved.
#[test]
fn who_gets_the_lock_next_inherits_from_those_behind_it() {
    let [inherits, ordinary] = both(
        1,
        &format!(
            r#"{}, {HOLDER}, "next": {{ "instance": 4, "lock": "x", "run": "5ms", "unlock": "x", "sleep": "1ms" }}"#,
            urgent("x")
        ),
    );
    assert_faster(&inherits, &ordinary, 60.0, 8.0);
}

#[test]
fn weights_are_inherited_as_well() {
    for seat in [r#""priority": -15"#, r#""taskgroup": "/heavy""#] {
        let light = format!(r#""urgent": {{ {seat}, {} }}, {HOLDER}"#, wants("x"));
        let [inherits, ordinary] = both(1, &light);
        assert_faster(&inherits, &ordinary, 40.0, 5.0);
    }
}

/// A lock that both want all the time: with inheritance the one with the reservation gets all of its rate. The other
/// one's work in its place is no burden for anybody else.
#[test]
fn who_waits_pays() {
    let [inherits, ordinary] = both(
        1,
        r#""urgent": { "reserve": { "class": "all", "rate": 0.3, "period": "30ms" },
                       "lock": "x", "run": "1ms", "unlock": "x", "run2": "1ms" },
           "holder": { "lock": "x", "run": "1ms", "unlock": "x", "run2": "1ms" },
           "other": { "hog": true, "reserve": { "class": "all", "rate": 0.5, "period": "30ms" } }"#,
    );
    let (urgent, holder) = (inherits.percent("urgent"), inherits.percent("holder"));
    assert!(
        urgent > 28.0 && urgent > 1.7 * ordinary.percent("urgent"),
        "{urgent}"
    );
    let flexible = inherits.percent("hog-0");
    assert!(
        urgent + holder < 30.0 + flexible + 0.5,
        "{urgent} {holder} {flexible}"
    );
    assert!(
        inherits.percent("other") > 49.5,
        "{}",
        inherits.percent("other")
    );
}

/// A place with less than the holder has anyway is no help.
#[test]
fn nobody_is_slowed_down_by_who_waits_for_him() {
    let [inherits, ordinary] = [true, false].map(|pi| {
        Run::new(&format!(
            r#"{{ "global": {{ "duration": 10, "pi_enabled": {pi} }}, "classes": {{ "all": {{ "capacity": 0.8 }} }},
                 "tasks": {{ {HOLDER},
                    "urgent": {{ "reserve": {{ "class": "all", "rate": 0.02, "period": "1s" }}, {} }},
                    "other": {{ "hog": true, "reserve": {{ "class": "all", "rate": 0.78 }} }},
                    "hog": {{ "hog": true }} }} }}"#,
            wants("x")
        ))
    });
    let (with, without) = (inherits.wait_ms(), ordinary.wait_ms());
    assert!(
        with < 1.2 * without,
        "{with} ms with inheritance, {without} ms without"
    );
}

/// A task that gives up waiting, or is killed, takes back what it has lent.
#[test]
fn a_place_is_lent_for_no_longer_than_its_owner_waits() {
    let share = |lock: &str, action: &str| {
        let text = format!(
            r#"{{ "global": {{ "duration": 4, "pi_enabled": true }},
                 "classes": {{ "all": {{ "capacity": 0.8 }} }},
                 "tasks": {{
                   "holder": {{ "lock": "x", "run": "100s" }},
                   "urgent": {{ "delay": "100ms", "loop": 1, "reserve": {{ "class": "all", "rate": 0.5, "period": "30ms" }},
                                "run": "5ms", "lock": {lock}, "sleep": "100s" }},
                   "other": {{ "hog": true, "reserve": {{ "class": "all", "rate": 0.3, "period": "30ms" }} }},
                   "hog": {{ "instance": {HOGS}, "hog": true }} }},
                 "actions": [ {action} ] }}"#
        );
        Run::new(&text).percent("holder")
    };
    let lent = share(r#""x""#, "");
    assert!(lent > 45.0, "{lent}");
    let gave_up = share(r#"{ "ref": "x", "timeout": "400ms" }"#, "");
    let killed = share(r#""x""#, r#"{ "at": "500ms", "kill": "urgent" }"#);
    // An eighth of the time, and then as one of 21 that share what the other one leaves.
    for share in [gave_up, killed] {
        assert!(share < lent / 4.0, "{share} {lent}");
    }
}

/// Of several that wait, another one lends its place when the best gives up: to who has got the lock meanwhile, too.
#[test]
fn when_one_gives_up_another_one_lends() {
    let [inherits, ordinary] = both(
        1,
        &format!(
            r#""holder": {{ "loop": 1, "lock": "x", "run": "20ms", "unlock": "x" }},
               "next": {{ "loop": 1, "delay": "1ms", "lock": "x", "run": "60ms", "unlock": "x" }},
               "best": {{ "loop": 1, "reserve": {{ "class": "all", "rate": 0.4, "period": "30ms" }}, "delay": "3ms",
                          "lock": {{ "ref": "x", "timeout": "50ms" }}, "sleep": "10s" }},
               "urgent": {{ "loop": 1, "priority": -15, "delay": "2ms",
                            "timer": {STAMP}, "lock": "x", "timer2": {STAMP} }}"#
        ),
    );
    let waited = |run: &Run| run.stamps[1] - run.stamps[0];
    let (short, long) = (waited(&inherits), waited(&ordinary));
    assert!(short < 150.0, "{short} ms");
    assert!(
        long > 5.0 * short,
        "{long} ms without inheritance, {short} ms with it"
    );
}
