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

/// Two accounts with a CPU each, of which a heavy task has it: neither serves the other's light task for being a moment behind. It
/// does where the account that would lose its CPU has another one, or nobody serves the one that is behind.
#[test]
fn an_account_keeps_its_only_cpu_for_a_slice() {
    for (ahead_ns, first_flies, own_flies, keeps) in [
        (SLICE_NS / 2, true, false, true),
        (SLICE_NS - 1000, true, false, true),
        (SLICE_NS + 1000, true, false, false),
        (SLICE_NS / 2, false, false, false),
        (SLICE_NS / 2, true, true, false),
    ] {
        let mut h = Host::new(0, 0, 0);
        unsafe { (*h.root()).of_one_cpu = 0 };
        let accounts = [2 * WEIGHT, 2 * WEIGHT].map(|it| h.add_group(None, it));
        let [other, _, runs, light] = [0, 0, 1, 1].map(|it| {
            let t = h.add_task(Some(accounts[it]), None, WEIGHT);
            h.wake(t);
            t
        });

        for t in [other, runs] {
            unsafe { core_tree_dequeue(h.node(t)) };
        }
        for (account, flies) in accounts.iter().zip([first_flies, own_flies]) {
            if flies {
                unsafe { core_tree_fly(h.group_at(Some(*account)), SLICE_NS) };
            }
        }
        let flight_ns = if first_flies { SLICE_NS } else { 0 };
        unsafe {
            core_tree_charge(h.node(runs), flight_ns + ahead_ns);
            // Of its own account the one that runs is first.
            core_tree_charge(h.node(light), SLICE_NS * 10);
            core_tree_charge(h.node(other), SLICE_NS * 10);
        }
        let n = h.node(runs);
        let mut c = choice {
            is_alone: 1,
            is_busy: 1,
            slice_ns: SLICE_NS,
            ..choice::default()
        };
        unsafe { core_place_choose(h.place.at(), n, n, h.now_ns, &mut c) };
        assert_eq!(
            c.task == n,
            keeps,
            "{ahead_ns} ns ahead, {first_flies}, {own_flies}"
        );
    }
}

/// Two tasks of an account run on CPUs of their own while others wait for these, for seconds. A third that comes later has no
/// more of a start than a task may be behind.
#[test]
fn who_has_a_cpu_of_its_own_is_not_ahead_of_newcomers_for_ever() {
    let mut h = Host::new(0, 0, 0);
    let account = h.add_group(None, 2 * WEIGHT);
    let [one, other, newcomer] = [0; 3].map(|_| h.add_task(Some(account), None, WEIGHT));
    let outsider = h.add_task(None, None, WEIGHT);

    for t in [one, other, outsider] {
        h.wake(t);
    }
    for t in [one, other] {
        unsafe { core_tree_dequeue(h.node(t)) };
    }
    for turn in 0..2000 {
        let n = h.node([one, other][turn % 2]);
        let mut c = choice {
            is_alone: 1,
            is_busy: 1,
            ..choice::default()
        };
        unsafe {
            core_tree_charge(n, SLICE_NS);
            // So that it is the account's turn.
            core_tree_charge(h.node(outsider), SLICE_NS);
            core_place_choose(h.place.at(), n, n, h.now_ns, &mut c);
        }
    }
    h.wake(newcomer);
    let [ran, came] = [other, newcomer].map(|t| unsafe { (*h.node(t)).vtime });
    let ahead_ns = unsafe { core_vtime_to_ns(ran.wrapping_sub(came), WEIGHT) };
    assert!(
        ahead_ns <= u64::from(LAG_MAX_NS) + SLICE_NS,
        "{ahead_ns} ns"
    );
}
