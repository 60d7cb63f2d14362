// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decision functions of users' own, from their sources, where there is more than one CPU or more than one mode: what they
//! mean comes about, and nothing beyond it.

use crate::common::summaries::{row, share, summary, SEEDS};
use consort_sim::report::Summary;

const SECOND_NS: u64 = 1_000_000_000;
/// In another order in the file than the one that they publish.
const MEMBERS: [&str; 6] = ["f", "b", "d", "a", "e", "c"];

fn source(path: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    format!(r#"{{"source": {:?}}}"#, root.join(path))
}

/// A member that publishes its deadline, the sooner the earlier its letter is, and then does this for ever.
fn urgent(name: &str, does: &str) -> String {
    let deadline_ns = (1_000 + 10 * u64::from(name.as_bytes()[0])) * SECOND_NS;
    format!(
        r#""{name}": {{"taskgroup": "/own", "phases": {{
            "first": {{"state": {{"value": {deadline_ns}}}, "run": "1ms", "yield": ""}},
            "then": {{"loop": -1, {does}}}}}}}"#
    )
}

/// Six members on four CPUs, whose function puts the earliest deadline first. `a` does something; the others want a CPU always.
fn six(a: &str, beside: &str) -> String {
    six_in_order(MEMBERS, a, beside)
}

