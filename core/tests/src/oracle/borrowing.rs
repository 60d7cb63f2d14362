// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Which domains may borrow, and which seat pays then: the rules of borrow.h over plain lists.

use super::{before, keeps, kind, of_ns, path, to_ns, weight};
use crate::{check, host::Host, policy::*};
use std::collections::HashMap;

/// Minimums: as they are, or as the choice that is being made moves them.
pub struct Minimums(pub HashMap<*mut group, u64>);

impl Minimums {
    fn of(&self, g: *mut group) -> u64 {
        self.0.get(&g).copied().unwrap_or(unsafe { (*g).vmin })
    }
}

/// Behind which nobody of a group is that waits; or on average, as far as that counts, where nobody waits for what it was owed.
pub fn floor(h: &Host, g: *mut group) -> u64 {
    floor_at(h, g, &Minimums(HashMap::new()))
}

fn floor_at(h: &Host, g: *mut group, vmin: &Minimums) -> u64 {
    let least = vmin.of(g);

    if kind(unsafe { &raw mut (*g).node }) != NODE_FAIR {
        return least;
    }
    let floor = check::members(h, g)
        .into_iter()
        .filter(|&(_, n)| unsafe { (*n).ready.queued != 0 })
        .map(|(_, n)| unsafe { (*n).vtime })
        .fold(
            least,
            |least, vtime| if before(vtime, least) { vtime } else { least },
        );
    let mean = unsafe { (*g).mean };
    let counts = mean.wrapping_sub(least) <= of_ns(u64::from(MEAN_MAX_NS), u64::from(WEIGHT_ONE));
    if floor == least && counts {
        mean
    } else {
        floor
    }
}

/// What a seat is entitled to within the window, where accounts are above it that others share.
fn repays_ns(h: &Host, seat: *mut tree_node) -> u64 {
    let window_ns = h.place.window_ns;
    let levels = path(seat);

    if levels.len() == 1 || !h.place.root.node.parent.is_null() {
        return window_ns;
    }
    let part = |ns: u64, &(g, n): &(*mut group, *mut tree_node)| unsafe {
        let others = match (*n).active {
            0 => (*g).weight_active,
            _ => (*g).weight_active - weight(n),
        };
        match others {
            0 => ns,
            _ => ((ns >> 10) * (weight(n) >> 4) / ((others + weight(n)) >> 4)) << 10,
        }
    };
    levels.iter().fold(window_ns, part) * u64::from(h.place.nr_cpus)
}

/// Its members that sleep, and are ahead of a minimum: what they weigh, and by how much CPU time all of them are.
fn owing(h: &Host, s: *mut seat, vmin: u64) -> (u64, u64) {
    let vmin = vmin.wrapping_add(unsafe { (*(*s).node.parent).spare_vtime });
    let members = h.tasks.iter().map(|t| &*t.member);

    let asleep = members.filter(|m| m.seat == s && m.node.active == 0);
    let (mut all, mut ahead) = (0, 0);

    for m in asleep.filter(|m| before(vmin, m.own_vtime)) {
        all += m.node.weight;
        ahead += u128::from(m.own_vtime.wrapping_sub(vmin)) * u128::from(m.node.weight);
    }
    (all, (ahead >> (WEIGHT_SHIFT + VTIME_SHIFT)) as u64)
}

/// By how much CPU time a seat's active members are ahead of a minimum, or behind it; without any, what it has besides.
fn lead_ns(s: *mut seat, vmin: u64) -> i64 {
    let (vtime, counted) = unsafe { ((*s).node.vtime, (*s).counted) };

    match counted {
        0 => unsafe { (*s).left_ns as i64 },
        _ if before(vtime, vmin) => -(to_ns(vmin.wrapping_sub(vtime), counted) as i64),
        _ => to_ns(vtime.wrapping_sub(vmin), counted) as i64,
    }
}

/// The minimum from which on a seat may be put further ahead, asleep as its members may be.
fn seat_may_borrow_at(h: &Host, s: *mut seat, vmin: u64, allowed_ns: u64) -> u64 {
    let (owing_weight, owing_ns) = owing(h, s, vmin);
    let all = match unsafe { (*s).counted } + owing_weight {
        0 => unsafe { (*s).node.weight },
        all => all,
    };
    let ahead_ns = lead_ns(s, vmin) + owing_ns as i64 - allowed_ns as i64;
    match ahead_ns {
        ..0 => vmin.wrapping_sub(of_ns(ahead_ns.unsigned_abs(), all)),
        _ => vmin.wrapping_add(of_ns(ahead_ns.unsigned_abs(), all)),
    }
}

