// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Who is to be chosen: the rules of place.h, borrow.h, live.h and decide/ over plain lists, without their queues.

use crate::{check, host::Host, policy::*};
use std::ptr::null_mut;

mod borrowing;

pub use borrowing::floor;
use borrowing::{may_borrow, may_borrow_at, seats_for, Minimums};

/// A task that may be chosen, and the seat that pays then.
type Pick = (usize, *mut tree_node);

fn before(a: u64, b: u64) -> bool {
    unsafe { core_vtime_before(a, b) != 0 }
}

fn later(a: u64, b: u64) -> u64 {
    unsafe { core_vtime_max(a, b) }
}

fn of_ns(ns: u64, weight: u64) -> u64 {
    unsafe { core_vtime_of_ns(ns, weight) }
}

fn to_ns(vtime: u64, weight: u64) -> u64 {
    unsafe { core_vtime_to_ns(vtime, weight) }
}

fn weight(n: *mut tree_node) -> u64 {
    unsafe { core_node_weight(n) }
}

fn kind(n: *mut tree_node) -> u32 {
    unsafe { u32::from((*n).kind) }
}

/// The groups above a node, with the member of each that is the node or above it.
pub fn path(n: *mut tree_node) -> Vec<(*mut group, *mut tree_node)> {
    let (mut found, mut n) = (Vec::new(), n);

    loop {
        let g = unsafe { (*n).parent };
        if g.is_null() {
            return found;
        }
        found.push((g, n));
        n = unsafe { &raw mut (*g).node };
    }
}

/// A task that could run, and from when it is due.
struct Contender {
    task: usize,
    domain: usize,
    due_ns: u64,
    may_borrow: bool,
}

/// A domain that was too far ahead at the level of the classes: that is not there any more, or has caught up.
fn let_go_by_classes(h: &Host, d: &domain) -> bool {
    let place = &*h.place;

    d.blocked_in == h.top()
        && (place.root.node.parent.is_null() || !before(floor(h, h.top()), d.upcoming.major))
}

/// Members that wait, or run and may go on, whose due event is expired and counts.
fn expired(h: &Host) -> Vec<Contender> {
    let contender = |task: usize| {
        let domain = h.tasks[task].domain?;
        let d = &*h.domains[domain];
        let runs = h.running == Some(task);
        let due_ns = match runs {
            true => h.tasks[task].member.due_ns,
            false => check::due_ns(h, task),
        };
        // One that waits is asked for where its domain was found to be when its times changed last.
        let may_borrow = match runs {
            true => may_borrow(h, domain, task),
            false => {
                d.blocked_in.is_null() || let_go_by_classes(h, d) && may_borrow(h, domain, task)
            }
        };
        let counts = unsafe { core_member_due_counts(h.member(task), d) != 0 };

        (h.is_active(task) && counts && due_ns <= h.now_ns).then_some(Contender {
            task,
            domain,
            due_ns,
            may_borrow,
        })
    };

    (0..h.tasks.len()).filter_map(contender).collect()
}

/// The earliest of them; the running one wins ties.
fn earliest<'a>(h: &Host, among: impl Iterator<Item = &'a Contender>) -> Option<(u64, Vec<usize>)> {
    let among: Vec<_> = among.collect();
    let due_ns = among.iter().map(|c| c.due_ns).min()?;
    let first: Vec<_> = among
        .iter()
        .filter(|c| c.due_ns == due_ns)
        .map(|c| c.task)
        .collect();

    match h.running.filter(|r| first.contains(r)) {
        Some(running) => Some((due_ns, vec![running])),
        None => Some((due_ns, first)),
    }
}

/// Those whose best-effort event is the most important of a domain, and whose turn it is among equal ones; the running one
/// wins ties of both.
fn best(h: &Host, domain: usize) -> Vec<usize> {
    let d = h.domains[domain].at();
    let mut keys: Vec<_> = (0..h.tasks.len())
        .filter(|&t| h.tasks[t].domain == Some(domain) && (h.waits(t) || h.running == Some(t)))
        .map(|t| {
            let (mut major, mut minor) = (0, 0);
            unsafe { core_member_best_key(h.member(t), d, &mut major, &mut minor) };
            (t, major, minor, unsafe { core_member_turn(h.member(t)) })
        })
        .collect();
    let before = |a: &(usize, u64, u64, u32), b: &(usize, u64, u64, u32)| unsafe {
        core_heap_turn_before(a.1, a.2, a.3, b.1, b.2, b.3) != 0
    };
    let all = keys.clone();

    keys.retain(|k| !all.iter().any(|other| before(other, k)));
    let first: Vec<_> = keys.iter().map(|k| k.0).collect();
    match h.running.filter(|r| first.contains(r)) {
        Some(running) => vec![running],
        None => first,
    }
}

