// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Which domains may borrow, and which seat pays then: the rules of borrow.h over plain lists.

use super::{before, kind, of_ns, path, weight};
use crate::{check, host::Host, policy::*};
use std::collections::HashMap;

/// Minimums: as they are, or as the choice that is being made moves them.
pub struct Minimums(pub HashMap<*mut group, u64>);

impl Minimums {
    fn of(&self, g: *mut group) -> u64 {
        self.0.get(&g).copied().unwrap_or(unsafe { (*g).vmin })
    }
}

/// Behind which nobody of a group is that waits.
pub fn floor(h: &Host, g: *mut group) -> u64 {
    floor_at(h, g, &Minimums(HashMap::new()))
}

fn floor_at(h: &Host, g: *mut group, vmin: &Minimums) -> u64 {
    let least = vmin.of(g);

    if kind(unsafe { &raw mut (*g).node }) != NODE_FAIR {
        return least;
    }
    check::members(h, g)
        .into_iter()
        .filter(|&(_, n)| unsafe { (*n).ready.queued != 0 })
        .map(|(_, n)| unsafe { (*n).vtime })
        .fold(
            least,
            |least, vtime| if before(vtime, least) { vtime } else { least },
        )
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

/// Whether a domain may run a member ahead of its turn: one of its seats is nowhere too far ahead.
pub fn may_borrow(h: &Host, domain: usize) -> bool {
    may_borrow_at(h, domain, &Minimums(HashMap::new()))
}

pub fn may_borrow_at(h: &Host, domain: usize, vmin: &Minimums) -> bool {
    let d = h.domains[domain].at();
    let active = unsafe { u64::from((*d).group.nr_active.max(1)) };
    let slices_ns = h.place.quantum_ns * active;
    let counts = |s: &&(check::Id, *mut seat)| unsafe {
        (*s.1).domain == d && ((*s.1).counted > 0 || (*d).group.nr_active == 0)
    };
    let near = |g: *mut group, n: *mut tree_node, allowed_ns: u64| unsafe {
        let least = (*n).vtime.wrapping_sub(of_ns(allowed_ns, weight(n)));
        kind(&raw mut (*g).node) == NODE_RC || !before(floor_at(h, g, vmin), least)
    };

    check::seats(h).iter().filter(counts).any(|(_, s)| {
        let seat = unsafe { &raw mut (**s).node };
        let above_ns = repays_ns(h, seat) + slices_ns;
        let mut levels = path(seat).into_iter();

        levels
            .next()
            .is_none_or(|(g, n)| near(g, n, h.place.window_ns + slices_ns))
            && levels.all(|(g, n)| near(g, n, above_ns))
    })
}

/// The domain's seats that are the least ahead, each at the level at which it is that most.
pub fn best_seats(h: &Host, domain: usize) -> Vec<*mut tree_node> {
    let d = h.domains[domain].at();
    let ahead = |n: *mut tree_node| {
        let ahead_ns = |&(g, n): &(*mut group, *mut tree_node)| unsafe {
            core_vtime_to_ns((*n).vtime.wrapping_sub((*g).vmin), weight(n))
        };
        path(n).iter().map(ahead_ns).max().unwrap_or(0)
    };
    let seats: Vec<_> = check::seats(h)
        .into_iter()
        .filter(|(_, s)| unsafe { (**s).domain == d && (**s).counted > 0 })
        .map(|(_, s)| unsafe { &raw mut (*s).node })
        .collect();
    let least_ns = seats.iter().map(|&n| ahead(n)).min();

    seats
        .into_iter()
        .filter(|&n| Some(ahead(n)) == least_ns)
        .collect()
}
