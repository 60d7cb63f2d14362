// SPDX-License-Identifier: MIT OR Apache-2.0
//! What cgroups may have at most (cpu.max): no more, on any number of CPUs, and no less where they can use it.

use crate::common::planted::plant;
use crate::common::{assert_fine, MS};
use consort_sim::consort::Consort;
use consort_sim::mutate::Mutation;
use consort_sim::trace::{Event, Outcome, What};
use consort_sim::{consort, run, scenario};

/// So much of a CPU more or less, by where in its period a run ends.
const SLACK: f64 = 0.01;

fn outcome_of(text: &str) -> Outcome {
    let scenario = scenario::parse("limits.json", text).unwrap();
    let outcome = run(&scenario.setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    outcome
}

/// Of a CPU, of all tasks whose names begin so.
fn share(outcome: &Outcome, prefix: &str) -> f64 {
    let tasks = outcome
        .tasks
        .iter()
        .filter(|it| it.name.starts_with(prefix));
    tasks.map(|it| it.run_ns as f64).sum::<f64>() / outcome.end_ns as f64
}

fn assert_near(outcome: &Outcome, prefix: &str, expected: f64) {
    let got = share(outcome, prefix);
    assert!(
        (got - expected).abs() < SLACK * expected.max(1.0),
        "{prefix} had {got:.4} of a CPU instead of {expected}"
    );
}

/// Beside nobody, and beside hogs, which have the rest; whatever the period, and however many hogs there are.
#[test]
fn a_limit_is_kept_and_the_rest_is_the_others() {
    for (cpus, llc) in [(1, 1), (2, 1), (4, 2), (16, 4)] {
        for (quota, period, part) in [
            ("20ms", "100ms", 0.2),
            ("3ms", "10ms", 0.3),
            ("150ms", "100ms", 1.5),
        ] {
            for others in [0, 2 * cpus] {
                let text = format!(
                    r#"{{ "global": {{ "duration": 5 }}, "machine": {{ "cpus": {cpus}, "llc": {llc} }},
                         "cgroups": {{ "/a": {{ "weight": 10000, "max": {{ "quota": "{quota}", "period": "{period}" }} }} }},
                         "tasks": {{ "in": {{ "instance": {}, "hog": true, "taskgroup": "/a" }},
                                     "out": {{ "instance": {}, "hog": true, "delay": "{}s" }} }} }}"#,
                    cpus + 1,
                    others.max(1),
                    if others == 0 { 100 } else { 0 },
                );
                let outcome = outcome_of(&text);
                let by_weight = f64::from(cpus) * 100.0 / f64::from(100 + others);
                let expected = f64::min(part, by_weight);
                assert_near(&outcome, "in", expected);
                if others > 0 {
                    assert_near(&outcome, "out", f64::from(cpus) - expected);
                }
            }
        }
    }
}

/// Twenty beside one that nothing limits.
const MANY: &str = r#"{ "global": { "duration": 10 }, "machine": { "cpus": 1 },
    "cgroups": { "/a": { "max": { "quota": "5ms" } } },
    "tasks": { "in": { "instance": 20, "hog": true, "taskgroup": "/a" }, "out": { "hog": true } } }"#;

/// By how much CPU time tasks of one weight differ.
fn spread_ns(outcome: &Outcome) -> u64 {
    let times = outcome.tasks.iter().filter(|it| it.name.starts_with("in"));
    let (least, most) = times.fold((u64::MAX, 0), |(least, most), it| {
        (least.min(it.run_ns), most.max(it.run_ns))
    });
    most - least
}