/// A choice by the accounts.
struct Accounts<'a> {
    h: &'a Host,
    expired: &'a [Contender],
    /// Nodes that compete although they may not wait: the running task's.
    runs: Vec<*mut tree_node>,
    found: Vec<Pick>,
}

impl Accounts<'_> {
    /// The members of a group that compete, but `but`.
    fn compete(&self, g: *mut group, but: *mut tree_node) -> Vec<*mut tree_node> {
        check::members(self.h, g)
            .into_iter()
            .map(|(_, n)| n)
            .filter(|&n| n != but)
            .filter(|&n| unsafe { (*n).ready.queued != 0 } || self.runs.contains(&n))
            .collect()
    }

    /// Those of them that no other one is before, by the group's kind.
    fn first(&self, g: *mut group, but: *mut tree_node) -> Vec<*mut tree_node> {
        let group_kind = unsafe { kind(&raw mut (*g).node) };
        let is_ahead = |n: *mut tree_node| unsafe {
            group_kind == NODE_PERIOD && before((*g).vmin, (*n).vtime)
        };
        let deadline = |n: *mut tree_node| unsafe {
            later((*n).ends_vtime, (*n).vtime.wrapping_add((*n).turn_vtime))
        };
        let goes_before = |a: *mut tree_node, b: *mut tree_node| unsafe {
            match (is_ahead(a), is_ahead(b)) {
                _ if group_kind == NODE_FAIR => before((*a).vtime, (*b).vtime),
                (false, false) => before(deadline(a), deadline(b)),
                (true, true) => before((*a).vtime, (*b).vtime),
                (a_is_ahead, _) => !a_is_ahead,
            }
        };
        let among = self.compete(g, but);

        among
            .iter()
            .copied()
            .filter(|&n| !among.iter().any(|&other| goes_before(other, n)))
            .collect()
    }

    /// From a group down, each of several equal members being possible. `above`: what has been passed.
    fn descend(&mut self, g: *mut group, above: &[(*mut group, *mut tree_node)], makes_room: bool) {
        for n in self.first(g, null_mut()) {
            let mut passed = above.to_vec();
            passed.push((g, n));
            match kind(n) {
                NODE_TASK => {
                    let t = self.h.task_of(n).expect("a leaf is no task");
                    self.found.push((t, n));
                }
                NODE_SEAT => self.sit(n, &passed, makes_room),
                _ => self.descend(n.cast(), &passed, makes_room),
            }
        }
    }

    /// A choice has come to a seat.
    fn sit(
        &mut self,
        n: *mut tree_node,
        passed: &[(*mut group, *mut tree_node)],
        makes_room: bool,
    ) {
        let others = match makes_room {
            true => self.go_first(n, passed),
            false => Vec::new(),
        };
        let mut stays = others.is_empty();

        for other in others {
            match other.map(|n| (n, kind(n))) {
                None => stays = true,
                Some((n, NODE_TASK)) => {
                    let t = self.h.task_of(n).expect("a leaf is no task");
                    self.found.push((t, n));
                }
                Some((n, _)) => self.descend(n.cast(), &[], false),
            }
        }
        if stays {
            let domain = domain_of_seat(self.h, n);
            let own = earliest(self.h, self.expired.iter().filter(|c| c.domain == domain));
            let members = own.map_or_else(|| best(self.h, domain), |own| own.1);
            let seated = members.into_iter().flat_map(|t| self.sits(n, t));
            self.found
                .extend(seated.map(|t| (t, n)).collect::<Vec<_>>());
        }
    }

    /// Who fills a seat, where the domain would have `t` do so: one of its own members, where it has given enough.
    fn sits(&self, n: *mut tree_node, t: usize) -> Vec<usize> {
        let h = self.h;
        let own = |t: &usize| h.tasks[*t].domain.is_some() && h.own_seat(*t) == n;
        let since_ns = |t: usize| h.tasks[t].waits_since_ns;

        if own(&t) || !keeps(n) {
            return vec![t];
        }
        let waiting = (0..h.tasks.len()).filter(|&t| own(&t) && h.waits(t));
        match waiting.clone().map(since_ns).min() {
            Some(first_ns) => waiting.filter(|&t| since_ns(t) == first_ns).collect(),
            None => vec![h.running.filter(own).unwrap_or(t)],
        }
    }

    /// Who may go first where a domain of one is due in a moment; a None: it may be that nobody does.
    fn go_first(
        &self,
        seat: *mut tree_node,
        passed: &[(*mut group, *mut tree_node)],
    ) -> Vec<Option<*mut tree_node>> {
        let (h, domain) = (self.h, domain_of_seat(self.h, seat));
        let d = &*h.domains[domain];
        let (due_ns, due) = next_due(h, domain);
        let soon = due_ns > h.now_ns && due_ns - h.now_ns <= d.grace_ns;
        let moved = passed
            .iter()
            .filter(|&&(g, _)| unsafe { kind(&raw mut (*g).node) } != NODE_RC)
            .map(|&(g, n)| (g, unsafe { later((*g).vmin, (*n).vtime) }))
            .collect();
        let moved = Minimums(moved);
        // Of several that are due at one time it is asked for any.
        let may = |&t: &usize| may_borrow_at(h, domain, t, &moved);

        if d.group.nr_active != 1 || !soon || !due.iter().any(may) {
            return Vec::new();
        }
        let overslept = |t: &usize| {
            let m = &h.tasks[*t].member;
            h.tasks[*t].domain == Some(domain) && m.asleep != 0 && m.due_ns <= h.now_ns
        };
        // Behind one that should be awake no other sleeper is seen.
        let is_unsure = due.iter().any(|t| !may(t)) || (0..h.tasks.len()).any(|t| overslept(&t));
        let none = is_unsure.then_some(None);
        for (g, n) in path(seat) {
            if g == h.top() || unsafe { kind(&raw mut (*g).node) } != NODE_FAIR {
                return Vec::new();
            }
            let others = self.first(g, n);
            if others.is_empty() {
                continue;
            }
            let goes = |other: *mut tree_node| {
                let weight = weight(other).max(WEIGHT_ONE.into());
                // One that runs forgets, when it is passed, what it could not use.
                let vtime = unsafe {
                    match (*n).ready.queued {
                        0 => later((*n).vtime, (*g).vmin.wrapping_sub(core_fair_lag_max(g, n))),
                        _ => (*n).vtime,
                    }
                };
                let latest = vtime.wrapping_add(of_ns(h.place.quantum_ns, weight));
                kind(other) != NODE_SEAT && unsafe { !before(latest, (*other).vtime) }
            };
            return others
                .into_iter()
                .map(|other| goes(other).then_some(other))
                .chain(none)
                .collect();
        }
        Vec::new()
    }
}

