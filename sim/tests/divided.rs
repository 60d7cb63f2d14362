// SPDX-License-Identifier: MIT OR Apache-2.0
//! The weight of a cgroup over several queues: what a task, or a CPU, cannot use is had where the cgroup's others are.

use crate::common::planted::{plant, side_by_side};
use crate::common::summaries::{share, summary, summary_under, SEEDS};
use consort_sim::consort::{Consort, Library};
use consort_sim::mutate::Mutation;
use consort_sim::{consort, Scheduler};

/// What all instances of each name have, in percent of a CPU, within 4 of them.
fn assert_shares(text: &str, expected: &[(&str, f64)]) {
    for seed in SEEDS {
        let summary = summary(text, seed);
        for &(name, percent) in expected {
            let had = share(&summary, name);
            assert!(
                (had - percent).abs() < 4.0,
                "{name} has {had:.1}, not {percent}"
            );
        }
    }
}

/// Three CPUs for eight tasks of a cgroup: one that weighs nine times as much has one of them, and the others are equals, masked
/// or not. The one with a mask had 20 %, as the heavy one's weight was where it has a CPU anyway.
#[test]
fn a_mask_beside_a_heavy_task_costs_nothing() {
    assert_shares(
        r#"{"global": {"duration": 6, "warmup": 2}, "machine": {"cpus": 3, "llc": 1}, "cgroups": {"/all": {"weight": 100}},
            "tasks": {"heavy": {"hog": true, "priority": -10, "taskgroup": "/all"},
                      "hog": {"instance": 5, "hog": true, "taskgroup": "/all"},
                      "masked": {"hog": true, "cpus": [0, 1], "taskgroup": "/all"}}}"#,
        &[("heavy", 100.0), ("hog", 5.0 * 33.3), ("masked", 33.3)],
    );
}

const BOUND: &str = r#"{"global": {"duration": 6, "warmup": 2}, "machine": {"cpus": 6, "llc": 1},
            "cgroups": {"/web": {"weight": 1000}, "/one": {"weight": 1000}, "/one/bound": {"weight": 1000}},
            "tasks": {"web": {"instance": 8, "hog": true, "taskgroup": "/web"},
                      "agent": {"hog": true, "taskgroup": "/one"},
                      "bound": {"instance": 4, "hog": true, "cpus": [2], "taskgroup": "/one/bound"},
                      "plain": {"instance": 3, "hog": true}}}"#;

/// A cgroup is to have more than two of six CPUs: its heavy tasks are bound to one, and the agent has the rest of its share, which is
/// a CPU. It had 33 %.
#[test]
fn an_agent_beside_bound_tasks_has_the_rest_of_their_share() {
    assert_shares(BOUND, &[("agent", 100.0), ("bound", 100.0)]);
}

/// The same over two caches: the workers of one that is entitled to seven CPUs are not kept from theirs by its agent's weight. One
/// of them had 74 %.
#[test]
fn workers_are_not_kept_from_their_cpus_by_the_weight_of_their_agent() {
    assert_shares(
        r#"{"global": {"duration": 6, "warmup": 2}, "machine": {"cpus": 8, "llc": 2},
            "cgroups": {"/batch": {"weight": 100}, "/app": {"weight": 1000}, "/app/workers": {"weight": 10}},
            "tasks": {"batch": {"instance": 6, "hog": true, "taskgroup": "/batch"},
                      "agent": {"hog": true, "taskgroup": "/app"},
                      "worker": {"instance": 4, "hog": true, "cpus": [0, 5, 6, 7], "taskgroup": "/app/workers"}}}"#,
        &[("agent", 100.0), ("worker", 400.0), ("batch", 300.0)],
    );
}

const HEAVY_ACCOUNT: &str = r#"{"global": {"duration": 6, "warmup": 2}, "machine": {"cpus": 2},
            "cgroups": {"/all": {"weight": 100}, "/all/heavy": {"weight": 1000}, "/all/bound": {"weight": 100},
                        "/all/free": {"weight": 100}},
            "tasks": {"heavy": {"hog": true, "taskgroup": "/all/heavy"},
                      "bound": {"instance": 4, "hog": true, "cpus": [0], "taskgroup": "/all/bound"},
                      "free": {"instance": 3, "hog": true, "taskgroup": "/all/free"}}}"#;

