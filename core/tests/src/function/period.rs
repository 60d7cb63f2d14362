// SPDX-License-Identifier: GPL-2.0 OR MIT
//! function/period.h: whose budgets fit has them by the ends of their periods; who wants more delays nobody.

use super::*;
use proptest::prelude::*;

const QUANTUM_NS: u64 = 100 * US;

/// Budget and period of each member, that fit into one CPU.
fn members() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((1u64..40, 20u64..400), 1..8).prop_map(|members| {
        let periods: Vec<u64> = members.iter().map(|it| it.1 * QUANTUM_NS).collect();
        let parts: u64 = members.iter().map(|it| it.0).sum();
        let budget = |(it, period_ns): (&(u64, u64), &u64)| {
            period_ns * it.0 / parts / QUANTUM_NS * QUANTUM_NS
        };
        let budgets: Vec<u64> = members.iter().zip(&periods).map(budget).collect();
        budgets
            .into_iter()
            .zip(periods)
            .filter(|it| it.0 > 0)
            .collect()
    })
}

/// What a member does: a job of its budget at the beginning of each of its periods, or always something.
struct Work {
    left_ns: u64,
    since_ns: u64,
    is_greedy: bool,
}

fn first(g: &mut Group, work: &[Work], now_ns: u64) -> Option<usize> {
    let wanting = (0..work.len()).filter(|&it| work[it].left_ns > 0);
    wanting.min_by_key(|&it| {
        g.publish(it, now_ns);
        g.member(it).key
    })
}

/// Runs them for a while; each job is over by the end of its period, to within a quantum.
fn check_jobs(terms: &[(u64, u64)], greedy: &[bool], offsets: &[u64]) {
    let mut g = Group::new(FUNCTION_PERIOD, terms.len());
    let mut work = Vec::new();
    for (number, &(budget_ns, period_ns)) in terms.iter().enumerate() {
        let r = g.role(number);
        (r.budget_ns, r.period_ns) = (budget_ns, period_ns);
        let is_greedy = greedy[number % greedy.len()];
        work.push(Work {
            left_ns: 0,
            since_ns: 0,
            is_greedy,
        });
    }
    for step in 0..6_000 {
        let now_ns = 1000 * MS + step * QUANTUM_NS;
        for (number, &(budget_ns, period_ns)) in terms.iter().enumerate() {
            let offset = offsets[number % offsets.len()];
            let begins = ((step + offset) * QUANTUM_NS).is_multiple_of(period_ns);
            let w = &mut work[number];
            if w.is_greedy && w.left_ns == 0 {
                w.left_ns = u64::MAX;
                g.wake(number, now_ns);
            } else if begins && !w.is_greedy {
                assert_eq!(w.left_ns, 0, "{number} of {terms:?} is late");
                (w.left_ns, w.since_ns) = (budget_ns, now_ns);
                g.wake(number, now_ns);
            }
        }
        let Some(runs) = first(&mut g, &work, now_ns) else {
            continue;
        };
        let w = &mut work[runs];
        w.left_ns -= QUANTUM_NS;
        let now_ns = now_ns + QUANTUM_NS;
        let (left_ns, is_greedy, since_ns) = (w.left_ns, w.is_greedy, w.since_ns);
        g.ran(runs, now_ns - QUANTUM_NS, now_ns);
        if left_ns == 0 && !is_greedy {
            assert!(now_ns - since_ns <= terms[runs].1 + QUANTUM_NS);
            g.sleep(runs, now_ns);
        }
    }
}

/// A millionth of a second in each ten, and the CPU to itself for hours: it goes after all others, and is still there.
#[test]
fn a_member_far_beyond_its_budgets_comes_last_and_stays_in_time() {
    let mut g = Group::new(FUNCTION_PERIOD, 2);
    for number in 0..2 {
        (g.role(number).budget_ns, g.role(number).period_ns) = (US, 10_000 * MS);
    }
    let mut now_ns = 1000 * MS;
    g.wake(0, now_ns);
    for _ in 0..5_000 {
        g.ran(0, now_ns, now_ns + 1000 * MS);
        now_ns += 1000 * MS;
        let r = g.role(0);
        assert!(r.ends_ns > now_ns && r.ends_ns - now_ns <= PERIOD_AHEAD_MAX_NS);
        assert!(r.left_ns > 0 && r.left_ns as u64 <= US);
    }
    g.wake(1, now_ns);
    g.publish(0, now_ns);
    g.publish(1, now_ns);
    assert!(g.member(1).key < g.member(0).key);
    assert!(g.member(0).key < NO_PERIOD);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn budgets_are_had_by_the_end_of_periods(
        terms in members(), greedy in prop::collection::vec(any::<bool>(), 8), offsets in prop::collection::vec(0u64..400, 8),
    ) {
        check_jobs(&terms, &greedy, &offsets);
    }

    /// A budget that is used up comes with a later period, at the rate that it was given.
    #[test]
    fn nobody_has_more_budget_than_its_rate(
        budget_ns in 10 * US..20 * MS, rest_ns in 0..100 * MS, runs in prop::collection::vec((1..40 * MS, 0..20 * MS), 1..60),
    ) {
        let mut g = Group::new(FUNCTION_PERIOD, 1);
        let period_ns = budget_ns + rest_ns;
        (g.role(0).budget_ns, g.role(0).period_ns) = (budget_ns, period_ns);
        let begin_ns = 1000 * MS;
        let (mut now_ns, mut had_ns) = (begin_ns, 0u128);
        for (runs_ns, sleeps_ns) in runs {
            g.wake(0, now_ns);
            g.ran(0, now_ns, now_ns + runs_ns);
            had_ns += u128::from(runs_ns);
            now_ns += runs_ns;
            let r = g.role(0);
            prop_assert!(r.left_ns > 0 && r.left_ns as u64 <= budget_ns);
            // What it had is paid for by periods that are over by then, and its present one.
            let paid_ns = u128::from(r.ends_ns - begin_ns) * u128::from(budget_ns) / u128::from(period_ns) + 1;
            prop_assert!(had_ns <= paid_ns, "had {had_ns} of {paid_ns}");
            g.sleep(0, now_ns);
            now_ns += sleeps_ns;
        }
    }
}
