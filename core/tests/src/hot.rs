// SPDX-License-Identifier: GPL-2.0 OR MIT
//! hot.h: one that is hot goes before the first of those that wait, unless it is ahead by more than a slice at some level.

use crate::{host::Host, policy::*};
use proptest::prelude::*;

const SLICE_NS: u64 = 2_000_000;
const WEIGHT: u64 = WEIGHT_ONE as u64;
const NEVER_NS: u64 = u64::MAX;

fn asked() -> choice {
    choice {
        slice_ns: SLICE_NS,
        least_ahead: NEVER_NS,
        ..choice::default()
    }
}

fn goes_first(h: &Host, c: &mut choice, task: usize) -> bool {
    unsafe { core_hot_goes_first(c, h.node(task)) != 0 }
}

/// Tasks wait, and have had so much since.
fn waiting<const N: usize>(h: &mut Host, tasks: [(Option<usize>, u64, u64); N]) -> [usize; N] {
    let all = tasks.map(|(home, weight, _)| h.add_task(home, None, weight));
    for task in all {
        h.wake(task);
    }
    for (task, (_, _, had_ns)) in all.into_iter().zip(tasks) {
        unsafe { core_tree_charge(h.node(task), had_ns) };
    }
    all
}

#[test]
fn of_those_that_are_hot_the_one_that_is_least_ahead_goes_first() {
    let mut h = Host::new(0, 0, 0);
    let had_ns = [0, SLICE_NS, SLICE_NS / 2, SLICE_NS + 1000];
    let [_, full, half, beyond] = waiting(&mut h, had_ns.map(|ns| (None, WEIGHT, ns)));
    let mut c = asked();

    assert!(!goes_first(&h, &mut c, beyond));
    assert!(goes_first(&h, &mut c, full));
    assert!(goes_first(&h, &mut c, half));
    assert!(!goes_first(&h, &mut c, full), "another is less ahead");
}

/// A light task that has had a slice is far ahead of a heavy one, whose slice is short by that measure.
#[test]
fn a_slice_is_that_of_the_heavier_one() {
    for (first, hot) in [(16 * WEIGHT, WEIGHT), (WEIGHT, 16 * WEIGHT)] {
        let mut h = Host::new(0, 0, 0);
        let slice_ns = SLICE_NS * hot / (16 * WEIGHT);
        let [_, near, far] = waiting(
            &mut h,
            [
                (None, first, 0),
                (None, hot, slice_ns),
                (None, hot, slice_ns + 1000),
            ],
        );
        assert!(goes_first(&h, &mut asked(), near));
        assert!(!goes_first(&h, &mut asked(), far));
    }
}

/// What has periods is promised: nobody goes before it for being hot.
#[test]
fn of_a_class_only_the_first_goes_first() {
    let mut h = Host::new(0, 0, 0);
    let class = h.add_class_of(NODE_PERIOD, WEIGHT);
    let [soon, late] = [10_000_000, 20_000_000].map(|period_ns| {
        let reservation = h.add_reservation(class, WEIGHT / 4, period_ns, SLICE_NS);
        h.add_task(Some(reservation), None, WEIGHT)
    });

    h.wake(soon);
    h.wake(late);
    assert!(goes_first(&h, &mut asked(), soon));
    assert!(!goes_first(&h, &mut asked(), late));
}

proptest! {
    /// Whoever goes first is ahead of nobody by more than a slice of its own at the level at which they meet.
    #[test]
    fn nobody_goes_first_who_is_ahead_by_more_than_a_slice(
        weights in prop::array::uniform2(1u64..=16),
        accounts in prop::array::uniform4(0usize..2),
        had_ns in prop::array::uniform4(0u64..3 * SLICE_NS),
    ) {
        let mut h = Host::new(0, 0, 0);
        let groups = weights.map(|weight| h.add_group(None, weight * WEIGHT));
        let tasks = waiting(&mut h, [0, 1, 2, 3].map(|at| (Some(groups[accounts[at]]), WEIGHT, had_ns[at])));

        for task in tasks {
            if !goes_first(&h, &mut asked(), task) {
                continue;
            }
            for other in tasks {
                let meet = |from: usize| -> *mut tree_node {
                    let (own, account) = unsafe { (h.node(from), (*h.node(from)).parent) };
                    let same = unsafe { (*h.node(task)).parent == (*h.node(other)).parent };
                    if same { own } else { unsafe { &raw mut (*account).node } }
                };
                let (own, theirs) = (meet(task), meet(other));
                let ahead = unsafe { (*own).vtime.wrapping_sub((*theirs).vtime) } as i64;
                let slice = unsafe { core_vtime_of_ns(SLICE_NS, (*own).weight) } as i64;
                prop_assert!(ahead <= slice, "{ahead} of {slice}");
            }
        }
    }
}