/// A heavy cgroup of one task has one of two CPUs, and two light ones share the other, in a cgroup of all or not: the one that is
/// bound had 17 %.
#[test]
fn bound_tasks_are_equals_beside_a_heavy_cgroup_that_has_its_cpu() {
    assert_shares(
        HEAVY_ACCOUNT,
        &[("heavy", 100.0), ("bound", 50.0), ("free", 50.0)],
    );
}

const FULL: &str = r#"{"global": {"duration": 6, "warmup": 2}, "machine": {"cpus": 2},
            "cgroups": {"/one": {"weight": 100}, "/two": {"weight": 50}},
            "tasks": {"heavy": {"instance": 3, "hog": true, "priority": -10, "cpus": [1]},
                      "there": {"instance": 2, "hog": true, "cpus": [1], "taskgroup": "/one"},
                      "here": {"instance": 2, "hog": true, "cpus": [0], "taskgroup": "/one"},
                      "other": {"hog": true, "cpus": [0], "taskgroup": "/two"}}}"#;

/// What a cgroup's tasks cannot have on a full CPU its others have elsewhere: it kept half of its weight where it had 2 % of a CPU,
/// and the others had 50.
#[test]
fn what_a_full_cpu_does_not_give_a_cgroup_has_elsewhere() {
    assert_shares(FULL, &[("here", 66.7), ("other", 33.3)]);
}

/// The same of one that weighs little, with most of its weight on the full CPU: it had a tenth of its share.
#[test]
fn a_light_task_has_the_share_that_a_heavy_one_cannot_have() {
    let text = r#"{"global": {"duration": 10, "warmup": 3}, "machine": {"cpus": 3, "llc": 1},
        "cgroups": {"/zero": {"weight": 50}, "/one": {"weight": 10}, "/two": {"weight": 1000}},
        "tasks": {"masked": {"hog": true, "cpus": [0, 2], "taskgroup": "/zero"}, "free": {"hog": true, "taskgroup": "/zero"},
                  "bound": {"hog": true, "cpus": [2], "taskgroup": "/one"},
                  "light": {"hog": true, "priority": 10, "taskgroup": "/one"},
                  "full": {"hog": true, "priority": 10, "cpus": [2], "taskgroup": "/two"},
                  "hog": {"instance": 2, "hog": true}}}"#;
    for seed in SEEDS {
        let had = share(&summary(text, seed), "light");
        assert!(had > 5.5, "{had:.2} of 6.8");
    }
}

const AT_TIMES: &str = r#"{"global": {"duration": 6, "warmup": 2}, "machine": {"cpus": 4, "llc": 1},
            "cgroups": {"/one": {"weight": 100}, "/one/masked": {"weight": 10000}, "/two": {"weight": 200}},
            "tasks": {"agent": {"hog": true, "taskgroup": "/one"},
                      "masked": {"instance": 2, "loop": -1, "run": 2000, "sleep": 6000, "cpus": [0, 1, 2],
                                 "taskgroup": "/one/masked"},
                      "plain": {"instance": 5, "hog": true, "taskgroup": "/two"}}}"#;

/// While heavy tasks of its cgroup are there at times, an agent has next to nothing of the cgroup's share, and all of it then: what it
/// is ahead by while it is light is no more when it is heavy. It had 4 %.
#[test]
fn an_agent_beside_heavy_tasks_that_come_and_go_has_what_they_leave() {
    for seed in SEEDS {
        let had = share(&summary(AT_TIMES, seed), "agent");
        assert!(had > 55.0, "{had:.1} of 83, which it would have at best");
    }
}

const MASKED: &str = r#"{"global": {"duration": 20, "warmup": 1}, "machine": {"cpus": 8, "llc": 2},
        "tasks": {"heavy": {"instance": 3, "hog": true, "priority": -10},
                  "masked": {"instance": 8, "hog": true, "cpus": [2, 3, 4, 7]},
                  "sleeper": {"instance": 8, "loop": -1, "run": 754, "sleep": 3373}}}"#;

/// Two caches, each with heavy tasks that have a CPU each, and masks of two CPUs of each: heavy ones come on slowly by their clock,
/// which is no reason to take masked ones from beside them. These had 28 to 50 %.
#[test]
fn masked_tasks_over_two_caches_are_equals_beside_heavy_ones() {
    let summary = summary(MASKED, 1);
    let masked = summary
        .tasks
        .iter()
        .filter(|row| row.name.starts_with("masked"));
    let percents: Vec<f64> = masked.map(|row| row.share_percent).collect();
    let (least, most) = (
        percents.iter().copied().fold(f64::INFINITY, f64::min),
        percents.iter().copied().fold(0.0, f64::max),
    );
    assert!(percents.len() == 8 && most < 1.2 * least, "{percents:?}");
}

