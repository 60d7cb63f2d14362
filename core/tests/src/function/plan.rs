// SPDX-License-Identifier: GPL-2.0 OR MIT
//! plan.h: the interval that is on is the plan's, and each that is over was kept or missed.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Plan {
    intervals: Vec<(u64, u64)>,
    repeat_ns: u64,
}

impl Plan {
    /// All intervals that are over at a time, and the next one, in the order of time.
    fn until(&self, at_ns: u64) -> Vec<(u64, u64)> {
        let rounds = match self.repeat_ns {
            0 => 1,
            repeat_ns => at_ns / repeat_ns + 2,
        };
        let mut all = Vec::new();
        for round in 0..rounds {
            let later =
                |it: &(u64, u64)| (it.0 + round * self.repeat_ns, it.1 + round * self.repeat_ns);
            all.extend(self.intervals.iter().map(later));
        }
        let over = all.iter().filter(|it| it.1 <= at_ns).count();
        all.truncate(over + 1);
        all
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    let interval = (prop_oneof![Just(0), 1..20 * MS], 100 * US..20 * MS);
    let rest_ns = prop_oneof![Just(0), 0..30 * MS];
    (
        prop::collection::vec(interval, 1..40),
        rest_ns,
        any::<bool>(),
    )
        .prop_map(|(lengths, rest_ns, repeats)| {
            let mut at_ns = 0;
            let intervals = lengths.iter().map(|&(gap_ns, length_ns)| {
                let start_ns = at_ns + gap_ns;
                at_ns = start_ns + length_ns;
                (start_ns, at_ns)
            });
            let intervals: Vec<_> = intervals.collect();
            let repeat_ns = if repeats { at_ns + rest_ns } else { 0 };
            Plan {
                intervals,
                repeat_ns,
            }
        })
}

/// For how long the member sleeps, waits, and runs.
fn steps() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let short = || prop_oneof![Just(0), 0..2 * MS, 0..60 * MS];
    prop::collection::vec((short(), short(), 1..10 * MS), 1..60)
}

/// What a member has done, as the test saw it.
#[derive(Default)]
struct Seen {
    runs: Vec<(u64, u64)>,
    begun_ns: u64,
}

fn check(g: &mut Group, plan: &Plan, seen: &Seen, zero_ns: u64, now_ns: u64) {
    let all = plan.until(now_ns - zero_ns);
    let is_over = |it: &&(u64, u64)| zero_ns + it.1 <= now_ns;
    let over: Vec<_> = all.iter().filter(is_over).collect();
    // Those were over before anybody looked at the plan.
    let before = over
        .iter()
        .filter(|it| zero_ns + it.1 <= seen.begun_ns)
        .count();
    let next = all
        .get(over.len())
        .map(|it| (zero_ns + it.0, zero_ns + it.1));
    let in_it =
        |it: &(u64, u64), run: &(u64, u64)| run.0 < zero_ns + it.1 && zero_ns + it.0 < run.1;
    let kept = over[before..]
        .iter()
        .filter(|it| seen.runs.iter().any(|run| in_it(it, run)))
        .count();
    let r = g.role(0);

    assert_eq!(
        (r.from_ns, r.until_ns),
        next.unwrap_or((NEVER_NS, NEVER_NS))
    );
    assert_eq!(
        r.kept,
        kept as u64,
        "kept, of {} that are over",
        over.len() - before
    );
    assert_eq!(g.missed(0), (over.len() - before - kept) as u64, "missed");
}