/// Whether a seat has given so much to members of other accounts that its own come first.
pub fn keeps(n: *mut tree_node) -> bool {
    unsafe { (*core_seat_of_node(n)).given_ns >= i64::from(SEAT_GIVES_NS) }
}

fn domain_of_seat(h: &Host, n: *mut tree_node) -> usize {
    let d = unsafe { (*core_seat_of_node(n)).domain };

    (0..h.domains.len())
        .find(|&i| h.domains[i].at() == d)
        .expect("a seat of no domain waits")
}

/// When a domain's next member is due, waiting, running or asleep, and which ones are then; NEVER if none is.
fn next_due(h: &Host, domain: usize) -> (u64, Vec<usize>) {
    let d = &*h.domains[domain];
    let due_ns = |t: usize| {
        let m = &h.tasks[t].member;
        let counts = unsafe { core_member_due_counts(&**m, d) != 0 };
        match (h.waits(t) && counts, h.running == Some(t)) {
            (true, _) => Some(check::due_ns(h, t)),
            (_, true) => Some(m.due_ns),
            // Who should be awake is not waited for.
            _ => (m.asleep != 0 && m.due_ns > h.now_ns).then_some(m.due_ns),
        }
    };
    let all: Vec<_> = (0..h.tasks.len())
        .filter(|&t| h.tasks[t].domain == Some(domain))
        .filter_map(|t| Some((t, due_ns(t)?)))
        .collect();
    let first_ns = all.iter().map(|it| it.1).min().unwrap_or(u64::MAX);
    let first = all.iter().filter(|it| it.1 == first_ns);

    (first_ns, first.map(|it| it.0).collect())
}

