// SPDX-License-Identifier: GPL-2.0 OR MIT
//! limit.h: in n periods nobody has more than n quotas and a burst, whoever takes, overruns and gives back when.

use crate::policy::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn limit_of(quota_ns: u64, period_ns: u64, burst_ns: u64, now_ns: u64) -> limit {
    let mut l = limit::default();
    unsafe { core_limit_set(&mut l, quota_ns, period_ns, burst_ns, now_ns) };
    l
}

fn take(l: &mut limit, most_ns: u64, now_ns: u64) -> u64 {
    unsafe { core_limit_take_left(l, most_ns, now_ns) }
}

fn binds(l: &mut limit, now_ns: u64) -> bool {
    unsafe { core_limit_binds(l, now_ns) != 0 }
}

#[test]
fn without_a_limit_all_is_granted() {
    let mut l = limit::default();
    assert_eq!(take(&mut l, 5 * MS, 7), 5 * MS);
    unsafe { core_limit_take(&mut l, 5 * MS as i64) };
    assert!(!binds(&mut l, 7));
}

#[test]
fn what_is_not_used_is_saved_up_to_the_burst() {
    let mut l = limit_of(10 * MS, 100 * MS, 5 * MS, 0);
    assert_eq!(take(&mut l, 50 * MS, 550 * MS), 15 * MS);
    assert!(binds(&mut l, 599 * MS));
    assert!(!binds(&mut l, 600 * MS));
}

#[test]
fn what_is_owed_is_paid_by_the_next_periods() {
    let mut l = limit_of(10 * MS, 100 * MS, 0, 0);
    unsafe { core_limit_take(&mut l, 35 * MS as i64) };
    assert!(binds(&mut l, 299 * MS));
    assert_eq!(take(&mut l, 50 * MS, 300 * MS), 5 * MS);
}

#[test]
fn what_is_owed_is_paid_within_some_time() {
    let mut l = limit_of(10 * MS, 100 * MS, 0, 0);
    unsafe { core_limit_take(&mut l, 3_600_000 * MS as i64) };
    assert!(binds(&mut l, 1_000 * MS));
    assert!(!binds(&mut l, 1_100 * MS));
}

/// However long nobody looked, and whatever is owed.
#[test]
fn after_ages_it_is_full() {
    let mut l = limit_of(10 * MS, MS, 0, 0);
    unsafe { core_limit_take(&mut l, i64::MAX / 4) };
    assert_eq!(take(&mut l, u64::MAX >> 2, u64::MAX >> 1), 10 * MS);
}

/// As the kernel does.
#[test]
fn another_quota_begins_with_a_full_budget() {
    let mut l = limit_of(10 * MS, 100 * MS, 0, 0);
    unsafe { core_limit_take(&mut l, 1_000 * MS as i64) };
    unsafe { core_limit_set(&mut l, 5 * MS, 100 * MS, 0, 2) };
    assert_eq!(take(&mut l, 50 * MS, 3), 5 * MS);
    assert!(binds(&mut l, 100 * MS + 1));
    assert!(!binds(&mut l, 100 * MS + 2));
}

proptest! {
    /// Runs end late, early or not at all before the next one begins.
    #[test]
    fn nobody_has_more_than_the_quotas_and_a_burst(
        quota_ms in 1u64..50,
        period_ms in 1u64..100,
        burst in 0.0f64..=1.0,
        begins in 0u64..1 << 50,
        steps in prop::collection::vec((0u64..30 * MS, 1u64..20 * MS, 0u64..=2), 1..300),
    ) {
        let (quota, period) = (quota_ms * MS, period_ms * MS);
        let burst = (quota as f64 * burst) as u64;
        let mut l = limit_of(quota, period, burst, begins);
        let (mut now, mut had, mut late) = (begins, 0u64, 0);
        for (pause, most, ends) in steps {
            now += pause;
            let granted = take(&mut l, most, now);
            prop_assert!(granted <= most);
            // Half of it, all of it, or half as much again.
            let ran = granted * (ends + 1) / 2;
            unsafe { core_limit_take(&mut l, ran as i64 - granted as i64) };
            had += ran;
            now += ran;
            // Once it owes, nobody is granted anything before that is paid.
            late = late.max(ran.saturating_sub(granted));
            let periods = (now - begins) / period + 1;
            prop_assert!(
                had <= periods * quota + burst + late,
                "{had} ns in {periods} periods of {quota}, {late} late"
            );
            prop_assert!(l.left_ns <= (quota + burst) as i64);
        }
    }

    /// One that always takes all that it may has its quotas to the nanosecond.
    #[test]
    fn the_greedy_have_all_of_it(quota_ms in 1u64..50, period_ms in 50u64..100, periods in 1u64..50) {
        let (quota, period) = (quota_ms * MS, period_ms * MS);
        let mut l = limit_of(quota, period, 0, 3);
        let had: u64 = (0..periods * 20)
            .map(|step| take(&mut l, 4 * MS, 3 + step * period / 20))
            .sum();
        prop_assert_eq!(had, periods * quota.min(80 * MS));
    }
}