/// The same, in another order in the file, in which they start.
fn six_in_order(order: [&str; 6], a: &str, beside: &str) -> String {
    let does = |name| if name == "a" { a } else { r#""run": "1ms""# };
    let tasks = order.map(|name| urgent(name, does(name))).join(", ");
    let members = order.map(|name| format!(r#""{name}": {{}}"#)).join(", ");
    format!(
        r#"{{"global": {{"duration": 4, "warmup": 1}}, "machine": {{"cpus": 4}},
            "cgroups": {{"/own": {{"weight": 100}}, "/others": {{"weight": 100}}}},
            "functions": {{"own": {}}},
            "groups": {{"own": {{"function": "user:own", "members": {{{members}}}}}}},
            "tasks": {{{tasks}{beside}}}}}"#,
        source("df/examples/laxity.c")
    )
}

/// What the members have in percent of a CPU, the most urgent one first.
fn shares(summary: &Summary) -> [f64; 6] {
    ["a", "b", "c", "d", "e", "f"].map(|name| share(summary, name))
}

#[test]
fn the_best_members_run_at_once_on_as_many_cpus_as_there_are() {
    for seed in SEEDS {
        let all = shares(&summary(&six(r#""run": "1ms""#, ""), seed));
        assert!(all[..4].iter().all(|had| *had > 99.0), "{all:?}");
        assert!(all[4..].iter().all(|had| *had < 1.0), "{all:?}");
        // While the first sleeps the fifth is one of the best four, and no longer.
        let all = shares(&summary(
            &six(r#""run": "10ms", "sleep": "10ms""#, ""),
            seed,
        ));
        assert!((all[0] - 50.0).abs() < 1.0, "{all:?}");
        assert!(all[1..4].iter().all(|had| *had > 98.0), "{all:?}");
        assert!((all[4] - 50.0).abs() < 2.0 && all[5] < 2.0, "{all:?}");
    }
}

#[test]
fn of_the_best_members_no_more_run_than_the_group_has_cpus_for() {
    let others = r#", "others": {"instance": 8, "hog": true, "taskgroup": "/others"}"#;
    for seed in SEEDS {
        let summary = summary(&six(r#""run": "1ms""#, others), seed);
        let all = shares(&summary);
        // Its cgroup has half of the machine: two CPUs, and the third in the order what these two are changed for.
        assert!(all[..2].iter().all(|had| *had > 85.0), "{all:?}");
        assert!(all[3..].iter().all(|had| *had < 1.0), "{all:?}");
        let own: f64 = all.iter().sum();
        assert!((own - 200.0).abs() < 1.0, "{own}");
        assert!((share(&summary, "others") - 200.0).abs() < 1.0);
    }
}

/// The same scenario on two caches of two CPUs, from when all have run, and so have told their deadlines.
fn over_two_caches(order: [&str; 6], a: &str, window: &str) -> [f64; 6] {
    let text = six_in_order(order, a, "")
        .replace(r#""cpus": 4"#, r#""cpus": 4, "llc": 2"#)
        .replace(r#""duration": 4, "warmup": 1"#, window);
    shares(&summary(&text, 1))
}

/// Whichever came first: the best that waits is the first that another cache takes.
#[test]
fn the_best_members_run_at_once_over_two_caches() {
    let orders = [
        MEMBERS,
        ["f", "e", "d", "c", "b", "a"],
        ["a", "e", "b", "f", "c", "d"],
        ["a", "c", "e", "b", "d", "f"],
    ];
    let window = r#""duration": 6, "warmup": 3"#;
    for order in orders {
        let all = over_two_caches(order, r#""run": "1ms""#, window);
        assert!(all[..4].iter().all(|had| *had > 99.0), "{order:?}: {all:?}");
        let all = over_two_caches(order, r#""run": "10ms", "sleep": "10ms""#, window);
        assert!((all[0] - 50.0).abs() < 1.0, "{order:?}: {all:?}");
        assert!(
            all[1..4].iter().all(|had| *had > 98.0),
            "{order:?}: {all:?}"
        );
        assert!(
            (all[4] - 50.0).abs() < 3.0 && all[5] < 3.0,
            "{order:?}: {all:?}"
        );
    }
}

/// The first two of them put themselves last, half a second before this looks. The four others, wherever they came first, have the
/// CPUs of both caches.
#[test]
fn a_new_order_holds_in_each_cache() {
    let then = r#""run": "1ms""#;
    let put_last = |text: String, name: &str| {
        let then = format!(r#""then": {{"loop": -1, {then}}}"#);
        let begin = text.find(&format!(r#""{name}": {{"taskgroup""#)).unwrap();
        let changed = format!(
            r#""then": {{"loop": 3500, "run": "1ms"}}, "last": {{"state": {{"value": {}}}, "yield": ""}}, "end": {{"loop": -1, "run": "1ms"}}"#,
            1_000_000 * SECOND_NS
        );
        text[..begin].to_owned() + &text[begin..].replacen(&then, &changed, 1)
    };
    let orders = [
        MEMBERS,
        ["a", "b", "c", "d", "e", "f"],
        ["a", "b", "e", "f", "c", "d"],
    ];
    for order in orders {
        let text = six_in_order(order, then, "")
            .replace(r#""cpus": 4"#, r#""cpus": 4, "llc": 2"#)
            .replace(
                r#""duration": 4, "warmup": 1"#,
                r#""duration": 6, "warmup": 4"#,
            );
        let all = shares(&summary(&put_last(put_last(text, "a"), "b"), 1));
        assert!(all[2..].iter().all(|had| *had > 99.0), "{order:?}: {all:?}");
        let own: f64 = all.iter().sum();
        assert!((own - 400.0).abs() < 1.0, "{order:?}: {all:?}");
    }
}

/// The robot of the examples beside a hog: an obstacle is near from 2 s until 3 s, in the first part of which there is more to
/// sense than it has CPU time for.
const ROBOT: &str = r#"{"global": {"duration": "TOms", "warmup": "FROMms"}, "queues": {"readings": 5000},
    "cgroups": {"/robot": {"weight": 400}, "/others": {"weight": 100}},
    "functions": {"robot": FUNCTION},
    "groups": {"robot": {"function": "user:robot", "members": {"sense": {}, "plan": {}, "reflex": {}}}},
    "tasks": {
        "sense": {"taskgroup": "/robot", "phases": {
            "slow": {"loop": 505, "timer": {"ref": "s", "period": "4ms"}, "run": "0.5ms", "put": "readings"},
            "fast": {"loop": 400, "run": "0.5ms", "put": "readings"},
            "again": {"loop": -1, "timer": {"ref": "t", "period": "4ms"}, "run": "0.5ms", "put": "readings"}}},
        "plan": {"taskgroup": "/robot", "loop": -1, "take": "readings", "run": "1ms"},
        "reflex": {"taskgroup": "/robot", "phases": {
            "clear": {"loop": 200, "timer": {"ref": "r", "period": "10ms"}, "state": {"value": 1000}, "run": "0.2ms"},
            "near": {"loop": 100, "timer": {"ref": "r", "period": "10ms"}, "state": {"value": 200}, "run": "0.2ms"},
            "gone": {"loop": -1, "timer": {"ref": "r", "period": "10ms"}, "state": {"value": 0}, "run": "0.2ms"}}},
        "others": {"instance": 1, "hog": true, "taskgroup": "/others"}}}"#;

/// What `sense`, `plan` and `reflex` have had, in percent, between two times in ms.
fn robot(from: &str, to: &str, seed: u64) -> ([f64; 3], Summary) {
    let text = ROBOT.replace("FUNCTION", &source("df/examples/robot.c"));
    let summary = summary(&text.replace("FROM", from).replace("TO", to), seed);
    let had = ["sense", "plan", "reflex"].map(|name| share(&summary, name));
    (had, summary)
}

#[test]
fn the_robots_loop_changes_its_order_with_its_mode() {
    for seed in SEEDS {
        // Cruising, the planner has done what it is given: 1 ms for each reading. So it does again when it is calm.
        for (from, to) in [("1000", "2000"), ("4000", "5000")] {
            let ([sense, plan, reflex], _) = robot(from, to, seed);
            assert!((sense - 12.5).abs() < 1.0, "{sense}");
            assert!((plan - 25.0).abs() < 1.0, "{plan}");
            assert!((reflex - 2.0).abs() < 0.3, "{reflex}");
        }
        // In danger the sensors have all that the reflex leaves of the group's four fifths, and the planner waits.
        let ([sense, plan, reflex], danger) = robot("2030", "2200", seed);
        assert!(sense > 75.0 && plan < 0.1, "{sense} and {plan}");
        assert!((reflex - 2.0).abs() < 0.3, "{reflex}");
        assert!((share(&danger, "others") - 20.0).abs() < 1.5);
        // What it waits for: a slice of the hog beside the group.
        let waits_ms = row(&danger, "reflex").wait_max_ms;
        assert!(waits_ms < 2.5, "{waits_ms}");
        // Having sensed what there was, they leave the planner what it needs to catch up.
        let ([_, plan, _], _) = robot("2400", "3000", seed);
        assert!(plan > 60.0, "{plan}");
    }
}