/// Tasks of a limited cgroup share what it has by weight, however little that is, and however it falls into slices.
#[test]
fn tasks_share_a_limit_by_weight() {
    let spread_ns = spread_ns(&outcome_of(MANY));
    assert!(spread_ns < 3 * MS, "{spread_ns}");

    let two = outcome_of(
        r#"{ "global": { "duration": 10 }, "machine": { "cpus": 1 },
             "cgroups": { "/a": { "max": { "quota": "10ms", "period": "20ms" } } },
             "tasks": { "in_one": { "hog": true, "taskgroup": "/a" },
                        "in_five": { "hog": true, "taskgroup": "/a", "priority": 5 } } }"#,
    );
    assert_near(&two, "in_one", 0.5 * 1024.0 / 1359.0);
    assert_near(&two, "in_five", 0.5 * 335.0 / 1359.0);
}

/// Also a very light one, which waits for longer than a sleeper would be owed anything; and two cgroups below the limit.
#[test]
fn what_is_held_forgets_nothing() {
    for (nice, weight) in [(10, 110.0), (19, 15.0)] {
        let outcome = outcome_of(&format!(
            r#"{{ "global": {{ "duration": 20 }}, "machine": {{ "cpus": 1 }},
                 "cgroups": {{ "/a": {{ "max": {{ "quota": "10ms", "period": "50ms" }} }} }},
                 "tasks": {{ "in_heavy": {{ "hog": true, "taskgroup": "/a" }},
                             "in_light": {{ "hog": true, "taskgroup": "/a", "priority": {nice} }} }} }}"#
        ));
        assert_near(&outcome, "in_light", 0.2 * weight / (1024.0 + weight));
    }
    let nested = outcome_of(
        r#"{ "global": { "duration": 20 }, "machine": { "cpus": 1 },
             "cgroups": { "/a": { "max": { "quota": "10ms", "period": "50ms" } },
                          "/a/heavy": { "weight": 1000 }, "/a/light": { "weight": 10 } },
             "tasks": { "in_heavy": { "hog": true, "taskgroup": "/a/heavy" },
                        "in_light": { "instance": 2, "hog": true, "taskgroup": "/a/light" } } }"#,
    );
    assert_near(&nested, "in_light", 0.2 / 101.0);
}

const NESTED: &str = r#"{ "global": { "duration": 10 }, "machine": { "cpus": 1 },
    "cgroups": { "/a": { "max": { "quota": "40ms" } }, "/a/b": { "max": { "quota": "10ms" } },
                 "/a/c": { "max": { "quota": "90ms" } } },
    "tasks": { "b": { "hog": true, "taskgroup": "/a/b" }, "c": { "hog": true, "taskgroup": "/a/c" },
               "out": { "hog": true } } }"#;

#[test]
fn of_nested_limits_the_least_counts() {
    let outcome = outcome_of(NESTED);
    assert_near(&outcome, "b", 0.1);
    assert_near(&outcome, "c", 0.3);
    assert_near(&outcome, "out", 0.6);
}

/// Cgroups below one with a limit, in which others wait at times and at times nobody does.
const BY_WEIGHT: &str = r#"{ "global": { "duration": 10 }, "machine": { "cpus": 1 },
    "cgroups": { "/a": { "max": { "quota": "3ms" } }, "/a/x": { "weight": 1000 }, "/a/y": { "weight": 10 } },
    "tasks": { "x": { "hog": true, "taskgroup": "/a/x" }, "y": { "hog": true, "taskgroup": "/a/y" },
               "z": { "instance": 5, "hog": true, "taskgroup": "/a/z" }, "out": { "hog": true } } }"#;
const X_SHARE: f64 = 0.03 * 1000.0 / 1110.0;

#[test]
fn cgroups_share_the_limit_above_them_by_weight() {
    let got = share(&outcome_of(BY_WEIGHT), "x");
    assert!((got - X_SHARE).abs() < SLACK / 10.0, "{got}");
}

