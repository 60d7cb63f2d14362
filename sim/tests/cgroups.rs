// SPDX-License-Identifier: MIT OR Apache-2.0
//! cgroups for which there is no room.

mod common;

use common::{assert_fine, with_domain, S};
use consort_sim::setup::{Cgroup, Kernel, Machine, Program, Task};
use consort_sim::{consort, run};

/// A hog beside `outer`, whose weight is three times as much and which holds nothing but `inner`, with the other hog.
/// With half of all memory refused, each of the two cgroups has groups of its own in some of the runs. Who has none
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
