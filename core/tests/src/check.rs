// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What holds between two calls: of a heap, of the tree.

mod seating;

use crate::{host::Host, policy::*};
use std::ptr::null_mut;

fn rank(l: *const heap_link) -> u32 {
    if l.is_null() {
        0
    } else {
        unsafe { u32::from((*l).rank) }
    }
}

fn key_before(a: &heap_link, b: &heap_link) -> bool {
    unsafe { core_heap_turn_before(a.major, a.minor, a.turn, b.major, b.minor, b.turn) != 0 }
}

/// Checks a heap; returns the links that are queued.
pub fn links(h: &heap) -> Vec<*mut heap_link> {
    let found = links_in_shape(h);

    for &l in &found {
        let queued = unsafe { (*l).queued };
        assert_eq!(queued, 1, "a link in a heap is not marked as queued");
    }
    found
}

/// Checks order, ranks, parents and the bound on the right spine.
fn links_in_shape(h: &heap) -> Vec<*mut heap_link> {
    let mut found = Vec::new();
    let mut left_to_see = vec![(h.top, null_mut())];

    while let Some((at, parent)) = left_to_see.pop() {
        if at.is_null() {
            continue;
        }
        let l = unsafe { &*at };
        assert_eq!(l.parent, parent, "a link does not point to its parent");
        assert!(
            rank(l.left) >= rank(l.right),
            "the longer spine is on the right"
        );
        assert_eq!(u32::from(l.rank), rank(l.right) + 1, "a rank is wrong");
        assert!(
            parent.is_null() || !key_before(l, unsafe { &*parent }),
            "a link is above one before it"
        );
        found.push(at);
        left_to_see.push((l.left, at));
        left_to_see.push((l.right, at));
    }
    let bound = (found.len() as u64 + 1).ilog2();
    assert!(
        rank(h.top) <= bound,
        "{} links have a right spine of {}",
        found.len(),
        rank(h.top)
    );
    found
}

/// A member of a group, for messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Id {
    Top,
    Root,
    Group(usize),
    Domain(usize),
    Seat(usize),
    Task(usize),
}

/// All groups of a host, domains included.
pub fn groups(h: &Host) -> Vec<(Id, *mut group)> {
    let coop = h
        .domains
        .iter()
        .enumerate()
        .map(|(i, d)| (Id::Domain(i), unsafe { &raw mut (*d.at()).group }));

    accounts(h).into_iter().chain(coop).collect()
}

/// All groups that are accounts.
pub fn accounts(h: &Host) -> Vec<(Id, *mut group)> {
    let groups = h
        .groups
        .iter()
        .enumerate()
        .map(|(i, g)| (Id::Group(i), g.at()));

    [(Id::Top, h.top()), (Id::Root, h.root())]
        .into_iter()
        .chain(groups)
        .collect()
}

/// The seats that domains have.
pub fn seats(h: &Host) -> Vec<(Id, *mut seat)> {
    h.seats
        .iter()
        .enumerate()
        .filter(|(_, s)| !s.domain.is_null())
        .map(|(i, s)| (Id::Seat(i), s.at()))
        .collect()
}

/// The members of a group, sleeping ones included.
pub fn members(h: &Host, g: *mut group) -> Vec<(Id, *mut tree_node)> {
    let inner = groups(h)
        .into_iter()
        .map(|(id, g)| (id, unsafe { &raw mut (*g).node }));
    let seats = seats(h)
        .into_iter()
        .map(|(id, s)| (id, unsafe { &raw mut (*s).node }));
    let tasks = (0..h.tasks.len()).map(|t| (Id::Task(t), h.node(t)));

    inner
        .chain(seats)
        .chain(tasks)
        .filter(|(_, n)| unsafe { (**n).parent } == g)
        .collect()
}

