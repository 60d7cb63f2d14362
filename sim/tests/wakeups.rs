// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wake-ups on several CPUs: whom they interrupt, and how long a woken task waits at most.

use crate::common::summaries::{row, share, summary, SEEDS};
use crate::common::{assert_fine, sleeper, with_domain, MS, S};
use consort_sim::setup::{Kernel, Machine, Program, Setup, Task};
use consort_sim::trace::Outcome;
use consort_sim::{consort, run};

/// As `consort set min-slice` has it by default.
const MIN_SLICE_NS: u64 = 500_000;

fn two_cpus(tasks: Vec<Task>) -> Setup {
    let mut setup = with_domain(Machine::simple(2, 1, Kernel::V7_2), 2 * S);
    setup.tasks = tasks;
    setup
}

fn counter(outcome: &Outcome, name: &str) -> u64 {
    let found = outcome.counters.iter().find(|it| it.0 == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}

#[test]
fn a_task_that_wakes_beside_hogs_waits_for_a_shortest_slice_at_most() {
    let hogs = (0..4).map(|n| Task::new(&format!("hog{n}"), Program::Hog));
    let mut tasks = vec![Task::new("sleeper", sleeper(7 * MS, 100_000))];
    tasks.extend(hogs);
    let outcome = run(&two_cpus(tasks), consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let waited_ns = outcome.tasks[0].wait_max_ns;
    assert!(
        waited_ns < MIN_SLICE_NS + 200_000,
        "waited for {waited_ns} ns"
    );
}

/// Eight tasks that run for a moment, thousands of times a second, and are always behind the hogs beside them.
#[test]
fn a_cpu_is_interrupted_once_in_a_shortest_slice_at_most() {
    let ticker = |n: u64| Task::new(&format!("ticker{n}"), sleeper(200_000 + 7_000 * n, 10_000));
    let mut tasks: Vec<_> = (0..8).map(ticker).collect();
    tasks.extend((0..4).map(|n| Task::new(&format!("hog{n}"), Program::Hog)));
    let setup = two_cpus(tasks);
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let (wakeups, preemptions) = (
        counter(&outcome, "wakeups"),
        counter(&outcome, "preemptions"),
    );
    let slices = 2 * setup.duration_ns / MIN_SLICE_NS;
    assert!(wakeups > 2 * slices, "{outcome:?}");
    assert!(
        preemptions < slices,
        "{preemptions} at {wakeups} wake-ups, {slices} slices"
    );
}

/// Eight members of two domains that are due at a time, on four CPUs of which hogs have two.
const BURST: &str = r#"{"global": {"duration": 5, "warmup": 1}, "machine": {"cpus": 4, "llc": 1},
    "domains": {"a": {"event": "1ms"}, "b": {"event": "1ms"}},
    "tasks": {"one": {"instance": 4, "phases": {"a": {"loop": 1, "join": "a", "poll": 0},
                      "b": {"loop": -1, "run": 450, "poll": {"due": {"timer": "unique", "period": "7ms"}}}}},
              "two": {"instance": 4, "phases": {"a": {"loop": 1, "join": "b", "poll": 0},
                      "b": {"loop": -1, "run": 450, "poll": {"due": {"timer": "unique", "period": "7ms"}}}}},
              "hog": {"hog": true, "instance": 2}}}"#;

/// None waits for a hog: some for one event of others, and the rest interrupt hogs. What they had ahead of those they repay
/// while CPUs idle; else they would soon have borrowed enough, and be 1.3 ms late.
#[test]
fn members_that_are_due_at_a_time_interrupt_hogs_on_other_cpus() {
    for seed in SEEDS {
        let summary = summary(BURST, seed);
        for name in ["one", "two"] {
            let tardiness = &row(&summary, name).tardiness;
            assert!(tardiness.p99_ms < 1.0, "{name}: {tardiness:?}");
        }
        let percent = share(&summary, "hog");
        assert!(percent > 180.0, "{percent}");
    }
}

/// Sixteen members that are due at a time, on eight CPUs of which hogs have three.
const AUDIO: &str = r#"{"global": {"duration": 6, "warmup": 2}, "machine": {"cpus": 8, "llc": 1},
    "domains": {"a": {"event": "1ms"}},
    "tasks": {"audio": {"instance": 16, "phases": {"a": {"loop": 1, "join": "a", "poll": "1ms"},
                        "b": {"loop": -1, "run": 1000, "poll": {"due": {"timer": "unique", "period": "5ms"}}}}},
              "hog": {"hog": true, "instance": 3}}}"#;

/// Five CPUs are enough for the members: no hog is interrupted for one that need only wait for another's event. Its next event
/// is then due as much later, and soon nobody has to wait.
#[test]
fn a_due_member_awaits_the_end_of_an_event_rather_than_interrupt_a_hog() {
    for seed in SEEDS {
        let summary = summary(AUDIO, seed);
        let percent = share(&summary, "hog");
        assert!(percent > 290.0, "{percent}");
        let tardiness = &row(&summary, "audio").tardiness;
        assert!(tardiness.p99_ms < 1.0, "{tardiness:?}");
    }
}

/// Three domains on two CPUs, with long events, beside hogs.
const LONG: &str = r#"{"global": {"duration": 6, "warmup": 1}, "machine": {"cpus": 2, "llc": 1},
    "domains": {"a": {"event": "2ms"}, "b": {"event": "2ms"}, "c": {"event": "2ms"}}, "cgroups": {"/user": {"weight": 1000}},
    "tasks": {"a": {"taskgroup": "/user", "phases": {"a": {"join": "a"}, "b": {"loop": -1, "run": 1000, "poll": "7ms"}}},
              "b": {"taskgroup": "/user", "phases": {"a": {"join": "b"}, "b": {"loop": -1, "run": 1000, "poll": "7ms"}}},
              "c": {"taskgroup": "/user", "phases": {"a": {"join": "c"}, "b": {"loop": -1, "run": 1000, "poll": "7100us"}}},
              "hog": {"hog": true, "instance": 5}}}"#;

/// Whatever the member's own domain calls an event: in no domain it would wait for a shortest slice of a hog's at most.
#[test]
fn a_due_member_awaits_an_event_for_a_shortest_slice_at_most() {
    for seed in SEEDS {
        let summary = summary(LONG, seed);
        for name in ["a", "b", "c"] {
            let tardiness = &row(&summary, name).tardiness;
            assert!(tardiness.p99_ms < 0.7, "{name}: {tardiness:?}");
        }
    }
}
