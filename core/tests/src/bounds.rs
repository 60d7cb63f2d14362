// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The bounds that coop.h and place.h promise, over seconds of virtual time: shares, tardiness, patience.

use crate::{
    accounts::DomainArgs,
    cpu::{Cpu, Program, RUN_LEAST_NS},
    host::{Host, Slices},
    policy::*,
};
use proptest::prelude::*;

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const WINDOW_NS: u64 = 4 * MS;
const GRANULARITY_NS: u64 = 20 * MS;
/// The longest event of any member, and the grace of every domain.
const EVENT_NS: u64 = MS;

fn cpu(domains: usize, order: u32) -> Cpu {
    let mut h = Host::new(u64::MAX - (1 << 40), 1000 * PATIENCE, WINDOW_NS);

    h.slices = Some(Slices {
        granularity_ns: GRANULARITY_NS,
        min_slice_ns: 0,
    });
    for _ in 0..domains {
        h.add_domain(DomainArgs {
            order,
            grace_ns: EVENT_NS,
        });
    }
    Cpu::new(h)
}

/// Runs for `ns`, checking after every step.
fn run(c: &mut Cpu, ns: u64, mut check: impl FnMut(&Cpu)) {
    let until_ns = c.h.now_ns + ns;

    while c.h.now_ns < until_ns {
        c.step();
        check(c);
    }
}

fn ran_ns(c: &Cpu, tasks: &[usize]) -> u64 {
    tasks.iter().map(|&t| c.h.tasks[t].ran_ns).sum()
}

fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![10 * US..=EVENT_NS, Just(EVENT_NS)]
}

/// An honest member that always has best-effort events, and a due event now and then.
fn busy() -> impl Strategy<Value = (Program, u64)> {
    (20 * MS..60 * MS, 10 * US..=200 * US, cost(), 0..20 * MS).prop_map(
        |(period_ns, due_cost_ns, best_cost_ns, first)| {
            (
                Program::Honest {
                    period_ns,
                    due_cost_ns,
                    best_cost_ns,
                    priority: 0,
                },
                first,
            )
        },
    )
}

/// A member that has more due events than its share allows, and best-effort events.
fn pressing() -> impl Strategy<Value = (Program, u64)> {
    (MS..8 * MS, cost(), cost(), 0..20 * MS).prop_map(
        |(period_ns, due_cost_ns, best_cost_ns, first)| {
            (
                Program::Honest {
                    period_ns,
                    due_cost_ns,
                    best_cost_ns,
                    priority: 0,
                },
                first,
            )
        },
    )
}

/// An honest member that has due events only, and sleeps in between.
fn sporadic() -> impl Strategy<Value = (Program, u64)> {
    (20 * MS..60 * MS, 10 * US..=200 * US, 0..20 * MS).prop_map(
        |(period_ns, due_cost_ns, first)| {
            (
                Program::Honest {
                    period_ns,
                    due_cost_ns,
                    best_cost_ns: 0,
                    priority: PRIORITY_NONE,
                },
                first,
            )
        },
    )
}

fn add(c: &mut Cpu, programs: &[(Program, u64)], domain: Option<usize>) -> Vec<usize> {
    programs
        .iter()
        .map(|(program, first)| c.add(program.clone(), domain, *first))
        .collect()
}

fn liars(costs: &[u64]) -> Vec<(Program, u64)> {
    costs
        .iter()
        .map(|&cost_ns| (Program::Liar { cost_ns }, 0))
        .collect()
}

fn eager(costs: &[u64], ahead_ns: u64) -> Vec<(Program, u64)> {
    costs
        .iter()
        .map(|&cost_ns| (Program::Eager { cost_ns, ahead_ns }, 0))
        .collect()
}

fn due_cost_ns(programs: &[(Program, u64)]) -> u64 {
    let cost = |p: &Program| match p {
        Program::Honest { due_cost_ns, .. } => *due_cost_ns,
        _ => 0,
    };

    programs.iter().map(|(p, _)| cost(p)).sum()
}

