// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups with decision functions: threads that know nothing of it run when their group says, and nobody else pays.

use crate::common::summaries::{row, share, summary, summary_of, SEEDS};
use consort_sim::consort;
use consort_sim::groups::RoleTotal;
use consort_sim::report::Summary;
use consort_sim::setup::{Action, ActionKind, Call};

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
fn who_runs_beside_nobody_keeps_its_intervals() {
    let alone = |begins: &str, steps: &str| {
        format!(
            r#"{{"global": {{"duration": 4}}, "groups": {{"video": {{"function": "plan", {begins} "members": {{
                "other": {{}}, "display": {{"plan": [["0ms", "1ms"], ["2ms", "3ms"]], "repeat": "10ms"}}}}}}}},
            "tasks": {{"display": {{"hog": true}}, "other": {{{steps}}}}}}}"#
        )
    };
    let sleeps = r#""sleep": "1s""#;
    let it = summary(&alone(r#""begins": "200ms","#, sleeps), 1);
    let display = role(&it, "display");
    assert_eq!((display.kept, display.missed.all()), (760, 0));
    // The plan begins while it runs, for long with nobody to be compared with.
    let triggers = r#""phases": {"first": {"sleep": "1s", "tell": "trigger", "yield": ""}, "then": {"loop": -1, "sleep": "1s"}}"#;
    let it = summary(&alone("", triggers), 1);
    let display = role(&it, "display");
    assert!((599..=600).contains(&display.kept), "{display:?}");
    assert_eq!(display.missed.all(), 0, "{display:?}");
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

/// 003's Program 3.3: the display thread has a plan, the server follows it, the others fill queues.
fn player(hogs: u32) -> String {
    format!(
        r#"{{"global": {{"duration": 6, "warmup": 1}}, "queues": {{"read": 16, "ready": 16}},
        "groups": {{"video": {{"function": "pipeline", "begins": "520ms", "bootstrap": 4, "members": {{
            "read": {{"high": 8, "step": 4}}, "transform": {{"high": 8, "step": 4}},
            "display": {{"step": 1, "plan": [["0ms", "5ms"]], "repeat": "40ms"}},
            "server": {{"follows": "display", "for": "4ms"}}}}}}}},
        "tasks": {{
            "read": {{"run": "2ms", "put": "read"}},
            "transform": {{"take": "read", "run": "3ms", "put": "ready"}},
            "display": {{"delay": "520ms", "timer": {{"ref": "unique", "period": "40ms", "mode": "absolute"}},
                "take": "ready", "run": "0.3ms", "mark": {{"first": "560ms", "period": "40ms"}},
                "tell1": "submitting", "resume": "server", "tell2": "submitted", "yield": "", "tell3": "done"}},
            "server": {{"suspend": "", "run": "1ms", "mark": {{"first": "560ms", "period": "40ms"}}}},
            "hogs": {{"instance": {hogs}, "hog": true}}}}}}"#
    )
}

#[test]
fn a_pipelines_frames_are_on_time_whatever_the_load() {
    for hogs in [1, 4, 10] {
        let summary = summary(&player(hogs), 1);
        let of = |name| &row(&summary, name).tardiness;
        // Submitted after 0.3 ms of work, complete after 1 ms more, and what switches take.
        assert!(of("display").max_ms < 0.5, "{hogs}: {:?}", of("display"));
        assert!(of("server").max_ms < 1.5, "{hogs}: {:?}", of("server"));
        assert_eq!(of("server").count, 125, "{hogs}");
        for member in ["display", "server"] {
            let role = role(&summary, member);
            assert!(
                role.kept >= 136 && role.missed.all() == 0,
                "{hogs}: {role:?}"
            );
        }
    }
}

