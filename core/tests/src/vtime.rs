// SPDX-License-Identifier: GPL-2.0 OR MIT
//! vtime.h and nice.h: units, limits, and what nice values and cgroup weights mean.

use crate::policy::*;
use proptest::prelude::*;

const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;
/// The smallest and the largest weight that a user can give.
const WEIGHT_LEAST: u64 = WEIGHT_ONE as u64 / 100;
const WEIGHT_MOST: u64 = WEIGHT_ONE as u64 * 100;

fn of_ns(ns: u64, weight: u64) -> u64 {
    unsafe { core_vtime_of_ns(ns, weight) }
}

fn to_ns(vtime: u64, weight: u64) -> u64 {
    unsafe { core_vtime_to_ns(vtime, weight) }
}

fn of_nice(nice: i32) -> u32 {
    unsafe { core_weight_of_nice(nice) }
}

fn of_cgroup(weight: u32) -> u32 {
    unsafe { core_weight_of_cgroup(weight) }
}

fn before(a: u64, b: u64) -> bool {
    unsafe { core_vtime_before(a, b) != 0 }
}

/// What `vtime_of_ns` promises, without limits of word length.
fn exact(ns: u64, weight: u64) -> u128 {
    (u128::from(ns.min(CHARGE_MAX_NS)) << (WEIGHT_SHIFT + VTIME_SHIFT)) / u128::from(weight.max(1))
}

#[test]
fn the_units_are_as_documented() {
    assert_eq!(of_ns(1, u64::from(WEIGHT_ONE)), 1 << VTIME_SHIFT);
    assert_eq!(of_nice(0), WEIGHT_ONE);
    assert_eq!(of_cgroup(100), WEIGHT_ONE);
    // "even the shortest run of the heaviest member is charged to better than one part in a thousand"
    let heaviest = u64::from(of_nice(-20)).max(u64::from(of_cgroup(10_000)));
    let charged = of_ns(1000, heaviest) as f64;
    let wanted = 1000.0 * f64::from(1u32 << VTIME_SHIFT) * f64::from(WEIGHT_ONE) / heaviest as f64;
    assert!((charged / wanted - 1.0).abs() < 1e-3);
}

#[test]
fn longer_charges_are_cut_off() {
    let max = CHARGE_MAX_NS;

    for weight in [1, WEIGHT_LEAST, u64::from(WEIGHT_ONE), WEIGHT_MOST] {
        assert_eq!(u128::from(of_ns(max, weight)), exact(max, weight));
        assert_eq!(of_ns(max + 1, weight), of_ns(max, weight));
        assert_eq!(of_ns(u64::MAX, weight), of_ns(max, weight));
    }
    assert_eq!(of_ns(5, 0), of_ns(5, 1));
}

#[test]
fn a_day_at_the_smallest_weight_is_not_mistaken() {
    let least = u64::from(of_nice(19).min(of_cgroup(1)));
    let charges = DAY_NS / 1_000_000_000;
    let day = charges * of_ns(1_000_000_000, least);

    assert_eq!(
        u128::from(day) >> 10,
        (exact(1_000_000_000, least) * u128::from(charges)) >> 10
    );
    for start in [0u64, 1 << 63, u64::MAX - 5, day] {
        assert!(before(start, start.wrapping_add(day)));
        assert!(!before(start.wrapping_add(day), start));
    }
}

/// The kernel's own table (`sched_prio_to_weight`).
const KERNEL_WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

#[test]
fn nice_means_what_it_means_to_the_kernel() {
    assert_eq!(NICE_LEVELS as usize, KERNEL_WEIGHTS.len());
    for (i, weight) in KERNEL_WEIGHTS.iter().enumerate() {
        let nice = i as i32 - 20;
        let ratio = f64::from(of_nice(nice)) / f64::from(of_nice(0));

        assert_eq!(ratio, f64::from(*weight) / 1024.0, "nice {nice}");
        let power = 1.25f64.powi(-nice) * 1024.0;
        assert!(
            (f64::from(*weight) - power).abs() <= 0.02 * power + 1.0,
            "nice {nice}: {weight} is not {power}"
        );
    }
}

#[test]
fn weights_out_of_range_are_clamped() {
    assert_eq!(of_nice(-21), of_nice(-20));
    assert_eq!(of_nice(i32::MIN), of_nice(-20));
    assert_eq!(of_nice(20), of_nice(19));
    assert_eq!(of_nice(i32::MAX), of_nice(19));
    assert_eq!(of_cgroup(0), of_cgroup(1));
    assert_eq!(of_cgroup(u32::MAX), of_cgroup(10_000));
    assert_eq!(u64::from(of_cgroup(1)), WEIGHT_LEAST);
    assert_eq!(u64::from(of_cgroup(10_000)), WEIGHT_MOST);
}

proptest! {
    #[test]
    fn charging_is_division_without_overflow(ns: u64, weight in 0..=4 * WEIGHT_MOST) {
        prop_assert_eq!(u128::from(of_ns(ns, weight)), exact(ns, weight));
    }

    #[test]
    fn charging_is_monotone(ns in 0..u64::MAX / 2, more: u32, weight in 1..=WEIGHT_MOST, heavier in 0..=WEIGHT_MOST) {
        prop_assert!(of_ns(ns, weight) <= of_ns(ns + u64::from(more), weight));
        prop_assert!(of_ns(ns, weight) >= of_ns(ns, weight + heavier));
    }

    #[test]
    fn charging_in_parts_loses_less_than_a_unit_each(
        parts in prop::collection::vec(0..10_000_000u64, 1..100), weight in WEIGHT_LEAST..=WEIGHT_MOST,
    ) {
        let total: u64 = parts.iter().sum();
        let charged: u64 = parts.iter().map(|&ns| of_ns(ns, weight)).sum();

        prop_assert!(charged <= of_ns(total, weight));
        prop_assert!(of_ns(total, weight) < charged + parts.len() as u64);
    }

    /// Never longer than what was charged; shorter by what the shifts drop: 15 of the weight's units, one of
    /// virtual time's 1024, one ns.
    #[test]
    fn the_inverse_is_within_rounding(ns in 0..=CHARGE_MAX_NS, weight in WEIGHT_LEAST..=WEIGHT_MOST) {
        let back = to_ns(of_ns(ns, weight), weight);
        let lost = ns * 16 / weight + (weight >> WEIGHT_SHIFT) + 3;

        prop_assert!(back <= ns);
        prop_assert!(back + lost >= ns, "{ns} ns became {back}");
    }

    #[test]
    fn the_past_takes_no_time(ahead in 1..=1u64 << 63, weight in 0..=WEIGHT_MOST) {
        prop_assert_eq!(to_ns(0u64.wrapping_sub(ahead), weight), 0);
        prop_assert_eq!(to_ns(0, weight), 0);
    }

    #[test]
    fn order_survives_the_wrap(a: u64, ahead in 1..1u64 << 63) {
        let b = a.wrapping_add(ahead);

        prop_assert!(before(a, b) && !before(b, a) && !before(a, a));
        prop_assert_eq!(unsafe { core_vtime_max(a, b) }, b);
        prop_assert_eq!(unsafe { core_vtime_max(b, a) }, b);
    }

    #[test]
    fn cgroup_weights_are_proportional(weight in 1u32..=10_000) {
        prop_assert_eq!(u64::from(of_cgroup(weight)), u64::from(weight) * u64::from(WEIGHT_ONE) / 100);
    }
}
