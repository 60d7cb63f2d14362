// SPDX-License-Identifier: MIT OR Apache-2.0
//! One CPU: shares, sleepers, and the players of bench/player.

use crate::common::planted::plant;
use crate::common::{assert_fine, players, sleeper, with_domain, Tardiness, MS, S};
use consort_sim::consort::{Consort, Library};
use consort_sim::mutate::Mutation;
use consort_sim::setup::{Kernel, Machine, Program, Task};
use consort_sim::trace::Event;
use consort_sim::{consort, run};

fn one_cpu(kernel: Kernel) -> Machine {
    Machine::simple(1, 1, kernel)
}

/// A task that waits for all of a round, in which others end, does not starve.
#[test]
fn tasks_that_end_were_before_who_waits() {
    let text = r#"{ "global": { "duration": 12 }, "tunables": { "granularity": "30ms", "min_slice": "30ms" },
        "tasks": { "greedy": { "instance": 10, "loop": 400, "run": "2500us" } } }"#;
    let scenario = consort_sim::scenario::parse("ends.json", text).unwrap();
    let outcome = run(&scenario.setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
}

#[test]
fn two_hogs_share_the_cpu() {
    let mut setup = with_domain(one_cpu(Kernel::V7_2), 2 * S);
    setup.tasks = vec![Task::new("a", Program::Hog), Task::new("b", Program::Hog)];
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let [a, b] = &outcome.tasks[..] else {
        panic!("two tasks");
    };
    assert!(a.run_ns.abs_diff(b.run_ns) < 8 * MS, "{a:?} {b:?}");
    assert!(outcome.idle_ns < MS);
}

#[test]
fn weights_divide_the_cpu() {
    let mut setup = with_domain(one_cpu(Kernel::V6_18), 5 * S);
    setup.tasks = vec![
        Task::new("light", Program::Hog),
        Task::new("heavy", Program::Hog),
    ];
    setup.tasks[0].nice = 5;
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let ratio = outcome.tasks[1].run_ns as f64 / outcome.tasks[0].run_ns as f64;
    assert!((ratio - 1024.0 / 335.0).abs() < 0.05, "{ratio}");
}

/// What a task was behind when it went to sleep it is behind when it is back: it does not lose a slice by each pause.
#[test]
fn short_pauses_cost_nothing() {
    let mut setup = with_domain(one_cpu(Kernel::V7_2), 2 * S);
    setup.tasks = vec![
        Task::new("hog", Program::Hog),
        Task::new("pauses", sleeper(20_000, 400_000)),
    ];
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let share = outcome.tasks[1].run_ns as f64 / (2 * S) as f64;
    assert!((0.48..0.51).contains(&share), "{share}");
}

#[test]
fn a_sleeper_is_woken_beside_a_hog() {
    let mut setup = with_domain(one_cpu(Kernel::V7_2), S);
    setup.tasks = vec![
        Task::new("hog", Program::Hog),
        Task::new("sleeper", sleeper(10 * MS, 100_000)),
    ];
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    assert!(outcome.tasks[1].wait_max_ns < 5 * MS, "{outcome:?}");
    assert!(outcome.tasks[1].switches > 90, "{outcome:?}");
}

/// The longest tardiness of twelve players that a task interrupts now and then, in milliseconds.
fn interrupted_players_ms(library: &Library, sleep_ns: u64) -> f64 {
    let mut setup = with_domain(one_cpu(Kernel::V7_2), 12 * S);
    setup.tasks = players(12, Some(0), S / 2);
    let wakes = Task::new("wakes", sleeper(40_000, sleep_ns));
    setup.tasks.push(wakes);
    let mut tardiness = Tardiness {
        from_ns: 2 * S,
        ..Tardiness::default()
    };
    let scheduler = Box::new(Consort::new(library));
    let outcome = run(&setup, scheduler, &mut |event: &Event| {
        tardiness.note(event)
    })
    .unwrap();
    assert_fine(&outcome);
    tardiness.percentile_ms(100.0)
}

/// What members have had since their last system call is read when they are interrupted: else one that has served its event is
/// taken for due, and the next one waits for a chunk of it besides its own.
#[test]
fn players_that_are_interrupted_are_on_time() {
    const INTERRUPTS_NS: [u64; 3] = [31 * MS, 41 * MS, 91 * MS];
    let worst_ms = |library: &Library| {
        let all = INTERRUPTS_NS.map(|it| interrupted_players_ms(library, it));
        all.into_iter().fold(0.0, f64::max)
    };
    let ms = worst_ms(&Library::built_in());
    assert!(ms < 1.1, "{ms}");
    let bug = plant(&Mutation {
        name: "interrupted-members-are-not-asked",
        file: "kernel/bpf/consort.bpf.c",
        from: "return t->member.node.active && !has_lost;",
        to: "return t->member.node.active && c->running == t;",
    });
    let ms = worst_ms(&bug);
    assert!(ms > 1.4, "{ms}");
}

#[test]
fn twelve_players_are_on_time_and_the_same_run_comes_twice() {
    let mut setup = with_domain(one_cpu(Kernel::V7_2), 12 * S);
    setup.tasks = players(12, Some(0), S / 2);
    let mut events: Vec<Event> = Vec::new();
    let outcome = run(&setup, consort(), &mut |event: &Event| {
        events.push(event.clone())
    })
    .unwrap();
    assert_fine(&outcome);
    let mut tardiness = Tardiness {
        from_ns: 2 * S,
        ..Tardiness::default()
    };
    events.iter().for_each(|event| tardiness.note(event));
    println!(
        "mean {} p99 {} max {} switches/s {} decisions {} {:?}",
        tardiness.mean_ms(),
        tardiness.percentile_ms(99.0),
        tardiness.percentile_ms(100.0),
        outcome.switches / 12,
        outcome.decisions,
        outcome.counters
    );
    assert!(tardiness.mean_ms() < 0.6 && tardiness.percentile_ms(99.0) < 1.2);

    let mut again: Vec<Event> = Vec::new();
    let second = run(&setup, consort(), &mut |event: &Event| {
        again.push(event.clone())
    })
    .unwrap();
    assert_eq!(outcome, second);
    assert!(events == again, "the same events");
}