#[test]
fn a_filled_pipeline_changes_stages_once_in_a_step() {
    // All stages always want the CPU, of which they have half.
    let switches = |step: u32| {
        let text = format!(
            r#"{{"global": {{"duration": 6, "warmup": 1}}, "queues": {{"read": 64, "ready": 64}},
            "groups": {{"video": {{"function": "pipeline", "members": {{
                "read": {{"high": 8, "step": {step}}}, "transform": {{"high": 8, "step": {step}}},
                "display": {{"step": 1}}}}}}}},
            "tasks": {{"read": {{"run": "0.5ms", "put": "read", "yield": ""}},
                "transform": {{"take": "read", "run": "0.5ms", "put": "ready", "yield": ""}},
                "display": {{"take": "ready", "run": "0.5ms", "yield": ""}},
                "hogs": {{"instance": 3, "hog": true}}}}}}"#
        );
        let summary = summary(&text, 1);
        let stages = ["read", "transform", "display"];
        // All three keep pace with each other.
        let shares: Vec<f64> = stages.iter().map(|it| share(&summary, it)).collect();
        assert!(
            shares.iter().all(|it| (it - shares[0]).abs() < 0.2),
            "{shares:?}"
        );
        stages
            .iter()
            .map(|it| row(&summary, it).switches_per_s)
            .sum::<f64>()
    };
    assert!(
        switches(4) < 0.6 * switches(1),
        "{} {}",
        switches(4),
        switches(1)
    );
}

