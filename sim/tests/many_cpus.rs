// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several CPUs and shards: races, affinity, CPUs that come and go.

use crate::common::{assert_fine, players, sleeper, with_domain, MS, S};
use consort_sim::explore::generate;
use consort_sim::report::Recorder;
use consort_sim::scenario;
use consort_sim::setup::{Action, ActionKind, Kernel, Machine, Program, Setup, Task};
use consort_sim::{consort, run};
use std::path::Path;

fn four_cpus() -> Machine {
    Machine::simple(4, 2, Kernel::V7_2)
}

#[test]
fn hogs_fill_all_cpus() {
    let mut setup = with_domain(four_cpus(), 2 * S);
    setup.tasks = (0..4)
        .map(|n| Task::new(&format!("hog{n}"), Program::Hog))
        .collect();
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    assert!(outcome.idle_ns < 20 * MS, "{outcome:?}");
}

#[test]
fn a_mix_on_two_shards_survives_pauses() {
    for seed in 0..20 {
        let mut setup = with_domain(four_cpus(), 2 * S);
        setup.seed = seed;
        setup.faults.pause = 0.05;
        setup.tasks = (0..5)
            .map(|n| Task::new(&format!("hog{n}"), Program::Hog))
            .collect();
        setup.tasks.extend(
            (0..4).map(|n| Task::new(&format!("sleeper{n}"), sleeper((n + 1) * MS, 300_000))),
        );
        setup.tasks.extend(players(4, Some(0), S / 10));
        setup.actions = (0..40)
            .map(|n| Action {
                at_ns: n * 47 * MS,
                what: ActionKind::Affinity {
                    task: n as usize % 9,
                    cpus: if n % 3 == 0 {
                        vec![0, 1, 2, 3]
                    } else {
                        vec![n as u32 % 4]
                    },
                },
            })
            .collect();
        let outcome = run(&setup, consort(), &mut ()).unwrap();
        assert_fine(&outcome);
    }
}

const MANY: u32 = 1024;

/// Hogs on half of the CPUs, and sleepers that come and go together; the next number, slightly later.
fn sleepers_on_many(number: u64) -> Setup {
    let each = |part: u32| (0..MANY).map(|cpu| cpu / part).collect();
    let machine = Machine {
        llc_of: each(16),
        core_of: each(2),
        node_of: each(256),
        offline: Vec::new(),
        is_virtual: false,
        kernel: Kernel::V6_18,
    };
    let mut setup = with_domain(machine, 100 * MS);
    setup.tasks = (0..1500)
        .map(|n| match n % 3 {
            0 => Task::new("hog", Program::Hog),
            _ => Task::new("sleeper", sleeper((1 + n % 7) * MS + number * 100, 200_000)),
        })
        .collect();
    setup
}

#[test]
fn a_thousand_cpus_in_four_nodes() {
    // Which CPUs meet at a lock is a matter of nanoseconds.
    for number in 0..6 {
        let outcome = run(&sleepers_on_many(number), consort(), &mut ()).unwrap();
        assert_fine(&outcome);
        assert!(outcome.tasks.iter().all(|task| task.run_ns > 0));
    }
}

#[test]
fn who_waits_bound_to_a_cpu_is_not_in_the_way_of_a_thousand() {
    let mut setup = sleepers_on_many(0);
    setup.tasks.extend((0..64).map(|n| Task {
        affinity: Some(vec![160 + n % 16]),
        ..Task::new("bound", Program::Hog)
    }));
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let sleepers = outcome.tasks.iter().filter(|task| task.name == "sleeper");
    let longest_ns = sleepers.map(|task| task.wait_max_ns).max();
    assert!(longest_ns < Some(MS), "waited for {longest_ns:?} ns");
}

/// What an observer sees of who runs is what the kernel counts, whoever empties a CPU that goes.
#[test]
fn observers_see_each_task_run_as_long_as_it_does() {
    for seed in 0..40 {
        let mut setup = generate(seed);
        // Without memory the scheduler may refuse to start.
        setup.faults.allocation = 0.0;
        let mut recorder = Recorder::new(&setup, 0);
        let outcome = run(&setup, consort(), &mut recorder).unwrap();
        assert_fine(&outcome);
        recorder.finish(outcome.end_ns);
        for (seen, counted) in recorder.tasks().iter().zip(&outcome.tasks) {
            // A switch is seen a lock later than it is counted.
            let apart_ns = seen.run_ns.abs_diff(counted.run_ns);
            let bound_ns = 10 * MS + counted.switches * MS / 10;
            assert!(apart_ns < bound_ns, "{seed}: {seen:?} {counted:?}");
        }
    }
}

/// A light task that is bound to a CPU runs a little and sleeps: its lead is its own. A heavy one that wakes there is as near
/// to its turn as the heavy hog beside which it wakes.
#[test]
fn a_waker_is_not_behind_what_a_sleeper_of_its_place_has_had() {
    let mut setup = with_domain(Machine::simple(2, 2, Kernel::V7_2), 2 * S);
    let bound = |name, nice, program| Task {
        nice,
        affinity: Some(vec![0]),
        ..Task::new(name, program)
    };
    let heavy = |name| Task {
        nice: -20,
        ..Task::new(name, Program::Hog)
    };
    setup.tasks = vec![
        bound("waker", -20, sleeper(4 * MS, 10_000)),
        bound("light", 19, sleeper(5 * MS, 400_000)),
        heavy("hog"),
        heavy("other"),
        heavy("third"),
    ];
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let waited_ns = outcome.tasks[0].wait_max_ns;
    assert!(waited_ns < 20 * MS, "waited for {waited_ns} ns");
}

/// Members that run for a tenth of the time are there whenever their CPU chooses, and hardly in between. Their cache serves the
/// hogs as well as the other one does.
#[test]
fn tasks_that_seldom_run_weigh_for_as_long_as_they_do() {
    let mix = "scenarios/mixes/due_in_a_cache.json";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(mix);
    let setup = scenario::load(&path, None).unwrap().setup;
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let hogs = outcome.tasks.iter().filter(|it| it.name.starts_with("hog"));
    let had: Vec<u64> = hogs.map(|it| 100 * it.run_ns / setup.duration_ns).collect();
    assert_eq!(had.len(), 6);
    assert!(
        had.iter().all(|percent| (55..=68).contains(percent)),
        "{had:?}"
    );
}

/// Two tasks of a mask that has a CPU in each of two caches, as many others as there are other CPUs, in sum a task for each CPU:
/// one that may run anywhere leaves the mask's second CPU for the one that idles.
#[test]
fn no_cpu_idles_beside_a_task_whose_mask_is_of_two_caches() {
    let text = r#"{"global": {"duration": 6, "warmup": 2}, "machine": {"cpus": 8, "llc": 2},
        "tasks": {"masked": {"instance": 2, "hog": true, "cpus": [3, 4]}, "free": {"instance": 6, "hog": true}}}"#;
    let summary = crate::common::summaries::summary(text, 1);
    let masked = crate::common::summaries::share(&summary, "masked");
    assert!(masked > 99.0, "{masked}");
}