/// Threads of a cgroup on an otherwise idle machine take turns to have what it may, and one that uses little of what it was
/// granted keeps nobody waiting.
#[test]
fn on_idle_cpus_the_limit_is_everybodys() {
    let equal = outcome_of(
        r#"{ "global": { "duration": 10 }, "machine": { "cpus": 16 }, "cgroups": { "/a": { "max": { "quota": "20ms" } } },
             "tasks": { "in": { "instance": 16, "hog": true, "taskgroup": "/a" } } }"#,
    );
    assert_near(&equal, "in", 0.2);
    let spread_ns = spread_ns(&equal);
    assert!(spread_ns < 25 * MS, "{spread_ns}");

    let short = outcome_of(
        r#"{ "global": { "duration": 5 }, "machine": { "cpus": 16 }, "cgroups": { "/a": { "max": { "quota": "20ms" } } },
             "tasks": { "in": { "instance": 16, "taskgroup": "/a", "loop": -1, "run": "200us",
                                "timer": { "ref": "unique", "period": "50ms", "mode": "absolute" } } } }"#,
    );
    let waited_ns = short.tasks.iter().map(|it| it.wait_max_ns).max();
    assert!(waited_ns < Some(5 * MS), "{waited_ns:?}");
}

/// However many wait for however little, the kernel finds nobody stalled.
#[test]
fn nobody_is_held_for_ever() {
    let outcome = outcome_of(
        r#"{ "global": { "duration": 40 }, "machine": { "cpus": 2 },
             "cgroups": { "/a": { "max": { "quota": "1ms", "period": "1s" } } },
             "tasks": { "in": { "instance": 60, "hog": true, "taskgroup": "/a" } } }"#,
    );
    assert!(outcome.tasks.iter().all(|it| it.run_ns > 0));
}

/// A thread that has reserved is in its cgroup all the same.
#[test]
fn what_a_thread_has_reserved_is_within_its_cgroups_limit() {
    let outcome = outcome_of(
        r#"{ "global": { "duration": 5 }, "machine": { "cpus": 2 },
             "classes": { "all": { "capacity": "80%" } },
             "cgroups": { "/a": { "max": { "quota": "20ms" } } },
             "tasks": { "in": { "hog": true, "taskgroup": "/a", "reserve": { "class": "all", "rate": 0.5, "period": "20ms" } },
                        "out": { "instance": 2, "hog": true } } }"#,
    );
    assert_near(&outcome, "in", 0.2);
}

/// What the tests before would say of bugs that no rule of the simulator sees.
#[test]
fn planted_bugs_make_shares_others() {
    let planted = [
        (
            Mutation {
                name: "limit-above-forgotten",
                file: "kernel/bpf/budget.h",
                from: "\t\tlimit_take(&set->limit, own_ns);",
                to: "\t\tif (set == t->home)\n\t\t\tlimit_take(&set->limit, own_ns);",
            },
            (NESTED, "c", 0.3, SLACK),
        ),
        (
            Mutation {
                name: "bound-above-forgotten",
                file: "kernel/bpf/budget.h",
                from: "\t\t\treturn (u64)set;\n\t\tset = set->parent;",
                to: "\t\t\treturn (u64)set;\n\t\tset = NULL;",
            },
            (NESTED, "c", 0.3, SLACK),
        ),
        (
            Mutation {
                name: "one-of-many-is-held",
                file: "kernel/bpf/limits.h",
                from: "struct task __arena *t = first_below(g);",
                to: "struct task __arena *t = NULL;",
            },
            (BY_WEIGHT, "x", X_SHARE, SLACK / 10.0),
        ),
    ];
    for (mutation, (text, task, expected, slack)) in planted {
        let library = plant(&mutation);
        let scenario = scenario::parse("limits.json", text).unwrap();
        let outcome = run(&scenario.setup, Box::new(Consort::new(&library)), &mut ()).unwrap();
        let got = share(&outcome, task);
        let is_seen = outcome.violation.is_some() || (got - expected).abs() > slack;
        assert!(is_seen, "{}: {task} had {got}", mutation.name);
    }
}