proptest! {
    #[test]
    fn each_interval_is_kept_or_missed(
        plan in plan(), steps in steps(), zero_ns in 0..MS * 1000, late_ns in 0..100 * MS,
    ) {
        let mut g = Group::new(FUNCTION_PLAN, 1);
        let mut now_ns = zero_ns + late_ns;
        let mut seen = Seen { begun_ns: now_ns, ..Seen::default() };

        g.give_plan(0, &plan.intervals, plan.repeat_ns);
        unsafe { core_function_start(&mut *g.function, zero_ns, now_ns) };
        g.publish(0, now_ns);
        for (sleeps_ns, waits_ns, runs_ns) in steps {
            now_ns += sleeps_ns;
            g.wake(0, now_ns);
            check(&mut g, &plan, &seen, zero_ns, now_ns);
            now_ns += waits_ns;
            g.publish(0, now_ns);
            let until_ns = now_ns + runs_ns;
            while now_ns < until_ns {
                // As who has the CPU is compared, at the latest, when its interval is over.
                let ends_ns = unsafe { core_function_ends_ns(g.member(0), now_ns) }.min(until_ns);
                prop_assert!(ends_ns > now_ns);
                unsafe { core_function_begin(g.member(0), now_ns, now_ns) };
                g.ran(0, now_ns, ends_ns);
                seen.runs.push((now_ns, ends_ns));
                now_ns = ends_ns;
                g.publish(0, now_ns);
                check(&mut g, &plan, &seen, zero_ns, now_ns);
            }
            g.sleep(0, now_ns);
        }
    }

    /// A member is due in its interval, from its beginning on, and at no other time; once it says that it is done, no more.
    #[test]
    fn who_has_an_interval_is_due_in_it(plan in plan(), at_ns in 0..900 * MS) {
        let mut g = Group::new(FUNCTION_PLAN, 2);
        g.give_plan(0, &plan.intervals, plan.repeat_ns);
        unsafe { core_function_start(&mut *g.function, 0, 0) };
        g.wake(0, 0);
        g.wake(1, 0);
        g.publish(0, at_ns);
        let on = plan.until(at_ns).into_iter().find(|it| it.0 <= at_ns && at_ns < it.1);
        let due_ns = g.member(0).due_ns;
        prop_assert_eq!((due_ns <= at_ns).then_some(due_ns), on.map(|it| it.0));
        prop_assert_eq!(g.member(1).due_ns, NEVER_NS);
        unsafe { core_function_tell(g.role(0), 0, 1, 0, at_ns) };
        g.publish(0, at_ns);
        prop_assert!(g.member(0).due_ns > at_ns);
    }

    /// Standing, set back or forth: what was over before is not counted again, nor what was passed over.
    #[test]
    fn a_plan_that_is_set_has_no_more_over(plan in plan(), at_ns in 0..500 * MS, to_ns in 0..500 * MS) {
        let mut g = Group::new(FUNCTION_PLAN, 1);
        g.give_plan(0, &plan.intervals, plan.repeat_ns);
        unsafe { core_function_start(&mut *g.function, 0, 0) };
        g.publish(0, 0);
        g.publish(0, at_ns);
        let counted = g.role(0).kept + g.missed(0);
        unsafe { core_function_start(&mut *g.function, NEVER_NS, at_ns) };
        g.publish(0, at_ns);
        prop_assert_eq!(g.role(0).from_ns, NEVER_NS);
        let now_ns = 1000 * MS;
        unsafe { core_function_start(&mut *g.function, now_ns - to_ns, now_ns) };
        g.publish(0, now_ns);
        prop_assert_eq!(g.role(0).kept + g.missed(0), counted);
        let next = plan.until(to_ns).into_iter().find(|it| it.1 > to_ns);
        prop_assert_eq!(g.role(0).from_ns, next.map_or(NEVER_NS, |it| now_ns - to_ns + it.0));
    }
}

/// One that is cut short, as its plan stands from then on, is kept if its thread has run in it, and else it is neither.
#[test]
fn an_interval_that_is_cut_short_is_kept_if_its_thread_has_run() {
    for has_run in [true, false] {
        let mut g = Group::new(FUNCTION_PLAN, 1);
        g.give_plan(0, &[(MS, 5 * MS)], 0);
        unsafe { core_function_start(&mut *g.function, 0, 0) };
        g.wake(0, 0);
        if has_run {
            unsafe { core_function_begin(g.member(0), 2 * MS, 2 * MS) };
        }
        unsafe { core_function_start(&mut *g.function, NEVER_NS, 3 * MS) };
        g.publish(0, 3 * MS);
        assert_eq!((g.role(0).kept, g.missed(0)), (has_run.into(), 0));
        // Before it begins it is none.
        unsafe { core_function_start(&mut *g.function, 4 * MS, 4 * MS) };
        g.publish(0, 4 * MS);
        unsafe { core_function_start(&mut *g.function, NEVER_NS, 4 * MS) };
        g.publish(0, 4 * MS);
        assert_eq!((g.role(0).kept, g.missed(0)), (has_run.into(), 0));
    }
}

type Change = fn(&mut Group);

#[test]
fn a_miss_has_its_cause() {
    let causes: [(Change, miss); 5] = [
        (|g| g.role(0).member = std::ptr::null_mut(), MISS_VACANT),
        (|g| g.member(0).seat = std::ptr::null_mut(), MISS_OUTSIDE),
        (|g| g.member(0).node.active = 0, MISS_ASLEEP),
        (
            |g| unsafe { (*(*g.member(0).seat).domain).nr_blocked += 1 },
            MISS_SHARE,
        ),
        (|_| (), MISS_OTHERS),
    ];
    for (change, cause) in causes {
        let mut g = Group::new(FUNCTION_PLAN, 1);
        g.give_plan(0, &[(MS, 2 * MS)], 0);
        unsafe { core_function_start(&mut *g.function, 0, 0) };
        g.wake(0, 0);
        change(&mut g);
        unsafe { core_role_advance(g.role(0), 2 * MS) };
        assert_eq!(g.missed(0), 1);
        assert_eq!(g.role(0).missed[cause as usize], 1, "{cause}");
    }
}
