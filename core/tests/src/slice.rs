// SPDX-License-Identifier: GPL-2.0 OR MIT
//! slice.h: 000 equation 2.2, and its bounds.

use crate::{
    host::Host,
    policy::{
        core_first_turn_average_ns, core_first_turn_beside_ns, core_members_slice_ns,
        core_protected_slice_ns, core_slice_beside_ns, core_slice_ns, core_tree_part_ns,
        FIRST_ROUNDS, MEMBERS_ROUNDS, WEIGHT_ONE,
    },
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn slice_ns(granularity_ns: u64, min_slice_ns: u64, nr_runnable: u32, nr_members: u32) -> u64 {
    unsafe {
        let one = core_slice_ns(granularity_ns, min_slice_ns, nr_runnable);
        core_members_slice_ns(one, nr_members, u64::from(MEMBERS_ROUNDS) * granularity_ns)
    }
}

#[test]
fn equation_2_2() {
    // granularity, least slice, runnable tasks, members on the slice; slice
    let table = [
        (20 * MS, MS / 2, 1, 1, 20 * MS),
        (20 * MS, MS / 2, 2, 1, 10 * MS),
        (20 * MS, MS / 2, 3, 1, 6_666_666),
        (20 * MS, MS / 2, 40, 1, MS / 2),
        (20 * MS, MS / 2, 41, 1, MS / 2),
        (20 * MS, MS / 2, 10_000, 1, MS / 2),
        (20 * MS, MS / 2, 12, 12, 12 * 1_666_666),
        (20 * MS, MS / 2, 60, 10, 5 * MS),
        (20 * MS, MS / 2, 600, 400, 80 * MS),
        (20 * MS, MS / 2, 0, 0, 20 * MS),
        (0, 0, 7, 1, 0),
        (0, MS, 7, 1, MS),
    ];
    for (granularity_ns, min_ns, nr_runnable, nr_members, expected_ns) in table {
        assert_eq!(
            slice_ns(granularity_ns, min_ns, nr_runnable, nr_members),
            expected_ns,
            "granularity {granularity_ns}, least {min_ns}, {nr_runnable} runnable, {nr_members} members"
        );
    }
}

/// Of a shortest slice of half a millisecond; never more than a granularity.
#[test]
fn senders_go_on_for_longer_where_there_are_more_cpus() {
    for (nr_cpus, granularity_ns, expected_ns) in [
        (0, 4 * MS, MS / 2),
        (1, 4 * MS, MS / 2),
        (2, 4 * MS, MS),
        (3, 4 * MS, MS),
        (4, 4 * MS, 3 * MS / 2),
        (7, 4 * MS, 3 * MS / 2),
        (8, 4 * MS, 2 * MS),
        (1024, 4 * MS, 2 * MS),
        (8, MS, MS),
    ] {
        let slice_ns = unsafe { core_protected_slice_ns(granularity_ns, MS / 2, nr_cpus) };
        assert_eq!(slice_ns, expected_ns, "{nr_cpus} CPUs, {granularity_ns} ns");
    }
}

/// Beside reservations, on several CPUs: no longer than a quarter of their shortest period, which they can make up for.
#[test]
fn periods_cut_first_turns() {
    for (turn_ns, period_ns, expected_ns) in [
        (MS, 100 * MS, MS),
        (MS, 4 * MS, MS),
        (MS, 2 * MS, MS / 2),
        (0, 100 * MS, 0),
    ] {
        let cut_ns = unsafe { core_first_turn_beside_ns(turn_ns, period_ns) };
        assert_eq!(cut_ns, expected_ns, "{turn_ns} ns beside {period_ns} ns");
    }
}

/// Beside reservations: no longer than a 64th of their shortest period, and not below the least slice for that.
#[test]
fn periods_cut_slices() {
    // slice, least slice, shortest period; slice beside them
    let table = [
        (2 * MS, MS / 2, 0, 2 * MS),
        (2 * MS, MS / 2, 128 * MS, 2 * MS),
        (2 * MS, MS / 2, 64 * MS, MS),
        (2 * MS, MS / 2, MS, MS / 2),
        (MS / 4, MS / 2, MS, MS / 4),
    ];
    for (slice, min_ns, period_ns, expected_ns) in table {
        let cut_ns = unsafe { core_slice_beside_ns(slice, min_ns, period_ns) };
        assert_eq!(
            cut_ns, expected_ns,
            "slice {slice}, least {min_ns}, period {period_ns}"
        );
    }
}

proptest! {
    #[test]
    fn a_round_lasts_granularity_or_least_slices(
        granularity_ns in 0..=1000 * MS, min_ns in 1..=10 * MS, nr_runnable in 1u32..10_000,
    ) {
        let slice = slice_ns(granularity_ns, min_ns, nr_runnable, 1);
        let round_ns = slice * u64::from(nr_runnable);

        prop_assert!(slice >= min_ns);
        prop_assert!(round_ns <= granularity_ns.max(min_ns * u64::from(nr_runnable)));
        prop_assert!(round_ns + u64::from(nr_runnable) > granularity_ns);
    }

    #[test]
    fn members_run_on_one_slice(
        granularity_ns in 0..=1000 * MS, min_ns in 1..=10 * MS, nr_runnable in 1u32..10_000, nr_members in 1u32..1000,
    ) {
        let one = slice_ns(granularity_ns, min_ns, nr_runnable, 1);

        let most = (u64::from(MEMBERS_ROUNDS) * granularity_ns).max(one);
        let all = (one * u64::from(nr_members)).min(most);
        prop_assert_eq!(slice_ns(granularity_ns, min_ns, nr_runnable, nr_members), all);
    }

    /// All first turns of equals together last FIRST_ROUNDS rounds at most.
    #[test]
    fn first_turns_are_bounded_together(granularity_ns in 0..=1000 * MS, nr_runnable in 1u32..10_000) {
        let turn = unsafe { core_first_turn_average_ns(granularity_ns, nr_runnable) };

        prop_assert!(turn * u64::from(nr_runnable) <= u64::from(FIRST_ROUNDS) * granularity_ns);
    }

    #[test]
    fn more_tasks_never_have_longer_slices(
        granularity_ns in 0..=1000 * MS, min_ns in 1..=10 * MS, nr_runnable in 1u32..10_000, more in 0u32..100,
    ) {
        prop_assert!(
            slice_ns(granularity_ns, min_ns, nr_runnable + more, 1) <= slice_ns(granularity_ns, min_ns, nr_runnable, 1)
        );
    }
}

/// Of first turns: one has a quarter of the average whose account has half of it, and that half of its account's.
#[test]
fn parts_of_the_average_multiply_on_the_way_up() {
    let mut h = Host::new(0, 0, 0);
    let one = u64::from(WEIGHT_ONE);
    let (light, heavy) = (h.add_group(None, one), h.add_group(None, 3 * one));

    h.add_task(Some(light), None, one);
    h.add_task(Some(light), None, 3 * one);
    h.add_task(Some(heavy), None, one);
    for t in 0..3 {
        h.wake(t);
    }
    for (t, part_ns) in [(0, MS), (1, 2 * MS), (2, 4 * MS)] {
        assert_eq!(
            unsafe { core_tree_part_ns(h.node(t), 4 * MS, 8 * MS) },
            part_ns
        );
        assert_eq!(
            unsafe { core_tree_part_ns(h.node(t), 4 * MS, MS / 2) },
            MS / 2
        );
    }
}
