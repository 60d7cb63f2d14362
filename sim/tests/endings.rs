// SPDX-License-Identifier: MIT OR Apache-2.0
//! A large program that ends gives back its memory for long, in the kernel: it waits its turn all the while.

use crate::common::{assert_fine, players, with_domain, Tardiness, MS, S};
use consort_sim::setup::{Kernel, Length, Machine, Program, Setup, Step, Task};
use consort_sim::{consort, run};

/// Two programs that run for a moment and then end for 300 ms, beside a player and a program that does not end.
fn ending(cpus: u32, kernel: Kernel) -> Setup {
    let mut setup = with_domain(Machine::simple(cpus, cpus, kernel), S);
    setup.tasks = players(1, Some(0), MS);
    let steps = vec![
        Step::Run(Length::Fixed(MS)),
        Step::Exit(Length::Fixed(300 * MS)),
    ];
    for n in 0..2 * cpus {
        let name = format!("ends{n}");
        setup
            .tasks
            .push(Task::new(&name, Program::Steps(steps.clone())));
    }
    for n in 0..cpus {
        setup
            .tasks
            .push(Task::new(&format!("hog{n}"), Program::Hog));
    }
    setup
}

#[test]
fn who_is_due_does_not_wait_for_a_program_that_ends() {
    for kernel in [Kernel::V6_18, Kernel::V7_2] {
        for cpus in [1, 2] {
            let mut tardiness = Tardiness::default();
            let mut note = |event: &_| tardiness.note(event);
            let outcome = run(&ending(cpus, kernel), consort(), &mut note).unwrap();
            assert_fine(&outcome);
            let worst_ms = tardiness.percentile_ms(100.0);
            assert!(worst_ms < 1.0, "{kernel:?}, {cpus} CPUs: {worst_ms} ms");
            let hog = outcome.tasks.last().expect("a hog is last");
            let waited_ms = hog.wait_max_ns / MS;
            assert!(waited_ms < 20, "{kernel:?}, {cpus} CPUs: {waited_ms} ms");
        }
    }
}
