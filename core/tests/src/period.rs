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

    /// Two of a class that always want the CPU, one of which lends to the other and takes back: from then on neither is ever
    /// off its new part of what both have by more than two quanta.
    #[test]
    fn what_is_lent_is_used_at_once(
        all in 0.2..0.9f64, part in 0.1..0.9f64, kept in 0.05..1.0f64,
        runs_ns in prop::collection::vec(1_000_000u64..40_000_000, 2..8),
    ) {
        const PERIOD_NS: u64 = 30_000_000;
        let rates = [[all * part, all * (1.0 - part)], [all * part * kept, all * (1.0 - part * kept)]];
        let mut c = Class::new(0, &rates[0].map(|rate| (rate, PERIOD_NS)), NODE_PERIOD);
        (0..2).for_each(|t| c.wake(t));

        for (index, runs_ns) in runs_ns.into_iter().enumerate() {
            let rates = rates[index % 2];
            // First the one that has less from then on.
            let order = if index % 2 == 0 { [1, 0] } else { [0, 1] };
            order.into_iter().for_each(|t| c.change(t, (rates[t], PERIOD_NS)));
            let before = [0, 1].map(|t| c.h.tasks[t].ran_ns);
            let mut left_ns = runs_ns;
            while left_ns > 0 {
                let ns = left_ns.min(QUANTUM_NS);
                c.run(ns);
                left_ns -= ns;
                let [one, other] = [0, 1].map(|t| (c.h.tasks[t].ran_ns - before[t]) as f64);
                let off_ns = (one - (one + other) * rates[0] / all).abs();
                prop_assert!(off_ns <= 2.0 * QUANTUM_NS as f64, "{off_ns} ns off {rates:?}");
            }
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

/// Several CPUs: one of the class runs all the time, and the others have more of them than it can use. It is owed no more than its
/// rate, of which nothing is missing.
#[test]
fn a_member_that_runs_all_the_time_is_owed_its_rate_alone() {
    const PERIOD_NS: u64 = 100_000_000;
    let mut c = Class::new(
        0,
        &[(0.7, PERIOD_NS), (0.1, PERIOD_NS), (0.1, PERIOD_NS)],
        NODE_PERIOD,
    );
    (0..3).for_each(|t| c.wake(t));
    assert_eq!(c.h.running, Some(0));

    let weight = c.node(0).weight;
    let behind = |c: &Class| c.group().vmin.wrapping_sub(c.node(0).vtime) as i64;
    let vtime_of = |ns: u64| unsafe { core_vtime_of_ns(ns, weight) } as i64;
    let mut pass = |ns: u64, runs: [bool; 3]| {
        let ran = (0..3).filter(|&t| runs[t]);
        ran.for_each(|t| unsafe { core_tree_charge(c.h.node(t), ns) });
        c.h.now_ns += ns;
        c.keep_up(0);
        behind(&c)
    };
    let most = vtime_of(u64::from(RUNS_BEHIND_MAX_NS));
    for _ in 0..100 {
        let behind = pass(QUANTUM_NS, [true; 3]);
        assert!(behind <= most, "{behind} behind, may be {most}");
    }
    // It has not run for 20 ms: so much is missing of its rate.
    let before = pass(20_000_000, [false, true, true]);
    let missing = i64::try_from(20_000_000u64 << VTIME_SHIFT).unwrap();
    assert!(before > most, "{before} behind");
    for _ in 0..4 {
        let behind = pass(QUANTUM_NS, [true; 3]);
        assert!(behind > most && behind <= most + missing, "{behind} behind");
    }
}
