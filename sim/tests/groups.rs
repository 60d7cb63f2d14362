// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups with decision functions: threads that know nothing of it run when their group says, and nobody else pays.

mod common;

use common::summaries::{row, share, summary, SEEDS};
use consort_sim::groups::RoleTotal;
use consort_sim::report::Summary;

fn role<'a>(summary: &'a Summary, task: &str) -> &'a RoleTotal {
    let found = summary.roles.iter().find(|role| role.task == task);
    found.unwrap_or_else(|| panic!("no {task} in {:?}", summary.roles))
}

/// Four hogs, and whoever else there is on so many CPUs.
fn beside_hogs(cpus: u32, groups: &str, tasks: &str) -> String {
    format!(
        r#"{{"global": {{"duration": 4, "warmup": 1}}, "machine": {{"cpus": {cpus}}},
            "groups": {{"video": {groups}}},
            "tasks": {{{tasks}, "hogs": {{"instance": {}, "hog": true}}}}}}"#,
        4 * cpus
    )
}

const DISPLAY: &str = r#""display": {"timer": {"ref": "unique", "period": "40ms", "mode": "absolute"}, "run": "2ms"}"#;
const PLAN: &str = r#"{"function": "plan", "begins": "200ms", "members": {
    "display": {"plan": [["0ms", "5ms"]], "repeat": "40ms"}, "reader": {}}}"#;

#[test]
fn a_plans_intervals_are_kept_within_the_groups_share() {
    for cpus in [1, 4] {
        for seed in SEEDS {
            let tasks = format!(r#"{DISPLAY}, "reader": {{"hog": true}}"#);
            let summary = summary(&beside_hogs(cpus, PLAN, &tasks), seed);
            let display = role(&summary, "display");
            assert_eq!(display.missed.all(), 0, "{display:?}");
            assert_eq!(display.kept, 95, "{display:?}");
            assert!(display.late_max_ms < 1.0, "{display:?}");
            assert!(row(&summary, "display").tardiness.max_ms < 1.0);
            // What the display does not use is everybody's.
            let display = share(&summary, "display");
            let each = (100.0 * f64::from(cpus) - display) / f64::from(4 * cpus + 1);
            let reader = share(&summary, "reader");
            assert!((display - 5.0).abs() < 0.2, "{display}");
            assert!((reader - each).abs() < 0.5, "{reader} of {each} each");
        }
    }
}

#[test]
fn a_member_goes_on_in_its_interval_until_that_ends() {
    let tasks = r#""display": {"hog": true}, "reader": {"hog": true}"#;
    let summary = summary(&beside_hogs(1, PLAN, tasks), 1);
    // 5 ms in 40 are within the share of two of six. Before the plan begins, and outside, it is the first in the order.
    let display = role(&summary, "display");
    assert_eq!((display.kept, display.missed.all()), (95, 0), "{display:?}");
    assert!(display.late_max_ms < 1.0, "{display:?}");
}

#[test]
fn a_missed_interval_has_its_cause() {
    // It sleeps while its intervals are on.
    let asleep = PLAN.replace("200ms", "220ms");
    let tasks = format!(r#"{DISPLAY}, "reader": {{"hog": true}}"#);
    let summary_of = |group: &str, tasks: &str| summary(&beside_hogs(1, group, tasks), 1);
    let it = summary_of(&asleep, &tasks);
    let display = role(&it, "display");
    assert_eq!(
        (display.kept, display.missed.asleep),
        (0, 95),
        "{display:?}"
    );

    // Nobody plays the role for the first two seconds.
    let late = tasks.replace(r#"{"timer""#, r#"{"delay": "2s", "timer""#);
    let it = summary_of(PLAN, &late);
    let display = role(&it, "display");
    assert_eq!(display.missed.vacant, 45, "{display:?}");
    assert_eq!(
        display.missed.all() - display.missed.vacant,
        0,
        "{display:?}"
    );
    assert_eq!(display.kept, 50, "{display:?}");

    // Two that want all of the CPU in the same intervals: the one whose interval began first has it, within the share.
    let both = r#"{"function": "plan", "begins": "200ms", "members": {
        "display": {"plan": [["0ms", "20ms"]], "repeat": "40ms"},
        "reader": {"plan": [["1ms", "2ms"]], "repeat": "40ms"}}}"#;
    let hogs = r#""display": {"hog": true}, "reader": {"hog": true}"#;
    let it = summary_of(both, hogs);
    let reader = role(&it, "reader");
    assert!(
        reader.missed.share + reader.missed.others > 80,
        "{reader:?}"
    );
    assert_eq!(reader.kept + reader.missed.all(), 95, "{reader:?}");
    let group = share(&it, "display") + share(&it, "reader");
    assert!((group - 100.0 / 3.0).abs() < 0.5, "{group}");
}

#[test]
fn others_keep_their_shares_whatever_a_plan_says() {
    // All the time is planned for one member, of six tasks.
    let group = r#"{"function": "plan", "begins": "0ms", "members": {
        "display": {"plan": [["0ms", "100ms"]], "repeat": "100ms"}, "reader": {}}}"#;
    let tasks = r#""display": {"hog": true}, "reader": {"hog": true}"#;
    for seed in SEEDS {
        let summary = summary(&beside_hogs(1, group, tasks), seed);
        for hog in ["hogs-0", "hogs-1", "hogs-2", "hogs-3"] {
            let found = summary.tasks.iter().find(|row| row.name == hog);
            let percent = found.expect("it is there").share_percent;
            assert!((percent - 100.0 / 6.0).abs() < 0.2, "{hog} has {percent}");
        }
        assert!(share(&summary, "display") > share(&summary, "reader"));
    }
}

#[test]
fn a_group_has_its_rate_and_its_children_do_not() {
    let text = r#"{"global": {"duration": 4, "warmup": 1}, "classes": {"guaranteed": {"capacity": 0.5}},
        "groups": {"video": {"function": "fair", "members": {"a": {}, "b": {}},
            "reserve": {"class": "guaranteed", "rate": 0.3, "period": "40ms"}}},
        "tasks": {"a": {"hog": true}, "b": {"phases": {"one": {"fork": "child", "run": "1ms"}, "two": {"loop": -1, "run": "9ms"}}},
            "child": {"instance": 0, "hog": true}, "hogs": {"instance": 4, "hog": true},
            "other": {"hog": true, "reserve": {"class": "guaranteed", "rate": 0.2, "period": "40ms"}}}}"#;
    let summary = summary(text, 1);
    let group = share(&summary, "a") + share(&summary, "b");
    assert!((group - 30.0).abs() < 0.5, "{group}");
    assert!((share(&summary, "a") - 15.0).abs() < 0.5);
    // Four hogs and the child have half of the CPU.
    assert!((share(&summary, "child") - 10.0).abs() < 0.5);
}

#[test]
fn a_plan_begins_when_a_member_says_so() {
    let group = PLAN.replace(r#""begins": "200ms", "#, "");
    let tasks = r#""display": {"phases": {"first": {"sleep": "1s", "tell": "trigger", "yield": ""},
        "then": {"loop": -1, "run": "2ms", "tell": "done", "yield": ""}}}, "reader": {"hog": true}"#;
    let it = summary(&beside_hogs(1, &group, tasks), 1);
    let display = role(&it, "display");
    assert_eq!((display.kept, display.missed.all()), (75, 0), "{display:?}");
    // What it had to do in each interval was done after 2 ms.
    assert!(display.late_max_ms < 1.0, "{display:?}");
}