/// The nodes with which the running task competes: a member's seat, else what it has run in, and those above.
fn runs(h: &Host) -> Vec<*mut tree_node> {
    let Some(t) = h.running else {
        return Vec::new();
    };
    // Where nobody counts any more, nobody competes.
    let picked = Some(h.pays(t)).filter(|&n| unsafe { (*n).active != 0 });
    let seat = match h.tasks[t].domain {
        Some(_) => h.own_seat(t),
        None => picked.unwrap_or(h.own_seat(t)),
    };

    path(seat).into_iter().map(|(_, n)| n).collect()
}

/// The task that has waited longest, if that is too long, and another one was not served just now.
fn overdue(h: &Host) -> Option<usize> {
    let since_ns = |t: &usize| h.tasks[*t].waits_since_ns;
    let t = (0..h.tasks.len())
        .filter(|&t| h.waits(t))
        .min_by_key(since_ns)?;
    let is_overdue = h.now_ns - since_ns(&t) >= u64::from(LIVE_WAIT_NS)
        && h.now_ns >= h.place.waiters.again_at_ns;

    is_overdue.then_some(t)
}

/// Checks a choice that has been made for the state as it is, everybody charged and nobody moved yet.
pub struct Oracle {
    /// Whose wait is over; of several that began to wait at one time, it may be any.
    overdue_since_ns: Option<u64>,
    may_run: Vec<Pick>,
    due_ns: u64,
}

pub fn ask(h: &Host) -> Oracle {
    let expired = expired(h);

    if let Some(t) = overdue(h) {
        return Oracle {
            overdue_since_ns: Some(h.tasks[t].waits_since_ns),
            may_run: Vec::new(),
            due_ns: u64::MAX,
        };
    }
    if let Some((due_ns, tasks)) = earliest(h, expired.iter().filter(|c| c.may_borrow)) {
        let pays = |t: usize| seats_for(h, t).into_iter();
        return Oracle {
            overdue_since_ns: None,
            may_run: tasks
                .iter()
                .flat_map(|&t| pays(t).map(move |n| (t, n)))
                .collect(),
            due_ns,
        };
    }
    let mut by_accounts = Accounts {
        h,
        expired: &expired,
        runs: runs(h),
        found: Vec::new(),
    };
    let has_classes = unsafe { !(*h.root()).node.parent.is_null() };
    let head = if has_classes { h.top() } else { h.root() };
    by_accounts.descend(head, &[], true);
    Oracle {
        overdue_since_ns: None,
        may_run: by_accounts.found,
        due_ns: u64::MAX,
    }
}

impl Oracle {
    /// Whether nobody was due, nor has waited for too long.
    pub fn by_accounts(&self) -> bool {
        self.due_ns == u64::MAX && self.overdue_since_ns.is_none()
    }

    pub fn check(&self, h: &Host, c: &choice) {
        let task = h.task_of(c.task);

        assert_eq!(
            task.is_none(),
            c.task.is_null(),
            "chosen is something that is no task"
        );
        assert_eq!(
            c.due_ns, self.due_ns,
            "chosen for another due time than the earliest, task {task:?}"
        );
        if let Some(since_ns) = self.overdue_since_ns {
            let t = task.expect("somebody has waited for too long, and nobody is chosen");
            assert_eq!(
                (h.waits(t), h.tasks[t].waits_since_ns),
                (true, since_ns),
                "task {t} is chosen, another one has waited for too long"
            );
            assert_eq!(c.pays, h.own_seat(t), "task {t} runs in another one's seat");
            return;
        }
        if let (Some(t), true) = (task, self.due_ns != u64::MAX) {
            let domain = h.tasks[t].domain.expect("an outsider is due");
            assert!(
                may_borrow(h, domain, t),
                "domain {domain} has borrowed enough"
            );
        }
        match task {
            Some(t) => assert!(
                self.may_run.contains(&(t, c.pays)),
                "chosen is task {t} in {:?}, not one of {:?}",
                c.pays,
                self.may_run
            ),
            None => assert!(
                self.may_run.is_empty(),
                "nobody is chosen, but {:?} want to run",
                self.may_run
            ),
        }
    }
}
