// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user-level host in the simulator: whichever member is killed or stopped wherever, no rule is broken; planted mistakes break one.

use consort_sim::userlevel::{explore, run, Fault, Host, Order, Plan, Planned, MS};
use consort_userlevel::Mistake;

fn plan(seed: u64, faults: Vec<(usize, Fault)>) -> Plan {
    let planned = faults
        .into_iter()
        .map(|(member, fault)| Planned { member, fault });
    Plan {
        host: Host::User,
        seed,
        members: 3 + (seed % 4) as usize,
        cpus: 1 + (seed / 4 % 2) as u32,
        polls: 60,
        order: [Order::Program, Order::Progress, Order::Service][(seed / 8 % 3) as usize],
        period_ns: if seed % 3 == 2 { 5000 * MS } else { 30 * MS },
        faults: planned.collect(),
        bound_to: Vec::new(),
        mistake: None,
    }
}

fn hold(plans: impl Iterator<Item = Plan>) {
    for plan in plans {
        let broken = run(&plan).broken;
        assert!(broken.is_empty(), "{plan:?}: {broken:?}");
    }
}

fn is_found(mistake: Mistake, plans: impl Iterator<Item = Plan>) -> bool {
    plans.into_iter().any(|plan| {
        let plan = Plan {
            mistake: Some(mistake),
            ..plan
        };
        !run(&plan).broken.is_empty()
    })
}

fn killed(seeds: std::ops::Range<u64>) -> impl Iterator<Item = Plan> {
    seeds.map(|seed| plan(seed, vec![(1, Fault::Kill(200 + seed * 37 % 2500))]))
}

fn killed_at_work(seeds: std::ops::Range<u64>) -> impl Iterator<Item = Plan> {
    seeds.map(|seed| plan(seed, vec![(1, Fault::KillAtWork(2 + seed % 50))]))
}

fn stopped(seeds: std::ops::Range<u64>) -> impl Iterator<Item = Plan> {
    seeds.map(|seed| {
        plan(
            seed,
            vec![(1, Fault::Stop(200 + seed * 41 % 2500, 300 * MS))],
        )
    })
}

/// Every step of one stretch of a run, in which turns are handed over.
fn killed_at_each_step(seed: u64, steps: std::ops::Range<u64>) -> impl Iterator<Item = Plan> {
    steps.map(move |step| plan(seed, vec![(1, Fault::Kill(step))]))
}

fn undisturbed(seeds: std::ops::Range<u64>) -> impl Iterator<Item = Plan> {
    seeds.map(|seed| plan(seed, Vec::new()))
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let plan = plan(3, vec![(1, Fault::Stop(500, 50 * MS))]);
    assert_eq!(run(&plan), run(&plan));
}

#[test]
fn members_take_turns_and_are_on_time() {
    hold(undisturbed(0..24));
}

#[test]
fn members_bound_to_cpus_take_turns_there_and_none_idles() {
    let bound = |seed: u64| (0..6).map(move |i| [None, Some(0), Some(1)][(seed >> i) as usize % 3]);
    hold(undisturbed(0..48).map(|plan| Plan {
        members: 6,
        cpus: 2,
        bound_to: bound(plan.seed).collect(),
        ..plan
    }));
}

#[test]
fn one_that_sleeps_is_on_time_from_the_first_poll_on() {
    hold(undisturbed(0..6).map(|plan| Plan {
        members: 1,
        period_ns: 30 * MS,
        ..plan
    }));
}

#[test]
fn a_member_that_is_killed_anywhere_holds_nobody_up() {
    hold(killed(0..48));
    hold(killed_at_work(0..48));
}

#[test]
fn a_member_that_is_stopped_anywhere_holds_nobody_up() {
    hold(stopped(0..48));
}

#[test]
#[ignore = "minutes: thousands of runs"]
fn thousands_of_members_are_killed_and_stopped() {
    for seed in 0..12 {
        hold(killed_at_each_step(seed, 150..700));
    }
    hold(killed(48..2000));
    hold(stopped(48..2000));
    hold(undisturbed(24..400));
}

#[test]
fn planted_mistakes_are_found() {
    let disturbed = || killed_at_work(0..60).chain(killed(0..200));
    for (mistake, found) in [
        (
            Mistake::NobodyIsSkipped,
            is_found(Mistake::NobodyIsSkipped, disturbed()),
        ),
        (
            Mistake::NobodyWatches,
            is_found(Mistake::NobodyWatches, disturbed()),
        ),
        (
            Mistake::LockDiesWithOwner,
            is_found(Mistake::LockDiesWithOwner, disturbed()),
        ),
        (
            Mistake::NobodyIsWoken,
            is_found(Mistake::NobodyIsWoken, undisturbed(0..20)),
        ),
    ] {
        assert!(found, "{mistake:?} breaks no rule");
    }
}

#[test]
fn random_plans_break_no_rule() {
    let (done, found) = explore(0, 120, None, &mut |_| {});
    assert_eq!(done, 120);
    assert!(found.is_none(), "{found:?}");
}

#[test]
fn a_plan_is_a_scenario_and_wrong_ones_are_refused() {
    let plan = Plan::draw(4);
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    assert!(plan.check().is_ok());
    let text = r#"{"host": "user", "seed": 1, "members": 0, "period_ns": 30000000}"#;
    let none: Plan = serde_json::from_str(text).unwrap();
    assert_eq!(none.check().unwrap_err(), "members is 0; expected 1 to 64");
    let bound = Plan {
        cpus: 2,
        bound_to: vec![None, Some(2)],
        ..plan
    };
    assert_eq!(bound.check().unwrap_err(), "bound_to is 2; expected 0 to 1");
}
