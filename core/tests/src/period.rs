// SPDX-License-Identifier: GPL-2.0 OR MIT
//! period.h: reservations of one class, with periods of their own, on one CPU.

use crate::{policy::*, reservations::*};
use proptest::prelude::*;

/// Nobody is ahead by more than a quantum at its rate, behind by more than a period and that, or late by more than
/// a quantum of the class.
fn check_bounds(c: &Class, members: usize) {
    let g = c.group();
    let of_class = unsafe { core_vtime_of_ns(QUANTUM_NS, g.weight_all) } as i64;

    for t in (0..members).filter(|&t| c.node(t).active != 0) {
        let n = c.node(t);
        let quantum = unsafe { core_vtime_of_ns(QUANTUM_NS, n.weight) } as i64;
        let ahead = n.vtime.wrapping_sub(g.vmin) as i64;
        let late = g.vmin.wrapping_sub(c.deadline(t)) as i64;
        assert!(ahead <= quantum, "{t} is {ahead} ahead, may be {quantum}");
        assert!(
            -ahead <= n.period_vtime as i64 + quantum + of_class,
            "{t} is {} behind",
            -ahead
        );
        assert!(late <= of_class, "{t} is {late} late, may be {of_class}");
    }
}

proptest! {
    #[test]
    fn bounds_hold_after_every_step(
        vtime: u64, terms in terms(), steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut c = Class::new(vtime, &terms, NODE_PERIOD);

        for step in steps {
            c.step(&step);
            check_bounds(&c, terms.len());
        }
    }

    /// Theorem 1: who asks for its rate once a period has had it by the end of the period, in a class that is full, to
    /// within a quantum.
    #[test]
    fn who_is_punctual_is_on_time(all in beside_others()) {
        let (work_ns, period_ns) = (work_ns(&all), all[0].1);

        prop_assume!(work_ns > 0);
        let took_ns = Class::new(0, &all, NODE_PERIOD).longest_job_ns(work_ns, period_ns);
        prop_assert!(took_ns <= period_ns + 2 * QUANTUM_NS, "took {} of {}", took_ns, period_ns);
    }
}

/// How long a task of a short period waits for the CPU at most, beside a hundred small reservations of long ones.
fn longest_wait_ns(kind: u32) -> u64 {
    let mut all = vec![(0.3, 30_000_000)];
    all.extend([(0.001, 1_000_000_000); 100]);
    let mut c = Class::new(0, &all, kind);
    let mut longest_ns = 0;

    (1..all.len()).for_each(|t| c.h.wake(t));
    c.h.dispatch();
    for _ in 0..50 {
        c.h.wake(0);
        let mut left_ns = 9_000_000;
        let mut waited_ns = 0;
        while left_ns > 0 {
            let runs = c.h.running == Some(0);
            c.run(QUANTUM_NS);
            waited_ns = if runs { 0 } else { waited_ns + QUANTUM_NS };
            left_ns -= if runs { QUANTUM_NS } else { 0 };
            longest_ns = longest_ns.max(waited_ns);
        }
        while c.h.running != Some(0) {
            c.run(QUANTUM_NS);
        }
        c.h.sleep();
        c.h.dispatch();
        (0..40).for_each(|_| c.run(QUANTUM_NS));
    }
    longest_ns
}

#[test]
fn a_short_period_does_not_wait_for_each_long_one() {
    let (by_period_ns, by_vtime_ns) = (longest_wait_ns(NODE_PERIOD), longest_wait_ns(NODE_FAIR));

    assert!(by_period_ns <= 3 * QUANTUM_NS, "waited {by_period_ns} ns");
    assert!(
        by_vtime_ns >= 10 * by_period_ns,
        "{by_vtime_ns} ns by virtual time, {by_period_ns} ns by periods"
    );
}
