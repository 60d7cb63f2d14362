// SPDX-License-Identifier: GPL-2.0 OR MIT
//! borrow.h: however domains borrow, in however many accounts, nobody is ahead by more than its bound, and shares hold.

use crate::{
    accounts::DomainArgs,
    check,
    cpu::{Cpu, Program},
    host::{Host, Slices},
    policy::*,
};
use proptest::prelude::*;

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const WINDOW_NS: u64 = 4 * MS;
const EVENT_NS: u64 = MS;
const GRANULARITY_NS: u64 = 4 * MS;
const ONE: u64 = WEIGHT_ONE as u64;
const ACCOUNTS: usize = 4;

/// A member that has more due events than its share allows: its account, how often, how long.
type Pressing = (usize, u64, u64);

fn pressing() -> impl Strategy<Value = Pressing> {
    (0..ACCOUNTS, MS..8 * MS, 50 * US..=EVENT_NS)
}

#[derive(Clone, Debug)]
struct Mix {
    weights: Vec<u64>,
    domains: Vec<Vec<Pressing>>,
    hogs: Vec<usize>,
}

fn mix() -> impl Strategy<Value = Mix> {
    let weights = prop::collection::vec(ONE / 2..4 * ONE, ACCOUNTS - 1);
    let domains = prop::collection::vec(prop::collection::vec(pressing(), 1..5), 1..4);
    let hogs = prop::collection::vec(0..ACCOUNTS, 0..4);

    (weights, domains, hogs).prop_map(|(weights, domains, hogs)| Mix {
        weights,
        domains,
        hogs,
    })
}

/// The root, a group of it, one in that, and another one of the root's.
fn build(mix: &Mix) -> Cpu {
    let mut h = Host::new(u64::MAX - (1 << 40), 1000 * PATIENCE, WINDOW_NS);
    let outer = h.add_group(None, mix.weights[0]);
    let inner = h.add_group(Some(outer), mix.weights[1]);
    let other = h.add_group(None, mix.weights[2]);
    let homes = [None, Some(outer), Some(inner), Some(other)];

    h.slices = Some(Slices {
        granularity_ns: GRANULARITY_NS,
        min_slice_ns: MS / 2,
    });
    for _ in &mix.domains {
        h.add_domain(DomainArgs {
            order: ORDER_PROGRAM,
            grace_ns: EVENT_NS,
        });
    }
    let mut c = Cpu::new(h);
    for (d, members) in mix.domains.iter().enumerate() {
        for &(account, period_ns, cost_ns) in members {
            let audio = Program::Audio { period_ns, cost_ns };
            c.add_to(homes[account], audio, Some(d), period_ns / 2);
        }
    }
    for &account in &mix.hogs {
        c.add_to(homes[account], Program::Hog, None, 0);
    }
    c
}

/// By how much of its own running time a node is ahead of its group's minimum.
fn ahead_ns(n: *mut tree_node) -> u64 {
    unsafe {
        let ahead = (*n).vtime.wrapping_sub((*(*n).parent).vmin) as i64;
        let ahead = u128::from(ahead.max(0) as u64) * u128::from((*n).weight);
        (ahead >> (WEIGHT_SHIFT + VTIME_SHIFT)) as u64
    }
}

/// Nobody active is ahead by more than the window, slices of all members of a domain, and an event: a seat by one more for
/// each of its members whose turn it was. The slices of those who are runnable add up to the granularity.
fn check_leads(c: &Cpu) {
    for (id, g) in check::accounts(&c.h) {
        for (member, n) in check::members(&c.h, g) {
            if unsafe { (*n).active } == 0 {
                continue;
            }
            let ahead_ns = ahead_ns(n);
            let events = match u32::from(unsafe { (*n).kind }) {
                NODE_SEAT => 1 + unsafe { (*core_seat_of_node(n)).nr_members },
                _ => 1,
            };
            let bound_ns = WINDOW_NS + GRANULARITY_NS + u64::from(events) * EVENT_NS;
            assert!(
                ahead_ns <= bound_ns,
                "{member:?} is {ahead_ns} ns ahead in {id:?}, may be {bound_ns}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nobody_is_far_ahead(mix in mix()) {
        let mut c = build(&mix);
        let until_ns = c.h.now_ns + 500 * MS;

        while c.h.now_ns < until_ns {
            c.step();
            check_leads(&c);
        }
    }
}

/// Many domains of one account that are due at once do not put the account ahead by an event of each.
#[test]
fn domains_of_one_account_borrow_within_its_bound() {
    let one = [(1, 40 * MS, EVENT_NS)];
    let mut c = build(&Mix {
        weights: vec![ONE; 3],
        domains: vec![one.to_vec(); 12],
        hogs: vec![0],
    });
    let until_ns = c.h.now_ns + 200 * MS;

    while c.h.now_ns < until_ns {
        c.step();
        check_leads(&c);
    }
}

/// A plain program that sleeps now and then, beside a member that is always due, in an account that has a tenth of the CPU:
/// it has what it is owed when it is back before the member borrows again, and what was borrowed is little of what the
/// account has.
#[test]
fn a_plain_sleeper_has_its_part_of_a_light_account_in_which_a_domain_borrows() {
    let mut c = build(&Mix {
        weights: vec![ONE, ONE, ONE],
        domains: vec![vec![(1, MS, EVENT_NS)]],
        hogs: vec![0; 9],
    });
    let editor = Program::Editor {
        works_ns: 2 * MS,
        sleeps_ns: 8 * MS,
    };
    let plain = c.add_to(Some(0), editor, None, 0);
    let until_ns = c.h.now_ns + 4000 * MS;

    while c.h.now_ns < until_ns {
        c.step();
    }
    // Half of a tenth, less what it could not use while it slept: it is owed one lag of 4 ms for each nap, of which the
    // account has as much in 80 ms.
    let (ran_ns, least_ns) = (c.h.tasks[plain].ran_ns, 90 * MS);
    assert!(
        ran_ns >= least_ns,
        "has had {ran_ns} ns, {least_ns} at least were its own"
    );
}
