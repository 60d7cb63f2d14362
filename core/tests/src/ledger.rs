// SPDX-License-Identifier: GPL-2.0 OR MIT
//! ledger.h: an account's weights in all queues sum up to its weight, whoever wakes and sleeps where.

use crate::{host::Host, pinned::Pinned, policy::*};
use proptest::prelude::*;

const ONE: u64 = WEIGHT_ONE as u64;
const PLACES: usize = 3;
const TASKS: usize = 6;
const HALF_CPU: u64 = LEDGER_CPU as u64 / 2;

/// The same two accounts, one in the other, in several places.
struct Machine {
    places: Vec<Host>,
    ledgers: [Pinned<ledger>; 2],
}

impl Machine {
    fn new(weights: [u64; 2], tasks: &[(usize, usize, i32)]) -> Self {
        let ledgers = [0; 2].map(|_| Pinned::new(ledger::default()));
        let places = (0..PLACES).map(|place| {
            let mut h = Host::new(0, 1, 0);
            let outer = h.add_group(None, weights[0]);
            let inner = h.add_group(Some(outer), weights[1]);
            for (g, l) in [outer, inner].into_iter().zip(&ledgers) {
                let g = h.groups[g].at();
                unsafe {
                    (*g).ledger = l.at();
                    (*g).is_balanced = (place == 0).into();
                }
            }
            for &(_, home, nice) in tasks.iter().filter(|t| t.0 == place) {
                let weight = u64::from(unsafe { core_weight_of_nice(nice) });
                h.add_task(home.checked_sub(1), None, weight);
            }
            h
        });
        Machine {
            places: places.collect(),
            ledgers,
        }
    }

    fn check(&self) {
        for (g, l) in self.ledgers.iter().enumerate() {
            let groups: Vec<_> = self.places.iter().map(|h| &*h.groups[g]).collect();
            let here: u64 = groups.iter().map(|g| g.load_here).sum();
            assert_eq!(l.load, here, "account {g}: its load everywhere");
            for (place, g) in groups.iter().enumerate() {
                let is_least = g.load_here > 0 || g.load == 0;
                assert!(is_least && g.load_here <= g.load && (place > 0 || g.load_here == g.load));
            }
            let weight = groups[0].node.weight;
            let load: u64 = groups.iter().map(|g| g.load).sum();
            let mut parts = 0;
            for place in groups.iter().filter(|it| it.load > 0) {
                let part = unsafe { core_node_weight(&place.node) };
                let least = u128::from(weight) * u128::from(place.load) / u128::from(load);
                // Beside a load of 2^36 or more loads are counted more coarsely.
                assert!(
                    part <= weight && u128::from(part) + 1 + least / 1000 >= least,
                    "account {g}: a part of {part}, at least {least} of {weight}"
                );
                parts += part;
            }
            assert!(
                here != load || here == 0 || parts.abs_diff(weight) <= PLACES as u64,
                "account {g}: its parts are {parts}, it weighs {weight}"
            );
        }
    }
}

proptest! {
    #[test]
    fn parts_sum_up_to_the_weight(
        weights in prop::array::uniform2(ONE / 100..=100 * ONE),
        tasks in prop::collection::vec((0..PLACES, 0usize..3, -20..20), 1..=TASKS * PLACES),
        steps in prop::collection::vec((0..PLACES, 0..TASKS, 0u32..6), 1..200),
    ) {
        let mut m = Machine::new(weights, &tasks);

        for (place, t, what) in steps {
            let h = &mut m.places[place];
            let nr = h.tasks.len();
            match what {
                0 | 1 if nr > 0 => h.wake(t % nr),
                2 if nr > 0 => h.stop_waiting(t % nr),
                // Its accounts have that many CPUs, everywhere or in one place, as has been measured.
                3 => unsafe { (*m.ledgers[t % 2].at()).served.cpus = t as u64 * HALF_CPU },
                4 => unsafe { (*h.groups[t % 2].at()).served.cpus = t as u64 * HALF_CPU / 2 },
                _ => {
                    h.pass(1_000_000);
                    h.sleep();
                }
            }
            h.dispatch();
            m.check();
        }
    }
}

/// How many CPUs an account has had, of which each of its queues counts what it has: as looked at every 50 ms.
fn look(l: &Pinned<ledger>, cpus: f64, looks: u64) {
    for _ in 0..looks {
        unsafe {
            core_ledger_ran(l.at(), 0, (cpus * 50e6) as u64);
            core_ledger_look(l.at(), l.served.looked_at_ns + 50_000_000);
        }
    }
}

#[test]
fn a_cpu_is_worth_what_the_others_have_for_each_of_theirs() {
    let l = Pinned::new(ledger {
        load: 1300,
        ..ledger::default()
    });
    let worth = |own, cpus: u64| unsafe { core_ledger_worth(l.at(), own, cpus * 2 * HALF_CPU) };

    assert_eq!(worth(1000, 1), u64::MAX, "nothing is known of it");
    look(&l, 2.5, 40);
    // The others, of load 300, have one and a half; and an eighth for what is measured.
    assert!((222..=230).contains(&worth(1000, 1)), "{}", worth(1000, 1));
    // The others have half a CPU.
    assert!(
        (1340..=1370).contains(&worth(1000, 2)),
        "{}",
        worth(1000, 2)
    );
    assert_eq!(worth(1300, 1), u64::MAX, "there are no others");
    look(&l, 1.0, 40);
    assert_eq!(worth(1000, 1), u64::MAX, "it has what the heavy one has");
}

/// What was measured long ago counts no more; and what was measured over a moment does not, yet.
#[test]
fn what_is_served_is_measured_from_time_to_time() {
    let l = Pinned::new(ledger {
        load: 1,
        ..ledger::default()
    });

    look(&l, 2.0, 1);
    assert_eq!(l.served.cpus, 0, "there was one look");
    look(&l, 2.0, 1);
    assert_eq!(l.served.cpus, 4 * HALF_CPU);
    unsafe { core_ledger_look(l.at(), l.served.looked_at_ns + 10_000_000) };
    assert_eq!(l.served.cpus, 4 * HALF_CPU, "too soon");
    look(&l, 0.0, 1);
    assert_eq!(l.served.cpus, 3 * HALF_CPU, "a quarter of it is the last");
    unsafe { core_ledger_look(l.at(), l.served.looked_at_ns + 1_000_000_000) };
    assert_eq!(l.served.cpus, 1, "nothing for a second");
}