/// Sums, activity and queues of every group, recomputed.
pub fn tree(h: &Host) {
    for (id, g) in groups(h) {
        let members = members(h, g);
        let group = unsafe { &*g };
        let node = |n: *mut tree_node| unsafe { &*n };
        let active = || members.iter().filter(|(_, n)| node(*n).active != 0);
        let mut waiting: Vec<_> = members
            .iter()
            .filter(|(_, n)| node(*n).ready.queued != 0)
            .collect();

        assert_eq!(
            group.nr_active as usize,
            active().count(),
            "{id:?}: active members"
        );
        assert_eq!(
            group.weight_active,
            active().map(|(_, n)| node(*n).weight).sum::<u64>(),
            "{id:?}: weights"
        );
        let has_periods = u32::from(group.node.kind) >= NODE_PERIOD;
        if has_periods {
            assert_eq!(
                group.weight_all,
                members.iter().map(|(_, n)| node(*n).weight).sum::<u64>(),
                "{id:?}: weights of all"
            );
        }
        let mut queued = links(&group.ready);
        let ahead = links(&group.ahead);
        assert!(
            ahead.is_empty() || !queued.is_empty(),
            "{id:?}: members wait, and none of them is ready"
        );
        queued.extend(ahead);
        queued.sort();
        waiting.sort_by_key(|(_, n)| *n);
        let wanted: Vec<_> = waiting
            .iter()
            .map(|(_, n)| unsafe { &raw mut (**n).ready })
            .collect();
        assert_eq!(queued, wanted, "{id:?}: who waits");
        if !group.node.parent.is_null() {
            assert_eq!(
                group.node.active != 0,
                group.nr_active > 0,
                "{id:?}: active with its members"
            );
            assert_eq!(
                group.node.ready.queued != 0,
                !queued.is_empty(),
                "{id:?}: waits with its members"
            );
        }
        for (member, n) in waiting {
            let n = node(*n);
            assert_eq!(n.active, 1, "{member:?} waits and is not active");
            if has_periods {
                let turn_ends = n.vtime.wrapping_add(n.turn_vtime);
                let deadline = unsafe { core_vtime_max(n.ends_vtime, turn_ends) };
                let key = [deadline, n.vtime][usize::from(n.is_ahead)];
                assert_eq!(
                    (n.ready.major, n.ready.minor),
                    (key, 0),
                    "{member:?}: its place in the queue"
                );
            }
            if u32::from(group.node.kind) == NODE_FAIR {
                assert_eq!(
                    (n.ready.major, n.ready.minor),
                    (n.vtime, u64::from(n.has_run)),
                    "{member:?}: its place in the queue"
                );
            }
        }
        let tasks = (0..h.tasks.len())
            .filter(|&t| h.is_active(t) && h.group_at(h.tasks[t].home) == g)
            .map(|t| unsafe { core_load_of_weight((*h.node(t)).weight) });
        let nested = (0..h.groups.len()).map(|id| h.group_at(Some(id)));
        let nested = nested.filter(|&child| unsafe { (*child).node.parent == g });
        let seats_of_all = seats(h);
        let own_seats = seats_of_all
            .iter()
            .filter(|(_, s)| unsafe { (**s).node.parent == g });
        let nested_seats = nested.clone().map(|child| unsafe { (*child).nr_seats });
        let nested = nested.map(|child| unsafe { (*child).load_above });
        // Nobody asks for that of the top, whose members come and go with theirs.
        if !matches!(id, Id::Domain(_) | Id::Top) {
            assert_eq!(group.load, tasks.chain(nested).sum::<u64>(), "{id:?}: load");
            let nr_seats = own_seats.count() as u32 + nested_seats.sum::<u32>();
            assert_eq!(group.nr_seats, nr_seats, "{id:?}: seats");
        }
    }
    classes(h);
    waiters(h);
    for t in 0..h.tasks.len() {
        let runs = h.running == Some(t);
        assert_eq!(
            h.is_active(t),
            runs || h.waits(t),
            "task {t} neither waits nor runs nor sleeps"
        );
        assert!(!(runs && h.waits(t)), "task {t} waits and runs");
    }
    let active = (0..h.tasks.len()).filter(|&t| h.is_active(t)).count();
    assert_eq!(h.place.nr_runnable as usize, active);
}

