// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What holds between two calls of a domain's seats, and of its members that sit there.

use super::links;
use crate::{host::Host, policy::*};

/// One seat in each account that a domain has members in; who counts there, and whether it takes part.
pub fn seats_of(h: &Host, domain: usize, members: &[usize]) {
    let d = &*h.domains[domain];
    let mut seats = Vec::new();
    let mut at = d.seats;

    while !at.is_null() {
        seats.push(at);
        at = unsafe { (*at).next };
    }
    let own = super::seats(h).into_iter().map(|(_, s)| s);
    let mut own: Vec<_> = own
        .filter(|s| unsafe { (**s).domain } == h.domains[domain].at())
        .collect();
    let mut listed = seats.clone();
    listed.sort();
    own.sort();
    assert_eq!(listed, own, "domain {domain}: its list of seats");
    assert!(seats.len() <= SEATS_MAX as usize);
    for &t in members {
        let account = unsafe { (*h.tasks[t].member.seat).node.parent };
        assert!(
            seats.contains(&h.tasks[t].member.seat),
            "member {t}: its seat is not its domain's"
        );
        assert_eq!(account, h.group_at(h.tasks[t].home), "member {t}: its seat");
    }
    for at in seats {
        let s = unsafe { &*at };
        let here: Vec<_> = members
            .iter()
            .copied()
            .filter(|&t| h.tasks[t].member.seat == at)
            .collect();
        let member = |t: usize| &*h.tasks[t].member;
        let owes = |t: usize| member(t).owing.queued != 0;
        let counted: u64 = here
            .iter()
            .filter(|&&t| h.is_active(t))
            .map(|&t| member(t).node.weight)
            .sum();
        let mut owing: Vec<_> = here
            .iter()
            .filter(|&&t| owes(t))
            .map(|&t| unsafe { &raw mut (*h.member(t)).owing })
            .collect();
        let (mut queued, mut spares) = (links(&s.owing.queue), 0);
        let mut spare = s.spares;

        while !spare.is_null() {
            spares += 1;
            spare = unsafe { (*spare).next };
        }
        queued.sort();
        owing.sort();
        assert_eq!(queued, owing, "domain {domain}: who owes");
        assert!(!here.iter().any(|&t| owes(t) && h.is_active(t)));
        owing_sums(s, &here.iter().map(|&t| member(t)).collect::<Vec<_>>());
        assert_eq!(
            s.node.nr_seated as usize,
            here.iter().filter(|&&t| h.is_active(t)).count()
        );
        assert_eq!(s.nr_members as usize, here.len());
        assert_eq!(spares + 1, here.len(), "a seat for each member");
        assert_eq!(s.counted, counted, "domain {domain}: weights that count");
        assert!(counted == 0 || s.node.weight == counted);
        assert_ne!(s.node.weight, 0);
        assert_eq!(
            s.node.active != 0,
            counted > 0,
            "domain {domain}: a seat takes part"
        );
        let waiting = here.iter().filter(|&&t| h.waits(t)).count();
        assert_eq!(waiters_of(s), waiting, "domain {domain}: who waits");
        assert_eq!(
            s.node.ready.queued != 0,
            waiting > 0,
            "domain {domain}: a seat waits"
        );
    }
}

/// How many members are in the list of those that wait in a seat, which is linked both ways.
fn waiters_of(s: &seat) -> usize {
    let (mut nr, mut last) = (0, std::ptr::null_mut());
    let mut m = s.first;

    while !m.is_null() {
        let member = unsafe { &*m };
        assert_eq!(member.before_own, last, "linked back");
        assert!(std::ptr::eq(member.seat, s), "a waiter of another seat");
        (nr, last, m) = (nr + 1, m, member.next_own);
    }
    assert_eq!(s.last, last, "the last one");
    nr
}

/// Members that sleep ahead of the account's minimum are in the queue, whose sums are theirs.
fn owing_sums(s: &seat, members: &[&member]) {
    let account = unsafe { &*s.node.parent };
    let vmin = account.vmin.wrapping_add(account.spare_vtime);
    let (mut weight, mut sum) = (0, 0u64);

    for m in members {
        let ahead = m.node.active == 0 && unsafe { core_vtime_before(vmin, m.own_vtime) != 0 };
        assert!(
            !ahead || m.owing.queued != 0,
            "asleep and ahead, and not queued"
        );
        if m.owing.queued != 0 {
            assert_eq!(m.owing.major, m.own_vtime);
            weight += m.node.weight >> OWING_SHIFT;
            sum = sum.wrapping_add((m.node.weight >> OWING_SHIFT).wrapping_mul(m.own_vtime));
        }
    }
    assert_eq!(
        (s.owing.weight, s.owing.sum),
        (weight, sum),
        "what sleepers owe"
    );
}
