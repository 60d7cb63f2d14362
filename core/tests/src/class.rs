// SPDX-License-Identifier: GPL-2.0 OR MIT
//! class.h: what a class gets beside everybody else, and for how long it waits (004 sections 3 and 5). That the bounds of
//! the tree hold at the classes' level too is in `tree`, whose random trees have classes.

use crate::{accounts::DomainArgs, check, host::*, policy::*};
use proptest::prelude::*;

const ONE: u64 = WEIGHT_ONE as u64;
const QUANTUM_NS: u64 = 1_000_000;
const WINDOW_NS: u64 = 4_000_000;

fn rate(percent: u64) -> u64 {
    ONE * percent / 100
}

/// A host with a class of 75 %, what is left for the others, and a reservation of `nominal` in the class.
fn host(nominal: u64) -> (Host, usize) {
    let mut h = Host::new(0, 1, WINDOW_NS);
    let class = h.add_class(ONE - ROOT_WEIGHT);
    let reservation = h.add_group(Some(class), nominal);

    (h, reservation)
}

/// Lets quanta pass until `ns` have, choosing after each.
fn run(h: &mut Host, ns: u64, quantum_ns: u64) {
    for _ in 0..ns / quantum_ns {
        h.pass(quantum_ns);
        h.dispatch();
        check::tree(h);
    }
}

fn hogs(h: &mut Host, home: Option<usize>, number: usize) -> Vec<usize> {
    let tasks: Vec<_> = (0..number).map(|_| h.add_task(home, None, ONE)).collect();

    tasks.iter().for_each(|&t| h.wake(t));
    h.dispatch();
    tasks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Effective rates: a class shares its capacity in proportion to nominal rates, whoever else is there (004 section 3).
    #[test]
    fn effective_rates(
        capacities in prop::collection::vec(5u64..25, 1..3), nominal in prop::collection::vec(1u64..40, 1..5),
        crowd in 1usize..30,
    ) {
        let mut h = Host::new(0, 1, WINDOW_NS);
        let rest = ONE - capacities.iter().map(|c| rate(*c)).sum::<u64>();
        let mut expected = Vec::new();

        unsafe { (*h.root()).node.weight = rest };
        for capacity in &capacities {
            let class = h.add_class(rate(*capacity));
            for n in &nominal {
                let reservation = h.add_group(Some(class), rate(*n));
                let t = hogs(&mut h, Some(reservation), 1)[0];
                expected.push((t, *capacity as f64 / 100.0 * *n as f64 / nominal.iter().sum::<u64>() as f64));
            }
        }
        hogs(&mut h, None, crowd);
        let start_ns = h.now_ns;
        let before: Vec<_> = h.tasks.iter().map(|t| t.ran_ns).collect();
        run(&mut h, 2_000 * QUANTUM_NS, QUANTUM_NS);
        let all_ns = (h.now_ns - start_ns) as f64;
        for (t, rate) in expected {
            let got_ns = (h.tasks[t].ran_ns - before[t]) as f64;
            // A quantum at each of three levels, and the weights' own rounding.
            let slack_ns = 3.0 * QUANTUM_NS as f64 + all_ns * 1e-5;
            prop_assert!((got_ns - rate * all_ns).abs() <= slack_ns, "task {} got {} of {}", t, got_ns, rate * all_ns);
        }
    }

    /// Who has reserved waits for q + q/R at most when it wakes, however many others there are (004 section 5).
    #[test]
    fn a_crowd_does_not_delay(crowd in 1usize..200, used_ns in 1..QUANTUM_NS, sleeps_ns in 1..40 * QUANTUM_NS) {
        let (mut h, reservation) = host(rate(30));
        let t = h.add_task(Some(reservation), None, ONE);
        let bound_ns = QUANTUM_NS + QUANTUM_NS * 4 / 3 + 1;

        hogs(&mut h, None, crowd);
        for _ in 0..50 {
            run(&mut h, sleeps_ns, QUANTUM_NS.min(sleeps_ns));
            let woke_ns = h.now_ns;
            h.wake(t);
            while h.running != Some(t) {
                h.pass(QUANTUM_NS - h.uncharged_ns);
                h.dispatch();
                let waited_ns = h.now_ns - woke_ns;
                prop_assert!(waited_ns <= bound_ns, "waited {waited_ns}, may wait {bound_ns}");
            }
            h.pass(used_ns);
            h.sleep();
            h.dispatch();
            check::tree(&h);
        }
    }

    /// Sleeping for a moment, again and again, takes the classes' level away and brings it back; it gains nothing.
    #[test]
    fn short_sleeps_gain_nothing(runs_ns in 1..4 * QUANTUM_NS, sleeps_ns in 1u64..2000) {
        let (mut h, reservation) = host(rate(30));
        let t = h.add_task(Some(reservation), None, ONE);

        hogs(&mut h, None, 3);
        let start_ns = h.now_ns;
        while h.now_ns < start_ns + 1_000 * QUANTUM_NS {
            h.wake(t);
            while h.running != Some(t) {
                h.dispatch();
                if h.running != Some(t) {
                    h.pass(QUANTUM_NS);
                }
            }
            let mut left_ns = runs_ns;
            while left_ns > 0 && h.running == Some(t) {
                let ns = left_ns.min(QUANTUM_NS);
                h.pass(ns);
                left_ns -= ns;
                h.dispatch();
            }
            while h.running != Some(t) {
                h.pass(QUANTUM_NS);
                h.dispatch();
            }
            h.sleep();
            h.dispatch();
            check::tree(&h);
            h.pass(sleeps_ns);
        }
        let all_ns = (h.now_ns - start_ns) as f64;
        let got_ns = h.tasks[t].ran_ns as f64;
        let most_ns = 0.75 * all_ns + 2.0 * QUANTUM_NS as f64;
        prop_assert!(got_ns <= most_ns, "got {got_ns}, may get {most_ns}");
    }
}