/// The list of waiters has exactly those that wait, the one first that waits longest.
fn waiters(h: &Host) {
    let (mut found, mut before) = (Vec::new(), null_mut());
    let mut at = h.place.waiters.first;

    while !at.is_null() {
        let w = unsafe { &*at };
        let t = (0..h.tasks.len())
            .find(|&t| unsafe { &raw mut (*h.member(t)).waiter } == at)
            .expect("a waiter is no task's");
        assert_eq!(
            w.before, before,
            "a waiter does not point to the one before"
        );
        assert!(
            before.is_null() || unsafe { (*before).since_ns } <= w.since_ns,
            "a waiter is after one that came later"
        );
        assert_eq!(
            w.since_ns, h.tasks[t].waits_since_ns,
            "task {t}: since when"
        );
        found.push(t);
        (before, at) = (at, w.next);
    }
    assert_eq!(h.place.waiters.last, before, "the last waiter");
    found.sort();
    let waiting: Vec<_> = (0..h.tasks.len()).filter(|&t| h.waits(t)).collect();
    assert_eq!(found, waiting, "who is among the waiters");
}

/// The level of the classes is there while one of them is active, and only then.
fn classes(h: &Host) {
    let (top, root) = unsafe { (&*h.top(), &*h.root()) };
    let active = members(h, h.top())
        .into_iter()
        .filter(|(id, n)| *id != Id::Root && unsafe { (**n).active } != 0)
        .count();

    assert_eq!(!root.node.parent.is_null(), active > 0, "the root's place");
    if active == 0 {
        assert_eq!((top.nr_active, top.weight_active), (0, 0));
        assert_eq!((root.node.active, root.node.ready.queued), (0, 0));
    }
}

/// When a waiting member is due: what it published, or when its patience ends.
pub fn due_ns(h: &Host, t: usize) -> u64 {
    h.tasks[t]
        .member
        .due_ns
        .min(h.tasks[t].waits_since_ns + PATIENCE)
}

/// The links of a fifo, from its first to its last, in the order of their keys.
fn in_turn(fifo: &fifo) -> Vec<*mut heap_link> {
    let found = linked(fifo);

    for pair in found.windows(2) {
        let (first, second) = unsafe { (&*pair[0], &*pair[1]) };
        assert!(
            !key_before(second, first),
            "a link is after one that comes later"
        );
    }
    found
}

/// The links of a fifo, from its first to its last.
fn linked(fifo: &fifo) -> Vec<*mut heap_link> {
    let mut found = Vec::new();
    let (mut at, mut before) = (fifo.first, null_mut());

    while !at.is_null() {
        let l = unsafe { &*at };
        assert_eq!(l.right, before, "a link does not point to the one before");
        assert_eq!(l.queued, 1, "a link in a fifo is not marked as queued");
        found.push(at);
        (before, at) = (at, l.left);
    }
    assert_eq!(fifo.last, before, "a fifo does not know its last link");
    found
}

fn holds(heap: &heap, link: *mut heap_link) -> bool {
    links(heap).contains(&link)
}

/// Which of its domain's queues a member is in, and with which key.
fn member(h: &Host, t: usize, d: &domain) {
    let m = &*h.tasks[t].member;
    let link = unsafe { &raw mut (*h.member(t)).due };
    let counts = unsafe { core_member_due_counts(m, d) != 0 };

    if m.asleep != 0 {
        assert!(!h.is_active(t), "member {t} is active and asleep");
        assert!(m.due.queued == 0 || holds(&d.asleep, link) && m.due.major == m.due_ns);
        let late = m.due_ns <= h.now_ns || m.due_ns == u64::MAX;
        assert!(
            late || m.due.queued != 0,
            "member {t} sleeps, and nobody knows until when"
        );
    } else if h.waits(t) {
        let waits = u32::from(m.due_wait);
        assert_eq!(
            waits != WAITS_INDEBTED,
            counts,
            "member {t}: in debt or not"
        );
        let (held, at) = match (counts, waits) {
            (true, WAITS_DUE) => (holds(&d.due, link), m.due.major),
            (true, _) => (in_turn(&d.patient).contains(&link), m.due.major),
            (false, _) => (holds(&d.indebted, link), m.due.minor),
        };
        assert!(
            held,
            "waiting member {t} is not in the queue where it belongs"
        );
        assert_eq!(at, due_ns(h, t), "member {t}: its due time");
        let (mut major, mut minor) = (0, 0);
        unsafe { core_member_best_key(m, d, &mut major, &mut minor) };
        let kept = (m.node.ready.major, m.node.ready.minor);
        // The domain's least goes on while it waits: it is none the worse for that.
        let by_progress = u32::from(d.order) == ORDER_PROGRESS;
        let may_lag = by_progress && m.due_ns == u64::MAX && kept.1 == minor;
        assert!(
            kept == (major, minor) || may_lag && kept.0 < major,
            "member {t}: its best-effort key {kept:?} is not {:?}",
            (major, minor)
        );
        let turn = unsafe { core_member_turn(m) };
        assert_eq!(m.node.ready.turn, turn, "member {t}: its turn");
    } else {
        assert_eq!(
            m.due.queued, 0,
            "member {t} neither waits nor sleeps, and is in a queue"
        );
    }
}

