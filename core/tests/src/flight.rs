// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What several CPUs choose from one queue before any of them is charged.

use crate::{host::Host, policy::*};
use proptest::prelude::*;

const WEIGHT: u64 = WEIGHT_ONE as u64;
const SLICE_NS: u64 = 2_000_000;

/// The account of the task that a place chooses, which is taken, and is about to run for a slice.
fn serve(h: &Host, accounts: &[usize]) -> usize {
    let n = h.choose().task;
    let t = h.task_of(n).unwrap();
    let home = h.tasks[t].home.unwrap();

    unsafe {
        core_tree_dequeue(n);
        core_tree_fly((*n).parent, SLICE_NS);
    }
    accounts.iter().position(|it| *it == home).unwrap()
}

proptest! {
    /// Accounts of any weights, with tasks enough, and CPUs that choose at the same moment: each account is served as if
    /// every choice had been charged before the next one.
    #[test]
    fn cpus_that_choose_at_once_serve_by_weight(
        weights in prop::collection::vec(1u64..20, 2..6), cpus in 1usize..40,
    ) {
        let mut h = Host::new(0, 0, 0);
        let accounts: Vec<usize> = weights.iter().map(|it| h.add_group(None, it * WEIGHT)).collect();

        for account in &accounts {
            for _ in 0..cpus {
                let t = h.add_task(Some(*account), None, WEIGHT);
                h.wake(t);
            }
        }
        let mut served = vec![0u64; weights.len()];
        for _ in 0..cpus {
            served[serve(&h, &accounts)] += 1;
        }
        for (i, j) in (0..weights.len()).flat_map(|i| (0..weights.len()).map(move |j| (i, j))) {
            // Before its last choice an account had had no more, by its weight, than any other one.
            let (one, other) = (served[i].saturating_sub(1) * weights[j], served[j] * weights[i]);
            prop_assert!(one <= other, "{served:?} of {weights:?}");
        }
    }

    /// What is in flight is charged, or does not run: nothing of it stays.
    #[test]
    fn what_lands_leaves_nothing(turns in prop::collection::vec((0usize..3, 1u64..10_000_000), 1..30)) {
        let mut h = Host::new(0, 0, 0);
        let outer = h.add_group(None, WEIGHT);
        let accounts = [outer, h.add_group(Some(outer), WEIGHT), h.add_group(None, 7 * WEIGHT)];
        let tasks = accounts.map(|it| h.add_task(Some(it), None, WEIGHT));

        for t in tasks {
            h.wake(t);
        }
        for (account, ns) in &turns {
            unsafe { core_tree_fly(h.group_at(Some(accounts[*account])), *ns) };
        }
        for (account, ns) in &turns {
            unsafe { core_tree_fly(h.group_at(Some(accounts[*account])), ns.wrapping_neg()) };
        }
        let in_flight_ns = accounts.map(|it| unsafe { (*h.group_at(Some(it))).in_flight_ns });
        prop_assert_eq!(in_flight_ns, [0; 3]);
    }
}

/// An account whose members several CPUs serve may be behind by as much for each of them when it begins to wait.
#[test]
fn an_account_may_miss_as_much_for_each_of_its_members() {
    for (members, kept) in [(1, 1), (3, 3), (20, 9)] {
        let mut h = Host::new(0, 0, 0);
        let account = h.add_group(None, WEIGHT);
        let first: Vec<usize> = (0..members)
            .map(|_| h.add_task(Some(account), None, WEIGHT))
            .collect();

        for t in &first {
            h.wake(*t);
        }
        let (g, node) = (h.root(), unsafe {
            &raw mut (*h.group_at(Some(account))).node
        });
        let most = unsafe { core_vtime_of_ns(9 * u64::from(LAG_MAX_NS), WEIGHT) };
        let keeps = unsafe { core_vtime_of_ns(kept * u64::from(LAG_MAX_NS), WEIGHT) };
        unsafe {
            core_tree_dequeue(h.node(first[0]));
            for t in &first[1..] {
                core_tree_dequeue(h.node(*t));
            }
            (*g).vmin = (*node).vtime.wrapping_add(most);
            core_tree_enqueue(h.node(first[0]));
            assert_eq!((*g).vmin.wrapping_sub((*node).vtime), keeps, "{members}");
        }
    }
}