/// One that works for 15 ms every second period has all of it with a burst, and without is held in the middle.
#[test]
fn what_is_saved_up_is_used_at_once() {
    let longest_ms = |burst: &str| {
        let text = format!(
            r#"{{ "global": {{ "duration": 4 }}, "machine": {{ "cpus": 1 }},
                 "cgroups": {{ "/a": {{ "max": {{ "quota": "10ms", "period": "50ms", "burst": "{burst}" }} }} }},
                 "tasks": {{ "in": {{ "taskgroup": "/a", "delay": "200ms", "loop": -1, "run": "15ms",
                                      "timer": {{ "ref": "unique", "period": "100ms", "mode": "absolute" }} }} }} }}"#
        );
        let outcome = outcome_of(&text);
        assert_near(&outcome, "in", 0.15);
        outcome.tasks[0].wait_max_ns as f64 / MS as f64
    };
    assert!(longest_ms("10ms") < 1.0);
    assert!(longest_ms("0ms") > 20.0);
}

/// Limits come, change and go while tasks run.
#[test]
fn a_limit_holds_from_when_it_is_set_until_it_is_taken_away() {
    let outcome = outcome_of(
        r#"{ "global": { "duration": 9 }, "machine": { "cpus": 2 },
             "cgroups": { "/a": {} },
             "actions": [ { "at": "3s", "cgroup_max": { "quota": "20ms" }, "cgroup": "/a" },
                          { "at": "6s", "cgroup_max": { "quota": "50ms" }, "cgroup": "/a" },
                          { "at": "8s", "cgroup_max": "max", "cgroup": "/a" } ],
             "tasks": { "in": { "instance": 2, "hog": true, "taskgroup": "/a" } } }"#,
    );
    assert_near(
        &outcome,
        "in",
        (3.0 * 2.0 + 3.0 * 0.2 + 2.0 * 0.5 + 2.0) / 9.0,
    );
}

/// Due events of members, too: what a domain's due times ask for is within its cgroup's limit.
#[test]
fn members_of_domains_are_held_as_others_are() {
    let outcome = outcome_of(
        r#"{ "global": { "duration": 5 }, "machine": { "cpus": 1 },
             "cgroups": { "/films": { "max": { "quota": "30ms" } } },
             "tasks": { "player": { "instance": 4, "taskgroup": "/films", "player": { "load": 0.2, "domain": "films" } },
                        "out": { "hog": true } } }"#,
    );
    assert_near(&outcome, "player", 0.3);
    assert_near(&outcome, "out", 0.7);
}

/// One in a cgroup that has used up what it may have holds a lock which another one wants that nothing limits: it runs on for
/// that one, by the kernel's word who holds it. With an ordinary lock nobody knows.
#[test]
fn a_holder_is_let_go_for_those_that_wait_for_it() {
    let longest_ms = |pi: bool| {
        let text = format!(
            r#"{{ "global": {{ "duration": 6, "pi_enabled": {pi} }}, "machine": {{ "cpus": 1 }},
                 "cgroups": {{ "/a": {{ "max": {{ "quota": "2ms" }} }} }},
                 "tasks": {{ "in": {{ "taskgroup": "/a", "loop": -1, "lock": "m", "run": "5ms", "unlock": "m", "sleep": "1ms" }},
                             "urgent": {{ "loop": -1, "sleep": "30ms", "lock": "m", "run": "100us", "unlock": "m" }} }} }}"#
        );
        let scenario = scenario::parse("limits.json", &text).unwrap();
        let (mut asleep_since, mut longest) = (0, 0);
        let mut note = |event: &Event| match event.what {
            What::Switch {
                prev: Some((1, _)), ..
            } => asleep_since = event.at_ns,
            What::Switch { next: Some(1), .. } => longest = longest.max(event.at_ns - asleep_since),
            _ => {}
        };
        let outcome = run(&scenario.setup, consort(), &mut note).unwrap();
        assert_fine(&outcome);
        longest as f64 / MS as f64
    };
    assert!(longest_ms(true) < 45.0, "{}", longest_ms(true));
    assert!(longest_ms(false) > 150.0, "{}", longest_ms(false));
}