const NESTED: &str = r#"{"global": {"duration": 12, "warmup": 2}, "machine": {"cpus": 4, "llc": 2},
        "cgroups": {"/app": {"weight": 200}, "/app/workers": {"weight": 100}},
        "tasks": {"worker": {"instance": 2, "hog": true, "taskgroup": "/app/workers"},
                  "plain": {"instance": 3, "hog": true}}}"#;

/// Five tasks that are equals share two caches of two CPUs, however deep the cgroup is that two of them are in. These had a cache for
/// themselves, as they seemed to have one CPU of it.
#[test]
fn tasks_of_a_nested_cgroup_take_turns_with_others_over_caches() {
    assert_shares(NESTED, &[("worker", 160.0), ("plain", 240.0)]);
}

const BESIDE: &str = r#"{"global": {"duration": 12, "warmup": 2}, "machine": {"cpus": 6, "llc": 2},
        "cgroups": {"/one": {"weight": 200}},
        "tasks": {"one": {"instance": 3, "hog": true, "taskgroup": "/one"},
                  "other": {"hog": true, "taskgroup": "/one"},
                  "masked": {"instance": 3, "hog": true, "cpus": [1, 3, 5]},
                  "light": {"hog": true, "priority": 5, "cpus": [1, 5]}}}"#;

/// Four equals of a cgroup have three CPUs in two caches, in one of which masked tasks wait. While the others there do not, the clock
/// of that cache goes on, or it would seem to be behind. Three of them had two CPUs.
#[test]
fn tasks_of_a_cgroup_take_turns_over_caches_beside_masked_ones() {
    for seed in SEEDS {
        let had = share(&summary(BESIDE, seed), "one");
        assert!((215.0..235.0).contains(&had), "{had:.1} of 225");
    }
}

const MASKS: &str = r#"{"global": {"duration": 12, "warmup": 2}, "machine": {"cpus": 6, "llc": 2},
        "cgroups": {"/one": {"weight": 100}, "/two": {"weight": 100}},
        "tasks": {"masked": {"instance": 3, "hog": true, "cpus": [0, 1, 3, 4, 5]},
                  "heavy": {"instance": 2, "hog": true, "priority": -10, "cpus": [0]},
                  "two": {"hog": true, "taskgroup": "/two"},
                  "few": {"instance": 2, "hog": true, "cpus": [0, 1, 5]},
                  "one": {"hog": true, "priority": -5, "taskgroup": "/one"}}}"#;

/// Whether masked tasks lag is told by the clock of the machine. By their cache's own they seemed to lag by all that this had been
/// put forward, and others came to them: they had 190.
#[test]
fn what_masked_tasks_lag_is_told_by_the_clock_of_the_machine() {
    for seed in SEEDS {
        let had = share(&summary(MASKS, seed), "masked");
        assert!(had > 198.0, "{had:.1} of 214");
    }
}

const FEW: &str = r#"{"global": {"duration": 10, "warmup": 1}, "machine": {"cpus": 4, "llc": 2},
        "cgroups": {"/one": {"weight": 100}, "/many": {"weight": 100}, "/two": {"weight": 100}},
        "tasks": {"one": {"hog": true, "taskgroup": "/one"}, "many": {"instance": 8, "hog": true, "taskgroup": "/many"},
                  "two": {"instance": 2, "hog": true, "taskgroup": "/two"}}}"#;

fn longest_wait_ms(scheduler: Box<dyn Scheduler>) -> f64 {
    let summary = summary_under(scheduler, FEW, Some(1));
    let waits = summary.groups.iter().map(|row| row.wait_max_ms);
    waits.fold(0.0, f64::max)
}

/// In a cache where a cgroup has fewer tasks than its share has CPUs, it is not owed what it cannot use: its tasks that came there
/// later had all of it at once, and others waited for 105 ms.
#[test]
fn what_few_tasks_cannot_use_goes_to_none_that_come_later() {
    let bug = Mutation {
        name: "accounts-are-owed-what-they-cannot-use",
        file: "core/decide/fair.h",
        from: "return first->kind < NODE_FAIR || !outer_of(first, struct group, node)->nr_seats;",
        to: "return 0;",
    };
    let (sound_ms, mutated_ms) = (
        longest_wait_ms(consort()),
        longest_wait_ms(Box::new(Consort::new(&plant(&bug)))),
    );
    assert!(
        sound_ms < 40.0 && mutated_ms > 60.0,
        "{sound_ms:.1} ms, and {mutated_ms:.1} with the bug"
    );
}