/// The capacity of a sleeping class goes to the others in proportion: 20 % and the root's 25 % share it all (001).
#[test]
fn sleepers_leave_their_part_in_proportion() {
    let mut h = Host::new(0, 1, WINDOW_NS);
    let classes = [h.add_class(rate(55)), h.add_class(rate(20))];
    let tasks = classes.map(|class| hogs(&mut h, Some(class), 1)[0]);

    hogs(&mut h, None, 5);
    while h.running != Some(tasks[0]) {
        run(&mut h, QUANTUM_NS, QUANTUM_NS);
    }
    h.sleep();
    h.dispatch();
    let (start_ns, before_ns) = (h.now_ns, h.tasks[tasks[1]].ran_ns);
    run(&mut h, 900 * QUANTUM_NS, QUANTUM_NS);
    let got = (h.tasks[tasks[1]].ran_ns - before_ns) as f64 / (h.now_ns - start_ns) as f64;
    assert!((got - 20.0 / 45.0).abs() < 0.005, "got {got}");
}

/// Nobody has reserved: choices begin at the root, and it has no parent to be charged in.
#[test]
fn who_reserves_nothing_pays_nothing() {
    let (mut h, reservation) = host(rate(30));

    hogs(&mut h, None, 3);
    run(&mut h, 30 * QUANTUM_NS, QUANTUM_NS);
    unsafe {
        assert!((*h.root()).node.parent.is_null());
        assert_eq!((*h.root()).node.vtime, 0);
    }
    let t = hogs(&mut h, Some(reservation), 1)[0];
    check::tree(&h);
    unsafe { assert!((*h.root()).node.parent == h.top()) };
    run(&mut h, 30 * QUANTUM_NS, QUANTUM_NS);
    while h.running != Some(t) {
        run(&mut h, QUANTUM_NS, QUANTUM_NS);
    }
    h.sleep();
    h.dispatch();
    check::tree(&h);
    unsafe { assert!((*h.root()).node.parent.is_null()) };
}

/// A domain whose members are always due and that is alone in the root takes its window from a class, and no more.
#[test]
fn borrowing_does_not_starve_a_class() {
    let (mut h, reservation) = host(rate(30));
    let domain = h.add_domain(DomainArgs {
        order: ORDER_PROGRAM,
        grace_ns: QUANTUM_NS,
    });
    let member = h.add_task(None, Some(domain), ONE);
    let t = hogs(&mut h, Some(reservation), 1)[0];

    h.publish(member, 1, PRIORITY_NONE, 0);
    h.wake(member);
    for _ in 0..4_000 {
        h.pass(QUANTUM_NS / 4);
        if h.running == Some(member) {
            let due_ns = h.now_ns;
            h.publish(member, due_ns, PRIORITY_NONE, 0);
        }
        h.dispatch();
        check::tree(&h);
    }
    let got = h.tasks[t].ran_ns as f64 / h.now_ns as f64;
    let window = (WINDOW_NS + 3 * QUANTUM_NS) as f64 / h.now_ns as f64;
    assert!((got - 0.75).abs() <= window, "the class got {got}");
}

/// A class of half of four CPUs that has been promised `all`, and what it weighs where it has been promised `here` of two CPUs.
fn weight_of_class(here: u64, all: u64) -> u64 {
    let everywhere = crate::pinned::Pinned::new(ledger {
        load: unsafe { core_load_of_weight(all) },
        ..ledger::default()
    });
    let mut class = group {
        load: unsafe { core_load_of_weight(here) },
        nominal_weight: ONE / 2,
        capacity: 4 * (ONE / 2),
        ledger: everywhere.at(),
        ..group::default()
    };
    unsafe { core_class_wants(&mut class, 2 * ONE) }
}

#[test]
fn a_class_weighs_what_it_has_been_promised_in_a_place() {
    // As much here as everywhere else: its capacity, however little that is.
    assert_eq!(weight_of_class(ONE, 2 * ONE), ONE / 2);
    assert_eq!(weight_of_class(ONE / 64, ONE / 32), ONE / 2);
    // More than its capacity of these CPUs: all of it.
    assert_eq!(weight_of_class(ONE / 2 * 3, 2 * ONE), ONE / 4 * 3);
    // Less than elsewhere: as much less.
    assert_eq!(weight_of_class(ONE / 2, 2 * ONE), ONE / 4);
    // Nobody has been promised anything anywhere else: not more than its capacity.
    assert_eq!(weight_of_class(ONE / 8, ONE / 8), ONE / 2);
}