#[test]
fn a_starved_stage_has_those_before_it_run_in_its_interval() {
    // Nothing is read ahead: a frame is made in its own interval.
    let text = player(8)
        .replace(r#""high": 8, "step": 4"#, r#""high": 1, "step": 1"#)
        .replace(r#"["0ms", "5ms"]"#, r#"["0ms", "15ms"]"#)
        .replace(r#""bootstrap": 4"#, r#""bootstrap": 0"#)
        .replace(r#""read": 16, "ready": 16"#, r#""read": 1, "ready": 1"#);
    let summary = summary(&text, 1);
    let server = &row(&summary, "server").tardiness;
    assert!(server.max_ms < 15.0, "{server:?}");
    assert_eq!(server.count, 125);
}

#[test]
fn a_server_follows_a_client_that_says_nothing() {
    let text = r#"{"global": {"duration": 4, "warmup": 1},
        "groups": {"both": {"function": "follow", "members": {
            "client": {}, "server": {"follows": "client", "for": "3ms"}}}},
        "tasks": {
            "client": {"timer": {"ref": "unique", "period": "20ms", "mode": "absolute"}, "run": "0.5ms", "resume": "server", "mark": {"first": "20ms", "period": "20ms"}},
            "server": {"suspend": "", "run": "1ms", "mark": {"first": "20ms", "period": "20ms"}},
            "hogs": {"instance": 6, "hog": true}}}"#;
    let it = summary(text, 1);
    let server = role(&it, "server");
    assert!(server.kept > 195 && server.missed.all() < 3, "{server:?}");
    let after = row(&it, "server").tardiness.max_ms - row(&it, "client").tardiness.max_ms;
    assert!(after < 1.2, "{after} ms after its client");
    // In no group it waits for its turn.
    let alone = summary(
        &text.replace(r#"{"follows": "client", "for": "3ms"}"#, "{}"),
        1,
    );
    assert!(row(&alone, "server").tardiness.p99_ms > row(&it, "server").tardiness.max_ms + 1.0);
}

#[test]
fn whose_period_ends_first_goes_first_and_budgets_hold() {
    let text = r#"{"global": {"duration": 6, "warmup": 1},
        "groups": {"edf": {"function": "period", "members": {
            "a": {"period": "10ms", "budget": "2ms"}, "b": {"period": "20ms", "budget": "6ms"},
            "c": {"period": "40ms", "budget": "8ms"}, "greedy": {"period": "5ms", "budget": "0.5ms"}}}},
        "tasks": {
            "a": {"timer": {"ref": "unique", "period": "10ms", "mode": "absolute"}, "run": "2ms"},
            "b": {"timer": {"ref": "unique", "period": "20ms", "mode": "absolute"}, "run": "6ms"},
            "c": {"timer": {"ref": "unique", "period": "40ms", "mode": "absolute"}, "run": "8ms"},
            "greedy": {"hog": true}}}"#;
    for seed in SEEDS {
        let summary = summary(text, seed);
        for (name, percent) in [("a", 20.0), ("b", 30.0), ("c", 20.0)] {
            let share = share(&summary, name);
            assert!((share - percent).abs() < 0.5, "{name} has {share}");
        }
        // A piece of work is over when the next one would begin: what is late is the wake-up.
        for (name, period_ms) in [("a", 10.0), ("b", 20.0), ("c", 40.0)] {
            let late_ms = row(&summary, name).tardiness.max_ms;
            assert!(late_ms < period_ms, "{name} is late by {late_ms} ms");
        }
    }
}

/// A group whose function is a source of our own examples, or one that misbehaves.
fn with_function(function: &str, members: &str, tasks: &str) -> String {
    format!(
        r#"{{"global": {{"duration": 4, "warmup": 1}}, "machine": {{"cpus": 1}},
            "functions": {{"own": {function}}},
            "groups": {{"own": {{"function": "user:own", "members": {members}}}}},
            "tasks": {{{tasks}, "outsider": {{"hog": true}}}}}}"#
    )
}

fn example(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../df/examples");
    format!(r#"{{"source": {:?}}}"#, path.join(name))
}

const TWO_HOGS: &str = r#""first": {"hog": true}, "second": {"hog": true}"#;

#[test]
fn a_source_of_ones_own_decides_who_runs_and_not_how_much() {
    // Whoever publishes a deadline goes before whoever has none, with all that the group has; patience is a second.
    let tasks = r#""first": {"hog": true},
        "second": {"loop": -1, "state": {"value": 4000000000000}, "run": "1ms"}"#;
    let members = r#"{"first": {}, "second": {}}"#;
    let summary = summary(&with_function(&example("laxity.c"), members, tasks), 1);
    let (first, second) = (share(&summary, "first"), share(&summary, "second"));
    assert!(second > 20.0 * first, "{first} and {second}");
    assert!((share(&summary, "outsider") - 100.0 / 3.0).abs() < 1.0);
}

#[test]
fn functions_that_misbehave_cost_nobody_else_anything() {
    for function in ["garbage", "ones", "silent"] {
        let function = format!(r#"{{"misbehaves": "{function}"}}"#);
        let members = r#"{"first": {}, "second": {}}"#;
        for seed in SEEDS {
            let summary = summary(&with_function(&function, members, TWO_HOGS), seed);
            let outsider = share(&summary, "outsider");
            assert!(
                (outsider - 100.0 / 3.0).abs() < 1.0,
                "{function}: {outsider}"
            );
            let own = share(&summary, "first") + share(&summary, "second");
            assert!((own - 200.0 / 3.0).abs() < 1.0, "{function}: {own}");
        }
    }
    // Nobody answers: the order of the file.
    let silent = r#"{"misbehaves": "silent"}"#;
    let members = r#"{"second": {}, "first": {}}"#;
    let summary = summary(&with_function(silent, members, TWO_HOGS), 1);
    assert!(share(&summary, "second") > 20.0 * share(&summary, "first"));
}

/// Ten thousand swaps under load, and no choice is left to the order of the file.
#[test]
fn a_function_is_swapped_again_and_again_and_always_answers() {
    let text = format!(
        r#"{{"global": {{"duration": 4, "warmup": 1}}, "machine": {{"cpus": 1}},
            "functions": {{"own": {laxity}, "other": {laxity}}},
            "groups": {{"own": {{"function": "user:own", "members": {{"first": {{}}, "second": {{}}}}}}}},
            "tasks": {{"first": {{"hog": true}},
                       "second": {{"loop": -1, "state": {{"value": 4000000000000}}, "run": "1ms"}},
                       "outsider": {{"hog": true}}}}}}"#,
        laxity = example("laxity.c")
    );
    let swaps: Vec<Action> = (0..10_000)
        .map(|turn| Action {
            at_ns: 10_000_000 + turn * 390_000,
            what: ActionKind::Call(Call::PutUser {
                number: 0,
                user: Some(turn as usize % 2),
            }),
        })
        .collect();
    for seed in SEEDS {
        let steady = summary_of(consort(), &text, &[], Some(seed));
        let swapped = summary_of(consort(), &text, &swaps, Some(seed));
        let share_of = |name| (share(&steady, name), share(&swapped, name));
        // Unanswered, the first of the file would go first.
        for name in ["first", "second", "outsider"] {
            let (steady, swapped) = share_of(name);
            assert!(
                (swapped - steady).abs() < 0.1,
                "{name} has {swapped} instead of {steady}"
            );
        }
    }
}

/// Of a CPU, what an outsider gets done beside a group with such a function, one of whose members wakes all the time.
fn outsider_works_percent(function: &str, machine: &str, seed: u64) -> f64 {
    let text = format!(
        r#"{{"global": {{"duration": 6, "warmup": 2}}, "machine": {machine},
            "functions": {{"own": {{"misbehaves": "{function}"}}}},
            "groups": {{"own": {{"function": "user:own", "members": {{"first": {{}}, "second": {{}}}}}}}},
            "tasks": {{"first": {{"hog": true, "cpus": [0]}},
                       "second": {{"loop": -1, "run": "100us", "sleep": "900us", "cpus": [0]}},
                       "outsider": {{"loop": -1, "run": "2ms", "sleep": "1us", "cpus": [0]}}}}}}"#
    );
    let summary = summary(&text, seed);
    // The kernel counts as its run what a function takes before it is chosen: only its own work tells.
    row(&summary, "outsider").wakeups_per_s * 0.2
}

