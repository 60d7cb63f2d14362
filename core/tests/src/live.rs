// SPDX-License-Identifier: GPL-2.0 OR MIT
//! live.h: nobody waits for longer than its bound, and who is before by weight keeps all but one slice of LIVE_PART.

use crate::{
    host::{Host, Slices},
    policy::*,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const ONE: u64 = WEIGHT_ONE as u64;
const WAIT_NS: u64 = LIVE_WAIT_NS as u64;
const PART: u64 = LIVE_PART as u64;

fn host() -> Host {
    let mut h = Host::new(u64::MAX - (1 << 40), 1000 * PATIENCE, 6 * MS);

    h.slices = Some(Slices {
        granularity_ns: 4 * MS,
        min_slice_ns: MS / 2,
    });
    h
}

/// Lets slices pass; returns for how long anybody waited at most.
fn longest_wait_ns(h: &mut Host, ns: u64) -> u64 {
    let (until_ns, mut longest_ns) = (h.now_ns + ns, 0);

    h.dispatch();
    while h.now_ns < until_ns {
        h.pass(h.place.quantum_ns);
        h.dispatch();
        let first = h.place.waiters.first;
        if !first.is_null() {
            longest_ns = longest_ns.max(h.now_ns - unsafe { (*first).since_ns });
        }
    }
    longest_ns
}

/// The bound for the last of `late` tasks that would wait for too long, and the slice that has begun.
fn bound_ns(h: &Host, late: u64) -> u64 {
    WAIT_NS + h.place.quantum_ns * (PART * late + 1)
}

#[test]
fn the_least_of_nine_hundred_runs() {
    let mut h = host();
    let least = u64::from(unsafe { core_weight_of_nice(19) });

    for _ in 0..900 {
        h.add_task(None, None, ONE);
    }
    let last = h.add_task(None, None, least);
    (0..h.tasks.len()).for_each(|t| h.wake(t));
    let waited_ns = longest_wait_ns(&mut h, 10_000 * MS);
    assert!(
        waited_ns <= bound_ns(&h, 1),
        "somebody waited {waited_ns} ns"
    );
    assert!(h.tasks[last].ran_ns >= 5 * h.place.quantum_ns);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Weights of 1 to 10000 at each of two levels, and members that nobody but patience helps.
    #[test]
    fn nobody_waits_for_longer(
        weights in prop::collection::vec((1u32..=10_000, 1u32..=10_000, prop::bool::ANY), 2..40),
    ) {
        let mut h = host();
        let of = |weight| u64::from(unsafe { core_weight_of_cgroup(weight) });
        let d = h.add_domain(crate::accounts::DomainArgs { order: ORDER_PROGRAM, grace_ns: MS });

        for &(outer, inner, is_member) in &weights {
            let g = h.add_group(None, of(outer));
            let g = h.add_group(Some(g), of(inner));
            let t = h.add_task(Some(g), is_member.then_some(d), ONE);
            h.wake(t);
        }
        let waited_ns = longest_wait_ns(&mut h, 6_000 * MS);
        let bound_ns = bound_ns(&h, weights.len() as u64);
        prop_assert!(waited_ns <= bound_ns, "somebody waited {}, may wait {}", waited_ns, bound_ns);
    }
}

/// A nested weight of 1 beside one of 10000.
#[test]
fn the_least_of_a_nested_ten_thousandth_runs() {
    let mut h = host();
    let [least, most] = [1, 10_000].map(|w| u64::from(unsafe { core_weight_of_cgroup(w) }));

    for _ in 0..2 {
        let g = h.add_group(None, ONE);
        let groups = [least, most].map(|weight| h.add_group(Some(g), weight));
        for g in groups {
            h.add_task(Some(g), None, ONE);
        }
    }
    (0..h.tasks.len()).for_each(|t| h.wake(t));
    let waited_ns = longest_wait_ns(&mut h, 20_000 * MS);
    assert!(
        waited_ns <= bound_ns(&h, 2),
        "somebody waited {waited_ns} ns"
    );
}

/// However many wait for too long, who is before them by weight has all but one slice of LIVE_PART.
#[test]
fn a_crowd_that_waits_for_too_long_takes_one_slice_of_some() {
    let mut h = host();
    let [least, most] = [1, 10_000].map(|w| u64::from(unsafe { core_weight_of_cgroup(w) }));
    let crowd = h.add_group(None, least);
    let hog_home = h.add_group(None, most);
    let hog = h.add_task(Some(hog_home), None, ONE);

    for _ in 0..1500 {
        h.add_task(Some(crowd), None, ONE);
    }
    (0..h.tasks.len()).for_each(|t| h.wake(t));
    longest_wait_ns(&mut h, WAIT_NS);
    let (start_ns, had_ns) = (h.now_ns, h.tasks[hog].ran_ns);
    longest_wait_ns(&mut h, 4 * WAIT_NS);
    let got = (h.tasks[hog].ran_ns - had_ns) as f64 / (h.now_ns - start_ns) as f64;
    let least = 1.0 - 1.0 / PART as f64;
    assert!(got >= least - 0.01, "the hog got {got}, may have {least}");
}

/// The waiters of a list, in its order; its links are those of a list.
fn listed(all: &waiters) -> Vec<*mut waiter> {
    let (mut list, mut before, mut at) = (Vec::new(), std::ptr::null_mut(), all.first);
    while !at.is_null() {
        assert_eq!(unsafe { (*at).before }, before);
        list.push(at);
        (before, at) = (at, unsafe { (*at).next });
    }
    assert_eq!(all.last, before);
    list
}

proptest! {
    /// A task that comes from another place is before all that have waited for less, and the list stays in order. Where both
    /// ends of a long list are too far it is taken for one that has waited for longer, never for less.
    #[test]
    fn who_comes_from_elsewhere_goes_on_waiting(
        began_ns in u64::MAX - 10_000..u64::MAX,
        gaps in prop::collection::vec(0u64..100, 0..60),
        comes_ns in 0u64..6_000,
    ) {
        let mut all: waiters = unsafe { std::mem::zeroed() };
        let mut slots: Vec<waiter> = vec![unsafe { std::mem::zeroed() }; gaps.len() + 1];
        let mut now_ns = began_ns;
        let since_ns = began_ns.wrapping_add(comes_ns);

        for (w, gap) in slots.iter_mut().skip(1).zip(&gaps) {
            now_ns = now_ns.wrapping_add(*gap);
            unsafe { core_live_wait(&mut all, w, now_ns) };
        }
        let w: *mut waiter = &mut slots[0];
        let now_ns = now_ns.wrapping_add(comes_ns);
        unsafe {
            core_live_wait(&mut all, w, now_ns);
            core_live_wait_on(&mut all, w, since_ns);
        }
        let list = listed(&all);
        prop_assert_eq!(list.len(), gaps.len() + 1);
        let age_ns = |w: *mut waiter| now_ns.wrapping_sub(unsafe { (*w).since_ns });
        prop_assert!(list.windows(2).all(|pair| age_ns(pair[0]) >= age_ns(pair[1])));
        let is_exact = age_ns(w) == now_ns.wrapping_sub(since_ns);
        prop_assert!(age_ns(w) >= now_ns.wrapping_sub(since_ns));
        let at = list.iter().position(|it| *it == w).unwrap();
        let reach = LIVE_LOOKS as usize;
        prop_assert!(is_exact || (at + 1 >= reach && list.len() - at >= reach));
        prop_assert_eq!(unsafe { (*w).came_ns }, now_ns);
    }
}
