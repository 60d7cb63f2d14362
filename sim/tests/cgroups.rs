// SPDX-License-Identifier: MIT OR Apache-2.0
//! cgroups: shares of several CPUs, and cgroups for which there is no room.

use crate::common::{assert_fine, with_domain, S};
use consort_sim::setup::{Action, ActionKind, Cgroup, Kernel, Machine, Program, Task};
use consort_sim::{consort, run};

/// A hog beside `outer`, whose weight is three times as much and which holds nothing but `inner`, with the other hog.
/// With half of all memory refused, each of the two cgroups has groups of its own in some of the runs. A cgroup that has none
/// competes in the place of the one above it, and not in the root's.
#[test]
fn a_cgroup_without_room_shares_the_groups_of_the_one_above_it() {
    let mut seen = [0; 3];
    for seed in 0..200 {
        let mut setup = with_domain(Machine::simple(1, 1, Kernel::V7_2), 2 * S);
        setup.seed = seed;
        setup.faults.allocation = 0.3;
        let mut cgroup = |name: &str, parent, weight| {
            setup.cgroups.push(Cgroup {
                name: name.into(),
                parent: Some(parent),
                weight,
                max: None,
            });
        };
        cgroup("outer", 0, 300);
        cgroup("inner", 1, 100);
        setup.tasks = vec![
            Task::new("beside", Program::Hog),
            Task::new("inside", Program::Hog),
        ];
        setup.tasks[1].cgroup = 2;
        // Where the scheduler has no memory to begin with it does not come at all.
        let Ok(outcome) = run(&setup, consort(), &mut ()) else {
            continue;
        };
        assert_fine(&outcome);
        let counter = |name| {
            let found = outcome.counters.iter().find(|(known, _)| *known == name);
            found.unwrap().1
        };
        let [beside, inside] = [0, 1].map(|task| outcome.tasks[task].run_ns as f64);
        if beside == 0.0 || inside == 0.0 || counter("switches") < 100 {
            continue;
        }
        let share = inside / (beside + inside);
        let is_near = |part: f64| (share - part).abs() < 0.02;
        match counter("shared_cgroups") {
            // Only the outer one's weight counts, whether the inner one has groups below it or shares them.
            0 => assert!(is_near(0.75), "seed {seed}: {share}"),
            1 if is_near(0.75) => seen[0] += 1,
            1 => {
                assert!(is_near(0.5), "seed {seed}: {share}");
                seen[1] += 1;
            }
            _ => {
                assert!(is_near(0.5), "seed {seed}: {share}");
                seen[2] += 1;
            }
        }
    }
    assert!(seen.iter().all(|runs| *runs > 0), "{seen:?}");
}

/// So many hogs in each of the cgroups, whose names, parents and weights these are; what each cgroup has of a CPU.
fn shares_of_hogs(
    machine: Machine,
    cgroups: &[(&str, usize, u32)],
    hogs: &[(usize, usize)],
) -> Vec<f64> {
    let mut setup = with_domain(machine, 4 * S);
    for (name, parent, weight) in cgroups {
        setup.cgroups.push(Cgroup {
            name: (*name).into(),
            parent: Some(*parent),
            weight: *weight,
            max: None,
        });
    }
    for (cgroup, count) in hogs {
        for _ in 0..*count {
            let mut hog = Task::new("hog", Program::Hog);
            hog.cgroup = *cgroup;
            setup.tasks.push(hog);
        }
    }
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let mut had = vec![0.0; setup.cgroups.len()];
    for (task, of) in setup.tasks.iter().zip(&outcome.tasks) {
        had[task.cgroup] += of.run_ns as f64 / (4 * S) as f64;
    }
    had
}

#[test]
fn equal_cgroups_have_equal_parts_of_several_cpus() {
    for (cpus, few, many) in [(12, 9, 11), (4, 3, 9), (12, 7, 40), (6, 6, 7)] {
        let machine = Machine::simple(cpus, cpus, Kernel::V7_2);
        let cgroups = [("few", 0, 100), ("many", 0, 100)];
        let had = shares_of_hogs(machine, &cgroups, &[(1, few), (2, many)]);
        let part = f64::from(cpus) / 2.0;
        assert!(
            had[1..].iter().all(|it| (it / part - 1.0).abs() < 0.02),
            "{few} and {many} on {cpus}: {had:?}"
        );
    }
}

/// All CPUs choose in the same moment, none is charged yet: the light cgroup is not served by all of them.
#[test]
fn a_light_cgroup_has_its_part_of_several_cpus_and_no_more() {
    let machine = || Machine::simple(12, 12, Kernel::V7_2);
    let cgroups = [("one", 0, 10_000), ("other", 0, 10_000), ("light", 2, 1)];
    let had = shares_of_hogs(machine(), &cgroups, &[(1, 9), (2, 11), (3, 11)]);
    assert!((had[1] / 6.0 - 1.0).abs() < 0.02, "{had:?}");
    assert!(had[3] < 0.03, "{had:?}");
}

/// The two in the heavy cgroup below are entitled to a CPU each, of which their neighbours must not take turns.
#[test]
fn tasks_that_are_entitled_to_a_whole_cpu_have_it() {
    let machine = Machine::simple(12, 12, Kernel::V7_2);
    let cgroups = [("one", 0, 100), ("other", 0, 100), ("heavy", 2, 10_000)];
    let had = shares_of_hogs(machine, &cgroups, &[(1, 9), (2, 11), (3, 2)]);
    assert!((had[1] / 6.0 - 1.0).abs() < 0.02, "{had:?}");
    assert!(had[3] > 1.88, "{had:?}");
}