/// Nobody counts who does not sleep in due debt.
fn repaying(h: &Host, d: &domain, members: &[usize]) {
    let links = links_in_shape(&d.repaying);
    let mut weight = 0;

    for &t in members {
        let m = &*h.tasks[t].member;
        let link = unsafe { &raw mut (*h.member(t)).node.ready };
        let owes = !h.is_active(t) && (m.debt_vtime.wrapping_sub(d.group.node.vtime) as i64) > 0;
        let repays = m.repaying != 0;

        assert!(owes || !repays, "member {t} repays, and owes nothing");
        assert_eq!(links.contains(&link), repays, "member {t}: repays");
        weight += if repays { m.node.weight } else { 0 };
    }
    assert_eq!(d.repaying_weight, weight, "what sleeps in due debt");
}

/// Every queue of every domain, its seats, and its place among those that may borrow or have borrowed enough.
pub fn domains(h: &Host) {
    for (i, at) in h.domains.iter().enumerate() {
        let d = &**at;
        let members: Vec<_> = (0..h.tasks.len())
            .filter(|&t| h.tasks[t].domain == Some(i))
            .collect();

        members.iter().for_each(|&t| member(h, t, d));
        repaying(h, d, &members);
        let queued = [&d.due, &d.indebted, &d.asleep]
            .iter()
            .map(|q| links(q).len())
            .sum::<usize>()
            + in_turn(&d.patient).len();
        let wanted = members
            .iter()
            .filter(|&&t| h.tasks[t].member.due.queued != 0)
            .count();
        assert_eq!(queued, wanted, "domain {i} queues others than its members");
        seating::seats_of(h, i, &members);
        upcoming(h, i);
    }
    let blocked: usize = accounts(h)
        .iter()
        .map(|(_, g)| links(unsafe { &(**g).blocked }).len())
        .sum();
    let expected = links(&h.place.due).len();
    let upcoming = h.domains.iter().filter(|d| d.upcoming.queued != 0).count();
    assert_eq!(h.place.nr_blocked as usize, blocked, "blocked domains");
    assert_eq!(
        blocked + expected,
        upcoming,
        "who is in the domains' queues"
    );
}

/// In which queue a domain waits for its next due time, and with which key.
fn upcoming(h: &Host, domain: usize) {
    let d = &*h.domains[domain];
    let due_ns = unsafe { core_domain_next_due_ns(d) };
    let link = unsafe { &raw mut (*h.domains[domain].at()).upcoming };

    assert_eq!(
        d.upcoming.queued != 0,
        due_ns != u64::MAX && !d.seats.is_null(),
        "domain {domain}: upcoming or not"
    );
    if d.upcoming.queued == 0 {
        assert!(d.blocked_in.is_null());
    } else if d.blocked_in.is_null() {
        assert!(holds(&h.place.due, link));
        assert_eq!(d.upcoming.major, due_ns, "domain {domain}: next due time");
    } else {
        assert!(holds(unsafe { &(*d.blocked_in).blocked }, link));
    }
}