/// In percent of a CPU: what the least of eight equals has of six CPUs in three caches, 68 for each, beside tasks that sleep mostly.
fn least_beside_sleepers(scheduler: Box<dyn Scheduler>) -> f64 {
    let text = include_str!("../scenarios/mixes/handlers_in_three_caches.json");
    let summary = summary_under(scheduler, text, Some(1));
    let equals = summary
        .tasks
        .iter()
        .filter(|it| it.name.starts_with("batch"));
    equals
        .map(|it| it.share_percent)
        .fold(f64::INFINITY, f64::min)
}

/// Where tasks wait in a cache now and then only, they have had most of its CPUs while nobody waited. Its clock stood meanwhile, or it
/// went by as much as the whole cgroup weighs: it seemed to be behind, and tasks left it that had a CPU each.
#[test]
fn what_tasks_have_while_nobody_waits_counts_in_their_cache() {
    let bugs = [
        Mutation {
            name: "spare-time-is-not-counted",
            file: "kernel/bpf/balance.h",
            from: "return fair_sleepers_vmin(&s->place.root);",
            to: "return s->place.root.vmin;",
        },
        Mutation {
            name: "spare-time-is-that-of-all-caches",
            file: "core/decide/fair.h",
            from: "u64 weight = group_weight_here(g);",
            to: "u64 weight = g->weight_active;",
        },
    ];
    let sound = least_beside_sleepers(consort());
    assert!(sound > 64.5, "{sound:.1}");
    for bug in &bugs {
        let mutated = least_beside_sleepers(Box::new(Consort::new(&plant(bug))));
        assert!(mutated < 62.5, "{}: {mutated:.1}", bug.name);
    }
}

/// A bug, a scenario, and a name whose instances have more than that, in percent of a CPU, without the bug alone.
const BUGS: [(Mutation, &str, &str, f64); 6] = [
    (
        Mutation {
            name: "a-nested-cgroup-has-one-cpu",
            file: "kernel/bpf/speeds.h",
            from: "nr += g->nr_active - n->active;",
            to: "nr = g->nr_active;",
        },
        NESTED,
        "plain",
        225.0,
    ),
    (
        Mutation {
            name: "heavy-ones-count-all",
            file: "core/ledger.h",
            from: "if (!cpus || all <= cpus || (s64)others <= 0)",
            to: "if (1)",
        },
        BOUND,
        "agent",
        90.0,
    ),
    (
        Mutation {
            name: "heavy-accounts-count-all",
            file: "core/tree.h",
            from: "return load < most ? load : most;",
            to: "return most ? load : 0;",
        },
        HEAVY_ACCOUNT,
        "bound",
        45.0,
    ),
    (
        Mutation {
            name: "what-is-served-counts-nothing",
            file: "core/tree.h",
            from: "here = here < worth ? here : worth;",
            to: "(void)worth;",
        },
        FULL,
        "here",
        62.0,
    ),
    (
        Mutation {
            name: "a-lead-stays-as-weights-change",
            file: "core/decide/fair.h",
            from: "vtime_of_ns(vtime_to_ns(lead, was), weight)",
            to: "lead",
        },
        AT_TIMES,
        "agent",
        55.0,
    ),
    (
        Mutation {
            name: "nobody-is-behind-a-leap",
            file: "core/decide/fair.h",
            from: "return vtime_of_ns(LAG_MAX_NS / 2, g->weight_active / g->nr_active);",
            to: "return 0;",
        },
        r#"{"global": {"duration": 3, "warmup": 1}, "machine": {"cpus": 8},
            "tasks": {"many": {"instance": 200, "hog": true}, "heavy": {"instance": 2, "hog": true, "priority": -20}}}"#,
        "heavy",
        190.0,
    ),
];

#[test]
fn each_planted_bug_is_seen() {
    side_by_side(&BUGS, |(bug, text, name, least)| {
        let had = |library: &Library| {
            let scheduler = Box::new(Consort::new(library));
            share(&summary_under(scheduler, text, Some(1)), name)
        };
        let (sound, mutated) = (had(&Library::built_in()), had(&plant(bug)));
        assert!(
            sound > *least && mutated < *least,
            "{}: {name} has {mutated:.1}, and {sound:.1} without",
            bug.name
        );
    });
}
