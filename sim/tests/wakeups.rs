// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wake-ups on several CPUs: whom they interrupt, and how long a woken task waits at most.

mod common;

use common::{assert_fine, sleeper, with_domain, MS, S};
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

/// Ten tasks that sleep for as long as they run, and want five CPUs: each wakes when others run.
#[test]
fn tasks_that_wake_all_the_time_do_not_interrupt_each_other_each_time() {
    let tasks = (0..10).map(|n| Task::new(&format!("t{n}"), sleeper(100_000 + 7_000 * n, 100_000)));
    let outcome = run(&two_cpus(tasks.collect()), consort(), &mut ()).unwrap();
    assert_fine(&outcome);
    let (wakeups, preemptions) = (
        counter(&outcome, "wakeups"),
        counter(&outcome, "preemptions"),
    );
    assert!(wakeups > 5_000, "{outcome:?}");
    assert!(
        preemptions * 10 < wakeups,
        "{preemptions} preemptions at {wakeups} wake-ups"
    );
}
