// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a task, or a member, is owed when it goes to sleep, and has when it is back.

use crate::{accounts::DomainArgs, host::Host, policy::*};

const WEIGHT: u64 = WEIGHT_ONE as u64;

/// A task that sleeps before it has had what the other one has had is owed it when it is back: however long it sleeps no
/// more, and no more than LAG_MAX_NS.
#[test]
fn what_a_sleeper_was_owed_it_has_when_it_is_back() {
    let most_ns = u64::from(LAG_MAX_NS);

    for (turn_ns, rest_ns) in [
        (most_ns, 0),
        (most_ns, 1000 * most_ns),
        (9 * most_ns, most_ns),
    ] {
        let mut h = Host::new(0, 0, 0);
        let [other, sleeper] = [0; 2].map(|_| h.add_task(None, None, WEIGHT));

        for (t, ns) in [(other, turn_ns), (sleeper, most_ns / 4)] {
            h.wake(other);
            h.wake(sleeper);
            h.dispatch();
            assert_eq!(h.running, Some(t));
            h.pass(ns);
        }
        h.sleep();
        h.dispatch();
        assert_eq!(h.running, Some(other));
        h.pass(rest_ns);
        h.dispatch();
        h.wake(sleeper);
        let [runs, woken] = [other, sleeper].map(|t| unsafe { (*h.node(t)).vtime });
        let owed_ns = (turn_ns - most_ns / 4).min(most_ns);
        let owed = unsafe { core_vtime_of_ns(owed_ns, WEIGHT) };
        assert_eq!(runs.wrapping_sub(woken), owed, "{rest_ns}");
    }
}

/// A task, or a member, that sleeps ahead repays while others have CPU time for which nobody waits: by as much as they have of it
/// on average, until it is ahead no more.
#[test]
fn a_sleeper_that_is_ahead_repays_in_spare_time() {
    let had_ns = 3_000_000;

    for (is_member, spare_ns) in [false, true]
        .into_iter()
        .flat_map(|it| [0, 1_000_000, 8_000_000].map(|ns| (it, ns)))
    {
        let mut h = Host::new(0, 0, 8_000_000);
        let d = h.add_domain(DomainArgs {
            order: ORDER_PROGRAM,
            grace_ns: 0,
        });
        let [other, third] = [0; 2].map(|_| h.add_task(None, None, WEIGHT));
        let sleeper = h.add_task(None, is_member.then_some(d), WEIGHT);

        h.wake(sleeper);
        h.dispatch();
        h.wake(other);
        h.wake(third);
        h.pass(had_ns);
        h.sleep();
        h.dispatch();
        unsafe { core_tree_count(h.node(other), spare_ns) };
        unsafe { core_tree_count(h.node(third), spare_ns) };
        h.wake(sleeper);
        let woken = match is_member {
            true => unsafe { (*h.own_seat(sleeper)).vtime },
            false => unsafe { (*h.node(sleeper)).vtime },
        };
        let ahead = woken.wrapping_sub(unsafe { (*h.root()).vmin });
        let left_ns = had_ns.saturating_sub(spare_ns);
        let left = unsafe { core_vtime_of_ns(left_ns, WEIGHT) };
        assert_eq!(ahead, left, "{is_member} {spare_ns}");
    }
}

/// In the order of progress a member that sleeps until it is due has had as many due events as before, and one that has
/// slept for long not many fewer than the others.
#[test]
fn a_sleeper_keeps_its_count_of_due_events() {
    for (had, others, has) in [(10, 12, 10), (10, 90, 90 - u64::from(SERVED_BEHIND_MAX))] {
        let mut h = Host::new(0, 0, 0);
        let d = h.add_domain(DomainArgs {
            order: ORDER_PROGRESS,
            grace_ns: 0,
        });
        let member = h.add_task(None, Some(d), WEIGHT);

        unsafe { (*h.member(member)).served = had };
        unsafe { (*h.domains[d].at()).served_least = others };
        h.wake(member);
        assert_eq!(unsafe { (*h.member(member)).served }, has);
    }
}