/// By how much of its own running time a domain's only seat is ahead of the root's minimum.
fn ahead_ns(c: &Cpu, domain: usize) -> u64 {
    let seat = &unsafe { &*c.h.domains[domain].seats }.node;
    let ahead = seat.vtime.wrapping_sub(c.h.place.root.vmin);

    if ahead as i64 <= 0 {
        return 0;
    }
    ((u128::from(ahead) * u128::from(seat.weight)) >> (WEIGHT_SHIFT + VTIME_SHIFT)) as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A member that is always due has its share of its domain, and one grace and one event more at most; the honest
    /// ones' due events wait for the running event, each other, and each liar's grace and last event.
    #[test]
    fn a_liar_gets_its_share(
        honest in prop::collection::vec(busy(), 1..10), costs in prop::collection::vec(cost(), 1..3),
        hogs in 0usize..3, seconds in 1u64..3,
    ) {
        let mut c = cpu(1, ORDER_PROGRAM);
        let honest_tasks = add(&mut c, &honest, Some(0));
        let liar_tasks = add(&mut c, &liars(&costs), Some(0));

        for _ in 0..hogs {
            c.add(Program::Hog, None, 0);
        }
        run(&mut c, seconds * PATIENCE, |_| ());
        let members = (honest.len() + costs.len()) as u64;
        let domain_ns = ran_ns(&c, &honest_tasks) + ran_ns(&c, &liar_tasks);
        for (&t, cost_ns) in liar_tasks.iter().zip(&costs) {
            let got_ns = c.h.tasks[t].ran_ns;
            let share_ns = domain_ns / members;
            prop_assert!(got_ns <= share_ns + EVENT_NS + cost_ns, "liar {t} got {got_ns} of {share_ns}");
            prop_assert!(got_ns + EVENT_NS + members * EVENT_NS >= share_ns, "liar {t} got {got_ns} of {share_ns}");
        }
        if hogs > 0 {
            return Ok(());
        }
        let liars_ns: u64 = costs.iter().map(|cost_ns| EVENT_NS + cost_ns).sum();
        let wait_ns = (EVENT_NS + liars_ns + due_cost_ns(&honest)) * members / honest.len() as u64;
        for &t in &honest_tasks {
            let late_ns = c.threads[t].tardiness_max_ns;
            prop_assert!(late_ns <= wait_ns, "member {t} was {late_ns} late, may be {wait_ns}");
        }
    }

    /// A member that is due anew at every poll delays the honest ones' due events by its running event at most.
    #[test]
    fn an_eager_member_waits_its_turn(
        honest in prop::collection::vec(busy(), 1..10), costs in prop::collection::vec(cost(), 1..3),
        ahead_ns in prop_oneof![Just(0), 0..50 * US],
    ) {
        let mut c = cpu(1, ORDER_PROGRAM);
        let tasks = add(&mut c, &honest, Some(0));
        let wait_ns = EVENT_NS + costs.iter().sum::<u64>() + due_cost_ns(&honest);

        add(&mut c, &eager(&costs, ahead_ns), Some(0));
        run(&mut c, 2 * PATIENCE, |_| ());
        for &t in &tasks {
            let late_ns = c.threads[t].tardiness_max_ns;
            prop_assert!(late_ns <= wait_ns, "member {t} was {late_ns} late, may be {wait_ns}");
        }
    }

    /// It is always due too: it takes no more than its share from those that have best-effort events.
    #[test]
    fn an_eager_member_gets_its_share(
        honest in prop::collection::vec(busy(), 1..10), costs in prop::collection::vec(cost(), 1..3),
    ) {
        let mut c = cpu(1, ORDER_PROGRAM);
        let start_ns = c.h.now_ns;

        add(&mut c, &honest, Some(0));
        let tasks = add(&mut c, &eager(&costs, 0), Some(0));
        run(&mut c, 2 * PATIENCE, |_| ());
        let share_ns = (c.h.now_ns - start_ns) / (honest.len() + costs.len()) as u64;
        for (&t, cost_ns) in tasks.iter().zip(&costs) {
            let got_ns = c.h.tasks[t].ran_ns;
            prop_assert!(got_ns <= share_ns + EVENT_NS + cost_ns, "eager {t} got {got_ns} of {share_ns}");
        }
    }

    /// Without liars a due event waits for the running event and for the due events before it.
    #[test]
    fn due_events_wait_for_one_event(honest in prop::collection::vec(busy(), 1..12), order in 0u32..3) {
        let mut c = cpu(1, order);
        let tasks = add(&mut c, &honest, Some(0));
        let wait_ns = EVENT_NS + due_cost_ns(&honest);

        run(&mut c, 2 * PATIENCE, |_| ());
        for &t in &tasks {
            let late_ns = c.threads[t].tardiness_max_ns;
            prop_assert!(late_ns <= wait_ns, "member {t} was {late_ns} late, may be {wait_ns}");
        }
    }

    /// Beside hogs a domain whose due events stay below its share is on time: they borrow.
    #[test]
    fn due_events_borrow(honest in prop::collection::vec(sporadic(), 1..8), hogs in 1usize..4) {
        let mut c = cpu(1, ORDER_PROGRAM);
        let tasks = add(&mut c, &honest, Some(0));
        let wait_ns = due_cost_ns(&honest) + 2 * RUN_LEAST_NS;

        for _ in 0..hogs {
            c.add(Program::Hog, None, 0);
        }
        run(&mut c, 2 * PATIENCE, |_| ());
        for &t in &tasks {
            let late_ns = c.threads[t].tardiness_max_ns;
            prop_assert!(late_ns <= wait_ns, "member {t} was {late_ns} late, may be {wait_ns}");
        }
    }

    /// However domains borrow: none is ahead by more than the window, and a slice, an event and MEAN_MAX_NS for each of its members, and
    /// shares are exact but for that.
    #[test]
    fn domains_and_outsiders_have_their_shares(
        domains in prop::collection::vec(prop::collection::vec(pressing(), 1..6), 1..4), hogs in 0usize..3,
        order in 0u32..3,
    ) {
        let mut c = cpu(domains.len(), order);
        let mut nodes = Vec::new();

        for (d, members) in domains.iter().enumerate() {
            nodes.push((add(&mut c, members, Some(d)), WINDOW_NS + GRANULARITY_NS + members.len() as u64 * EVENT_NS));
        }
        for _ in 0..hogs {
            nodes.push((vec![c.add(Program::Hog, None, 0)], GRANULARITY_NS));
        }
        let start_ns = c.h.now_ns;
        run(&mut c, 2 * PATIENCE, |c| {
            for (d, members) in domains.iter().enumerate() {
                let ahead_ns = ahead_ns(c, d);
                // Members that were active when it borrowed may sleep by now.
                let each_ns = c.h.place.quantum_ns + EVENT_NS + u64::from(MEAN_MAX_NS);
                let may_be_ns = WINDOW_NS + members.len() as u64 * each_ns + 1;
                assert!(ahead_ns <= may_be_ns, "domain {d} is {ahead_ns} ahead, may be {may_be_ns}");
            }
        });
        let all_ns = (c.h.now_ns - start_ns) as f64;
        let weight: usize = nodes.iter().map(|n| n.0.len()).sum();
        let leads_ns: u64 = nodes.iter().map(|n| n.1).sum();
        for (tasks, lead_ns) in &nodes {
            let part = tasks.len() as f64 / weight as f64;
            let got_ns = ran_ns(&c, tasks) as f64;
            let rounding_ns = MS as f64 / 10.0;
            prop_assert!(got_ns <= part * all_ns + *lead_ns as f64 + rounding_ns, "{:?} got {}", tasks, got_ns);
            prop_assert!(got_ns >= part * (all_ns - leads_ns as f64) - rounding_ns, "{:?} got {}", tasks, got_ns);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// The least important member of all runs when its patience ends, and what was running or due before is over.
    #[test]
    fn nobody_starves(
        costs in prop::collection::vec((cost(), 0u32..5), 2..8), hogs in 0usize..3, lies in prop::option::of(cost()),
    ) {
        let mut c = cpu(1, ORDER_PROGRAM);
        let mut tasks = Vec::new();

        for &(best_cost_ns, priority) in &costs {
            let program = Program::Honest { period_ns: 50 * MS, due_cost_ns: 10 * US, best_cost_ns, priority };
            tasks.push(c.add(program, Some(0), 5 * MS));
        }
        // Due events end waiting: those who have none depend on patience alone.
        let (&(best_cost_ns, _), never_ns) = (&costs[0], 100_000 * PATIENCE);
        let last = Program::Honest { period_ns: MS, due_cost_ns: MS, best_cost_ns, priority: 9 };
        tasks.push(c.add(last, Some(0), never_ns));
        if let Some(cost_ns) = lies {
            c.add(Program::Liar { cost_ns }, Some(0), 0);
        }
        for _ in 0..hogs {
            c.add(Program::Hog, None, 0);
        }
        run(&mut c, 5 * PATIENCE / 2, |_| ());
        let members = tasks.len() as u64 + u64::from(lies.is_some());
        let round_ns = (members + 2) * EVENT_NS * 2 + WINDOW_NS;
        let wait_ns = PATIENCE + round_ns * (members + hogs as u64) / members * 2;
        for &t in &tasks {
            let waits_ns = if c.h.waits(t) { c.h.now_ns - c.h.tasks[t].waits_since_ns } else { 0 };
            let waited_ns = c.threads[t].waited_max_ns.max(waits_ns);
            prop_assert!(waited_ns <= wait_ns, "member {t} waited {waited_ns}, may wait {wait_ns}");
            prop_assert!(c.h.tasks[t].ran_ns > 0, "member {t} never ran");
        }
    }
}
