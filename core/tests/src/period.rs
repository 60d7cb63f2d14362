// SPDX-License-Identifier: GPL-2.0 OR MIT
//! period.h: reservations of one class, with periods of their own, on one CPU.

use crate::{check, host::*, policy::*};
use proptest::prelude::*;

const ONE: u64 = WEIGHT_ONE as u64;
const QUANTUM_NS: u64 = 500_000;
const MEMBERS: usize = 6;

/// A class with reservations, each with one task of the same number.
struct Class {
    h: Host,
    class: usize,
    reservations: Vec<usize>,
}

/// A reservation: its rate, in parts of one CPU, and its period.
type Terms = (f64, u64);

impl Class {
    fn new(vtime: u64, all: &[Terms], by_period: bool) -> Self {
        let mut h = Host::new(vtime, 1_000_000_000, 0);
        let class = if by_period {
            h.add_period_class(ONE)
        } else {
            h.add_class(ONE)
        };
        let reservations = all
            .iter()
            .map(|&(rate, period_ns)| {
                let weight = (rate * ONE as f64) as u64;
                let reservation = h.add_reservation(class, weight, period_ns, QUANTUM_NS);
                h.add_task(Some(reservation), None, ONE);
                reservation
            })
            .collect();
        Class {
            h,
            class,
            reservations,
        }
    }

    fn group(&self) -> &group {
        &self.h.groups[self.class]
    }

    fn node(&self, t: usize) -> &tree_node {
        &self.h.groups[self.reservations[t]].node
    }

    fn run(&mut self, ns: u64) {
        self.h.pass(ns);
        self.h.dispatch();
    }

    /// Nobody is ahead by more than a quantum at its rate, behind by more than a period and that, or late by more than
    /// a quantum of the class.
    fn check_bounds(&self) {
        let g = self.group();
        let of_class = unsafe { core_vtime_of_ns(QUANTUM_NS, g.weight_all) } as i64;

        for t in (0..self.reservations.len()).filter(|&t| self.node(t).active != 0) {
            let n = self.node(t);
            let quantum = unsafe { core_vtime_of_ns(QUANTUM_NS, n.weight) } as i64;
            let ahead = n.vtime.wrapping_sub(g.vmin) as i64;
            let turn_ends = n.vtime.wrapping_add(n.turn_vtime);
            let deadline = unsafe { core_vtime_max(n.ends_vtime, turn_ends) };
            let late = g.vmin.wrapping_sub(deadline) as i64;
            assert!(ahead <= quantum, "{t} is {ahead} ahead, may be {quantum}");
            assert!(
                -ahead <= n.period_vtime as i64 + quantum + of_class,
                "{t} is {} behind",
                -ahead
            );
            assert!(late <= of_class, "{t} is {late} late, may be {of_class}");
        }
    }
}

fn terms() -> impl Strategy<Value = Vec<Terms>> {
    prop::collection::vec((0.01..0.16, 5_000_000u64..200_000_000), 1..=MEMBERS)
}

#[derive(Clone, Debug)]
enum Step {
    Wake(usize),
    Run(u64),
    Sleep,
    Stop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..MEMBERS).prop_map(Step::Wake),
        10 => prop_oneof![1..=QUANTUM_NS, Just(QUANTUM_NS)].prop_map(Step::Run),
        2 => Just(Step::Sleep),
        1 => (0..MEMBERS).prop_map(Step::Stop),
    ]
}

proptest! {
    #[test]
    fn bounds_hold_after_every_step(
        vtime: u64, terms in terms(), steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut c = Class::new(vtime, &terms, true);

        for step in steps {
            match step {
                Step::Wake(t) => {
                    c.h.wake(t % terms.len());
                    c.h.dispatch();
                }
                Step::Run(ns) => c.run(ns),
                Step::Sleep => {
                    c.h.sleep();
                    c.h.dispatch();
                }
                Step::Stop(t) => c.h.stop_waiting(t % terms.len()),
            }
            check::tree(&c.h);
            c.check_bounds();
        }
    }

    /// Theorem 1: who asks for its rate once a period has had it by the end of the period, in a class that is full, to
    /// within a quantum.
    #[test]
    fn who_is_punctual_is_on_time(
        period_ns in 10_000_000u64..50_000_000, rate in 0.05..0.5,
        others in prop::collection::vec(5_000_000u64..1_000_000_000, 1..40),
    ) {
        let mut all = vec![(rate, period_ns)];
        all.extend(others.iter().map(|&ns| ((1.0 - rate) / others.len() as f64, ns)));
        let mut c = Class::new(0, &all, true);
        let work_ns = (rate * period_ns as f64) as u64 / QUANTUM_NS * QUANTUM_NS;

        prop_assume!(work_ns > 0);
        (1..all.len()).for_each(|t| c.h.wake(t));
        c.h.dispatch();
        for _ in 0..20 {
            let (asked_ns, had_ns) = (c.h.now_ns, c.h.tasks[0].ran_ns);
            c.h.wake(0);
            while c.h.tasks[0].ran_ns < had_ns + work_ns {
                c.run(QUANTUM_NS);
            }
            let took_ns = c.h.now_ns - asked_ns;
            prop_assert!(took_ns <= period_ns + 2 * QUANTUM_NS, "took {} of {}", took_ns, period_ns);
            while c.h.running != Some(0) {
                c.run(QUANTUM_NS);
            }
            c.h.sleep();
            c.h.dispatch();
            while c.h.now_ns < asked_ns + period_ns {
                c.run(QUANTUM_NS);
            }
        }
    }
}

/// How long a task of a short period waits for the CPU at most, beside a hundred small reservations of long ones.
fn longest_wait_ns(by_period: bool) -> u64 {
    let mut all = vec![(0.3, 30_000_000)];
    all.extend([(0.001, 1_000_000_000); 100]);
    let mut c = Class::new(0, &all, by_period);
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
    let (by_period_ns, by_vtime_ns) = (longest_wait_ns(true), longest_wait_ns(false));

    assert!(by_period_ns <= 3 * QUANTUM_NS, "waited {by_period_ns} ns");
    assert!(
        by_vtime_ns >= 10 * by_period_ns,
        "{by_vtime_ns} ns by virtual time, {by_period_ns} ns by periods"
    );
}