/// Two caches of eight CPUs, in one of which each of a cgroup's tasks has a CPU, while there are more in the other: as soon
/// as they may, they move until all have as much.
#[test]
fn hogs_of_a_cgroup_have_as_much_in_each_cache() {
    let cpus = |from: u32| (from..from + 8).collect::<Vec<u32>>();
    let mut setup = with_domain(Machine::simple(16, 8, Kernel::V7_2), 8 * S);
    setup.cgroups.push(Cgroup {
        name: "batch".into(),
        parent: Some(0),
        weight: 100,
        max: None,
    });
    for n in 0..28 {
        setup.tasks.push(Task {
            cgroup: 1,
            affinity: Some(cpus(if n < 8 { 0 } else { 8 })),
            ..Task::new("hog", Program::Hog)
        });
        setup.actions.push(Action {
            at_ns: S / 10,
            what: ActionKind::Affinity {
                task: n,
                cpus: (0..16).collect(),
            },
        });
    }
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let part_ns = (8 * S) as f64 * 16.0 / 28.0;
    let least_ns = outcome.tasks.iter().map(|it| it.run_ns).min();
    assert!(least_ns.unwrap() as f64 > 0.95 * part_ns, "{least_ns:?}");
}

/// Two caches of two CPUs. Where each task has a CPU for itself the cache is ahead at the pace of the cgroup that has most, and so
/// its tasks do not stay alone while those of the other cache, which weigh as much together, take turns.
#[test]
fn a_cache_whose_tasks_are_alone_is_ahead_of_one_whose_take_turns() {
    let machine = Machine::simple(4, 2, Kernel::V7_2);
    let cgroups = [("many", 0, 100), ("few", 0, 100)];
    let had = shares_of_hogs(machine, &cgroups, &[(1, 4), (2, 2), (0, 1)]);
    assert!(had[1] > 0.94 * 1.5, "{had:?}");
    assert!(had[2] > 0.94 * 1.5, "{had:?}");
}

/// Five hogs bound to two of four CPUs cannot be divided evenly: they take turns.
#[test]
fn tasks_bound_to_some_cpus_take_turns_to_be_in_the_fuller_one() {
    let mut setup = with_domain(Machine::simple(4, 4, Kernel::V7_2), 12 * S);
    for bound in [
        true, true, true, true, true, false, false, false, false, false,
    ] {
        let mut hog = Task::new("hog", Program::Hog);
        if bound {
            hog.nice = -10;
            hog.affinity = Some(vec![0, 1]);
        }
        setup.tasks.push(hog);
    }
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let bound: Vec<u64> = outcome.tasks[..5].iter().map(|it| it.run_ns).collect();
    let (least, most) = (bound.iter().min().unwrap(), bound.iter().max().unwrap());
    assert!(*least as f64 > 0.85 * *most as f64, "{bound:?}");
}

/// Two caches of two CPUs; two tasks that may run on one CPU of each are not left together on one of them.
#[test]
fn tasks_whose_masks_span_caches_go_where_they_are_served_faster() {
    let mut setup = with_domain(Machine::simple(4, 2, Kernel::V7_2), 8 * S);
    for bound in [false, false, false, true, true] {
        let mut hog = Task::new("hog", Program::Hog);
        if bound {
            hog.affinity = Some(vec![1, 2]);
        }
        setup.tasks.push(hog);
    }
    let outcome = run(&setup, consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let had: Vec<u64> = outcome.tasks.iter().map(|it| it.run_ns).collect();
    let least = *had.iter().min().unwrap() as f64;
    assert!(least > 0.9 * 0.8 * (8 * S) as f64, "{had:?}");
}

/// Two cgroups, one of which weighs twice as much, whose tasks may all run on some CPUs of each of two caches: each has its part of
/// these, and each of its tasks as much as the others.
#[test]
fn cgroups_whose_masks_span_caches_have_their_parts() {
    for (on, of_each) in [(vec![3, 4], [4, 2]), (vec![2, 3, 4, 5], [6, 6])] {
        let mut setup = with_domain(Machine::simple(8, 4, Kernel::V7_2), 8 * S);
        for (name, weight) in [("a", 200), ("b", 100)] {
            setup.cgroups.push(Cgroup {
                name: name.into(),
                parent: Some(0),
                weight,
                max: None,
            });
        }
        for (cgroup, count) in [(1, of_each[0]), (2, of_each[1])] {
            for _ in 0..count {
                setup.tasks.push(Task {
                    cgroup,
                    affinity: Some(on.clone()),
                    ..Task::new("hog", Program::Hog)
                });
            }
        }
        let outcome = run(&setup, consort(), &mut ()).unwrap();
        assert_fine(&outcome);
        let thirds = on.len() as f64 * (8 * S) as f64 / 3.0;
        for (number, task) in outcome.tasks.iter().enumerate() {
            let (part, of) = if number < of_each[0] {
                (2.0, of_each[0])
            } else {
                (1.0, of_each[1])
            };
            let due_ns = part * thirds / of as f64;
            assert!(
                task.run_ns as f64 > 0.97 * due_ns,
                "{number}: {} of {due_ns}",
                task.run_ns
            );
        }
    }
}
