// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Who is to be chosen: the rules of place.h and coop.h over plain lists, without their queues.

use crate::{check, host::Host, policy::*};

/// A task that could run, and from when it is due.
struct Contender {
    task: usize,
    domain: usize,
    due_ns: u64,
    may_borrow: bool,
}

/// Members that wait, or run and may go on, whose due event is expired and counts.
fn expired(h: &Host) -> Vec<Contender> {
    (0..h.tasks.len())
        .filter_map(|task| {
            let domain = h.tasks[task].domain?;
            let d = h.domains[domain].at();
            let due_ns = match h.running == Some(task) {
                true => h.tasks[task].member.due_ns,
                false => check::due_ns(h, task),
            };
            let counts = unsafe { core_member_due_counts(h.member(task), d) != 0 };
            let may_borrow = unsafe { core_place_may_borrow(h.place.at(), d) != 0 };

            (h.is_active(task) && counts && due_ns <= h.now_ns).then_some(Contender {
                task,
                domain,
                due_ns,
                may_borrow,
            })
        })
        .collect()
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

/// Those whose best-effort event is the most important of a domain; the running one wins ties.
fn best(h: &Host, domain: usize, running: Option<usize>) -> Vec<usize> {
    let d = h.domains[domain].at();
    let mut keys: Vec<_> = (0..h.tasks.len())
        .filter(|&t| h.tasks[t].domain == Some(domain) && (h.waits(t) || running == Some(t)))
        .map(|t| {
            let (mut major, mut minor) = (0, 0);
            unsafe { core_member_best_key(h.member(t), d, &mut major, &mut minor) };
            (t, major, minor)
        })
        .collect();
    let before = |a: &(usize, u64, u64), b: &(usize, u64, u64)| unsafe {
        core_heap_key_before(a.1, a.2, b.1, b.2) != 0
    };
    let all = keys.clone();

    keys.retain(|k| !all.iter().any(|other| before(other, k)));
    let first: Vec<_> = keys.iter().map(|k| k.0).collect();
    match running.filter(|r| first.contains(r)) {
        Some(running) => vec![running],
        None => first,
    }
}

/// The smallest of a group's members that wait, or that the running task is below; `but` is left out.
fn smallest(h: &Host, g: *mut group, but: *mut tree_node) -> Vec<*mut tree_node> {
    let runs_below = |n: *mut tree_node| {
        h.running
            .is_some_and(|r| unsafe { core_tree_member_above(h.node(r), g) == n })
    };
    let among: Vec<_> = check::members(h, g)
        .into_iter()
        .map(|(_, n)| n)
        .filter(|&n| n != but && (unsafe { (*n).ready.queued != 0 } || runs_below(n)))
        .collect();
    let before = |a: *mut tree_node, b: *mut tree_node| unsafe {
        core_vtime_before((*a).vtime, (*b).vtime) != 0
    };

    among
        .iter()
        .copied()
        .filter(|&n| !among.iter().any(|&other| before(other, n)))
        .collect()
}

/// Whether a domain, smallest at the root, lets `other` go first: it is due in a moment.
fn makes_room(h: &Host, domain: usize, other: *mut tree_node) -> bool {
    let d = &*h.domains[domain];
    let weight = unsafe { core_node_weight(other) }.max(WEIGHT_ONE.into());
    let slice = unsafe { core_vtime_of_ns(h.place.quantum_ns, weight) };
    let latest = d.group.node.vtime.wrapping_add(slice);
    let due_ns = (0..h.tasks.len())
        .filter(|&t| h.tasks[t].domain == Some(domain))
        .filter_map(|t| {
            let m = &h.tasks[t].member;
            let counts = unsafe { core_member_due_counts(&**m, d) != 0 };
            match (h.waits(t) && counts, h.running == Some(t)) {
                (true, _) => Some(check::due_ns(h, t)),
                (_, true) => Some(m.due_ns),
                // Who should be awake is not waited for.
                _ => (m.asleep != 0 && m.due_ns > h.now_ns).then_some(m.due_ns),
            }
        })
        .min();

    // Queued, the domain is where it was when the choice began; else it is looked at with the minimum that it makes.
    let vmin = unsafe { core_vtime_max((*h.root()).vmin, d.group.node.vtime) };
    let borrow_at = unsafe { core_domain_may_borrow_at(&*h.place, d) };
    let may_borrow = match d.upcoming.queued {
        0 => unsafe { core_vtime_before(vmin, borrow_at) == 0 },
        _ => unsafe { core_place_may_borrow(&*h.place, d) != 0 },
    };

    d.group.nr_active == 1
        && due_ns.is_some_and(|due_ns| due_ns > h.now_ns && due_ns - h.now_ns <= d.grace_ns)
        && may_borrow
        && unsafe { u32::from((*other).kind) != NODE_COOP }
        && unsafe { core_vtime_before(latest, (*other).vtime) == 0 }
}

/// Whom virtual time may choose: below every smallest member of every level.
fn by_vtime(h: &Host, g: *mut group, expired: &[Contender], found: &mut Vec<usize>) {
    for n in smallest(h, g, std::ptr::null_mut()) {
        let domain = check::groups(h).into_iter().find_map(|(id, g)| match id {
            check::Id::Domain(d) if unsafe { &raw mut (*g).node == n } => Some(d),
            _ => None,
        });
        let others = smallest(h, g, n);
        let go_first: Vec<_> = others
            .iter()
            .copied()
            .filter(|&other| domain.is_some_and(|d| g == h.root() && makes_room(h, d, other)))
            .collect();

        for &other in &go_first {
            below(h, g, other, expired, found);
        }
        if others.is_empty() || go_first.len() < others.len() {
            below(h, g, n, expired, found);
        }
    }
}

/// Whom a member of a group may have run: itself, or whom it chooses.
fn below(
    h: &Host,
    g: *mut group,
    n: *mut tree_node,
    expired: &[Contender],
    found: &mut Vec<usize>,
) {
    let running = h
        .running
        .filter(|&r| unsafe { core_tree_member_above(h.node(r), g) == n });
    let inner = check::groups(h)
        .into_iter()
        .find(|(_, g)| unsafe { &raw mut (**g).node == n });

    match inner {
        None => found.extend((0..h.tasks.len()).filter(|&t| h.node(t) == n)),
        Some((check::Id::Domain(d), _)) => {
            let own = earliest(h, expired.iter().filter(|c| c.domain == d));
            found.extend(own.map_or_else(|| best(h, d, running), |own| own.1));
        }
        Some((_, inner)) => by_vtime(h, inner, expired, found),
    }
}

/// Checks a choice that has been made for the state as it is, everybody charged and nobody moved yet.
pub struct Oracle {
    may_run: Vec<usize>,
    due_ns: u64,
}

pub fn ask(h: &Host) -> Oracle {
    let expired = expired(h);

    if let Some((due_ns, may_run)) = earliest(h, expired.iter().filter(|c| c.may_borrow)) {
        return Oracle { may_run, due_ns };
    }
    let mut may_run = Vec::new();
    let has_classes = unsafe { !(*h.root()).node.parent.is_null() };
    let head = if has_classes { h.top() } else { h.root() };
    by_vtime(h, head, &expired, &mut may_run);
    Oracle {
        may_run,
        due_ns: u64::MAX,
    }
}

impl Oracle {
    pub fn check(&self, h: &Host, c: &choice) {
        let task = (0..h.tasks.len()).find(|&t| h.node(t) == c.task);

        assert_eq!(
            task.is_none(),
            c.task.is_null(),
            "chosen is something that is no task"
        );
        assert_eq!(
            c.due_ns, self.due_ns,
            "chosen for another due time than the earliest, task {task:?}"
        );
        match task {
            Some(t) => assert!(
                self.may_run.contains(&t),
                "chosen is task {t}, not one of {:?}",
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
