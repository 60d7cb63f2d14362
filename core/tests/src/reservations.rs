// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Reservations of one class on one CPU, each with one task: what the tests of its orders run.

use crate::{check, host::*, policy::*};
use proptest::prelude::*;

pub const ONE: u64 = WEIGHT_ONE as u64;
pub const QUANTUM_NS: u64 = 500_000;
pub const MEMBERS: usize = 6;

/// A class with reservations, each with one task of the same number.
pub struct Class {
    pub h: Host,
    class: usize,
    reservations: Vec<usize>,
}

/// A reservation: its rate, in parts of one CPU, and its period.
pub type Terms = (f64, u64);

#[derive(Clone, Debug)]
pub enum Step {
    Wake(usize),
    Run(u64),
    Sleep,
    Stop(usize),
}

impl Class {
    /// Whose reservations are ordered as `kind` says, one of enum node_kind.
    pub fn new(vtime: u64, all: &[Terms], kind: u32) -> Self {
        let mut h = Host::new(vtime, 1_000_000_000, 0);
        let class = h.add_class_of(kind, ONE);
        let mut c = Class {
            h,
            class,
            reservations: Vec::new(),
        };
        all.iter().for_each(|terms| c.reserve(*terms));
        c
    }

    /// One more reservation, with its task.
    pub fn reserve(&mut self, (rate, period_ns): Terms) {
        let weight = (rate * ONE as f64) as u64;
        let reservation = self
            .h
            .add_reservation(self.class, weight, period_ns, QUANTUM_NS);

        self.h.add_task(Some(reservation), None, ONE);
        self.reservations.push(reservation);
    }

    /// Other terms for a reservation, whatever its task does.
    pub fn change(&mut self, t: usize, (rate, period_ns): Terms) {
        let weight = (rate * ONE as f64) as u64;

        self.h
            .change_reservation(self.reservations[t], weight, period_ns, QUANTUM_NS);
    }

    pub fn group(&self) -> &group {
        &self.h.groups[self.class]
    }

    /// A member has been charged for its task, which ran on one CPU of several.
    pub fn keep_up(&mut self, t: usize) {
        let reservation = self.h.groups[self.reservations[t]].at();

        unsafe { core_period_keep_up(&raw mut (*reservation).node, self.h.now_ns) };
    }

    pub fn node(&self, t: usize) -> &tree_node {
        &self.h.groups[self.reservations[t]].node
    }

    pub fn wake(&mut self, t: usize) {
        self.h.wake(t);
        self.h.dispatch();
    }

    pub fn run(&mut self, ns: u64) {
        self.h.pass(ns);
        self.h.dispatch();
    }

    pub fn sleep(&mut self) {
        self.h.sleep();
        self.h.dispatch();
    }

    pub fn step(&mut self, step: &Step) {
        let members = self.reservations.len();

        match *step {
            Step::Wake(t) => self.wake(t % members),
            Step::Run(ns) => self.run(ns),
            Step::Sleep => self.sleep(),
            Step::Stop(t) => self.h.stop_waiting(t % members),
        }
        check::tree(&self.h);
    }

    /// By when, in virtual time, a member is to run.
    pub fn deadline(&self, t: usize) -> u64 {
        let n = self.node(t);

        unsafe { core_vtime_max(n.ends_vtime, n.vtime.wrapping_add(n.turn_vtime)) }
    }

    /// Task 0 asks for `work_ns` once a period, all others for all that they can get: how long it takes at most.
    pub fn longest_job_ns(&mut self, work_ns: u64, period_ns: u64) -> u64 {
        let mut longest_ns = 0;

        (1..self.reservations.len()).for_each(|t| self.h.wake(t));
        self.h.dispatch();
        for _ in 0..20 {
            let (asked_ns, had_ns) = (self.h.now_ns, self.h.tasks[0].ran_ns);
            self.h.wake(0);
            while self.h.tasks[0].ran_ns < had_ns + work_ns {
                self.run(QUANTUM_NS);
            }
            longest_ns = longest_ns.max(self.h.now_ns - asked_ns);
            while self.h.running != Some(0) {
                self.run(QUANTUM_NS);
            }
            self.sleep();
            while self.h.now_ns < asked_ns + period_ns {
                self.run(QUANTUM_NS);
            }
        }
        longest_ns
    }
}

pub fn terms() -> impl Strategy<Value = Vec<Terms>> {
    prop::collection::vec((0.01..0.16, 5_000_000u64..200_000_000), 1..=MEMBERS)
}

/// One of a short period, and others that fill the class.
pub fn beside_others() -> impl Strategy<Value = Vec<Terms>> {
    let others = prop::collection::vec(5_000_000u64..1_000_000_000, 1..40);

    (10_000_000u64..50_000_000, 0.05..0.5, others).prop_map(|(period_ns, rate, others)| {
        let other = (1.0 - rate) / others.len() as f64;
        let others = others.into_iter().map(|period_ns| (other, period_ns));
        std::iter::once((rate, period_ns)).chain(others).collect()
    })
}

/// What the first of them gets in a period, in whole quanta.
pub fn work_ns(all: &[Terms]) -> u64 {
    (all[0].0 * all[0].1 as f64) as u64 / QUANTUM_NS * QUANTUM_NS
}

pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..MEMBERS).prop_map(Step::Wake),
        10 => prop_oneof![1..=QUANTUM_NS, Just(QUANTUM_NS)].prop_map(Step::Run),
        2 => Just(Step::Sleep),
        1 => (0..MEMBERS).prop_map(Step::Stop),
    ]
}