/// A function takes its time from its own group's.
#[test]
fn what_a_function_takes_is_its_groups() {
    for machine in [r#"{"cpus": 1}"#, r#"{"cpus": 2}"#] {
        for seed in SEEDS {
            let quick = outsider_works_percent("ones", machine, seed);
            let costly = outsider_works_percent("costly", machine, seed);
            assert!(
                (costly - quick).abs() < 1.0,
                "{machine}: {costly} instead of {quick}"
            );
        }
    }
}

/// One that is slow is not asked for long, and one that is quick now and then is no better.
#[test]
fn a_function_that_is_slow_on_the_whole_is_put_aside() {
    for function in ["slow", "mostly slow"] {
        for seed in SEEDS {
            let quick = outsider_works_percent("ones", r#"{"cpus": 1}"#, seed);
            let slow = outsider_works_percent(function, r#"{"cpus": 1}"#, seed);
            assert!(
                (slow - quick).abs() < 1.0,
                "{function}: {slow} instead of {quick}"
            );
        }
    }
}

#[test]
fn a_function_that_breaks_the_rules_is_refused_with_its_place() {
    let parse = |function: &str| {
        let text = with_function(function, r#"{"first": {}}"#, TWO_HOGS);
        consort_sim::scenario::parse("own.json", &text)
            .unwrap_err()
            .to_string()
    };
    let said = parse(r#"{"source": "nowhere.c"}"#);
    assert!(
        said.contains("own.json:2") && said.contains("nowhere.c"),
        "{said}"
    );
    let said = parse(r#"{"misbehaves": "always"}"#);
    assert!(said.contains("garbage"), "{said}");
    assert!(parse("{}").contains("expected one of"), "{}", parse("{}"));
}

/// One whose group has less than a CPU, and who wants a whole one, does not go before a member with a budget for good.
#[test]
fn one_without_a_budget_does_not_keep_others_from_theirs() {
    let text = r#"{"global": {"duration": 10}, "machine": {"cpus": 1},
        "cgroups": {"/a": {"weight": 100}, "/b": {"weight": 100}},
        "groups": {"g": {"function": "period", "members": {
            "busy": {"period": "20ms"}, "sleeper": {"period": "40ms", "budget": "4ms"}}}},
        "tasks": {"busy": {"taskgroup": "/a", "loop": -1, "run": "1ms"},
                  "sleeper": {"taskgroup": "/a", "loop": -1, "timer": {"ref": "unique", "period": "40ms"}, "run": "3ms"},
                  "plain": {"taskgroup": "/b", "loop": -1, "run": "1ms"}}}"#;
    let summary = summary(text, 1);
    let wait_ms = row(&summary, "sleeper").wait_max_ms;
    // What busy wants in its period of 20 ms, and the plain one as much.
    assert!(wait_ms < 80.0, "{wait_ms}");
}

/// What a thread has as a real-time one is no use of its member's budget.
#[test]
fn time_in_another_class_uses_no_budget() {
    let text = r#"{"global": {"duration": 3}, "machine": {"cpus": 1},
        "groups": {"g": {"function": "period", "members": {
            "busy": {"period": "40ms", "budget": "20ms"}, "rt": {"period": "20ms", "budget": "4ms"}}}},
        "tasks": {"busy": {"loop": -1, "run": "1ms"},
                  "rt": {"phases": {
                      "a": {"loop": 20, "policy": "SCHED_OTHER", "timer": {"ref": "unique", "period": "20ms"}, "run": "2ms"},
                      "b": {"loop": 1, "policy": "SCHED_FIFO", "run": "400ms"},
                      "c": {"loop": 1, "policy": "SCHED_OTHER", "run": "20ms"},
                      "d": {"loop": 500, "policy": "SCHED_OTHER", "timer": {"ref": "unique", "period": "20ms"}, "run": "2ms"}}}}}"#;
    let summary = summary(text, 1);
    let wait_ms = row(&summary, "rt").wait_max_ms;
    assert!(wait_ms < 60.0, "{wait_ms}");
}