/// Whether a domain may run a member `t` ahead of its turn: one of its seats is nowhere too far ahead, or the member itself
/// is not ahead in its own one.
pub fn may_borrow(h: &Host, domain: usize, t: usize) -> bool {
    may_borrow_at(h, domain, t, &Minimums(HashMap::new()))
}

pub fn may_borrow_at(h: &Host, domain: usize, t: usize, vmin: &Minimums) -> bool {
    let d = h.domains[domain].at();
    let counts = |s: &&(check::Id, *mut seat)| unsafe {
        let is_there = (*s.1).counted > 0 || (*d).group.nr_active == 0;
        let is_own = h.tasks[t].member.seat == s.1;
        (*s.1).domain == d && (is_own || is_there && !keeps(&raw mut (*s.1).node))
    };

    check::seats(h)
        .iter()
        .filter(counts)
        .any(|&(_, s)| seat_may(h, s, t, vmin))
}

/// Whether a seat and the accounts above it may be put ahead for a member of its domain.
fn seat_may(h: &Host, s: *mut seat, t: usize, vmin: &Minimums) -> bool {
    let (d, seat) = unsafe { ((*s).domain, &raw mut (*s).node) };
    let account = unsafe { (*seat).parent };
    let slices_ns = slices_ns(h, d);
    let above_ns = repays_ns(h, seat) + slices_ns;
    let mut at = seat_may_borrow_at(h, s, vmin.of(account), h.place.window_ns + slices_ns);
    let m = &*h.tasks[t].member;

    if m.seat == s && before(m.own_vtime, at) {
        at = m.own_vtime;
    }
    !before(floor_at(h, account, vmin), at) && above_may(h, s, above_ns, vmin)
}

/// What running by virtual time alone may put a domain ahead.
fn slices_ns(h: &Host, d: *mut domain) -> u64 {
    h.place.quantum_ns * unsafe { u64::from((*d).group.nr_active.max(1)) }
}

/// Whether no account above a seat is too far ahead.
fn above_may(h: &Host, s: *mut seat, above_ns: u64, vmin: &Minimums) -> bool {
    let near = |(g, n): (*mut group, *mut tree_node)| unsafe {
        let least = (*n).vtime.wrapping_sub(of_ns(above_ns, weight(n)));
        kind(&raw mut (*g).node) == NODE_RC || !before(floor_at(h, g, vmin), least)
    };

    path(unsafe { &raw mut (*s).node })
        .into_iter()
        .skip(1)
        .all(near)
}

/// The seats in which a member may run whose due event is served: its own if that may be put ahead, else those of its domain
/// that are the least ahead, sleepers included, each at the level at which it is that most.
pub fn seats_for(h: &Host, t: usize) -> Vec<*mut tree_node> {
    let d = h.domains[h.tasks[t].domain.expect("an outsider is due")].at();
    let own = h.tasks[t].member.seat;
    let now = Minimums(HashMap::new());

    if unsafe { (*d).nr_seats } == 1 || seat_may(h, own, t, &now) {
        return vec![unsafe { &raw mut (*own).node }];
    }
    let seats: Vec<_> = check::seats(h)
        .into_iter()
        .filter(|(_, s)| unsafe { (**s).domain == d && (**s).counted > 0 })
        .map(|(_, s)| (ahead_ns(h, s), unsafe { &raw mut (*s).node }))
        .filter(|&(_, n)| n == h.own_seat(t) || !keeps(n))
        .collect();
    let least_ns = seats.iter().map(|it| it.0).min();

    seats
        .into_iter()
        .filter(|it| Some(it.0) == least_ns)
        .map(|it| it.1)
        .collect()
}

fn ahead_ns(h: &Host, s: *mut seat) -> u64 {
    let (n, vmin) = unsafe { (&raw mut (*s).node, (*(*s).node.parent).vmin) };
    let own_ns = lead_ns(s, vmin) + owing(h, s, vmin).1 as i64;
    let above_ns = |(g, n): (*mut group, *mut tree_node)| unsafe {
        to_ns((*n).vtime.wrapping_sub((*g).vmin), weight(n))
    };

    path(n)
        .into_iter()
        .skip(1)
        .map(above_ns)
        .fold(own_ns.max(0) as u64, u64::max)
}
