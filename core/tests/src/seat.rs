// SPDX-License-Identifier: GPL-2.0 OR MIT
//! seat.h: joining a domain neither gains nor costs CPU time, for members of whatever accounts, and for those beside them.

use crate::{
    accounts::DomainArgs,
    cpu::{Cpu, Program},
    host::{Host, Slices},
    policy::*,
};
use proptest::prelude::*;

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const SECOND_NS: u64 = 1000 * MS;
const WINDOW_NS: u64 = 6 * MS;
const GRANULARITY_NS: u64 = 4 * MS;
const ONE: u64 = WEIGHT_ONE as u64;

fn cpu(order: u32) -> Cpu {
    let mut h = Host::new(u64::MAX - (1 << 40), 1000 * PATIENCE, WINDOW_NS);

    h.slices = Some(Slices {
        granularity_ns: GRANULARITY_NS,
        min_slice_ns: MS / 2,
    });
    h.add_domain(DomainArgs {
        order,
        grace_ns: MS,
    });
    Cpu::new(h)
}

/// What each task gets of the CPU in so many seconds, after the first one.
fn shares(c: &mut Cpu, seconds: u64) -> Vec<f64> {
    let run = |c: &mut Cpu, until_ns: u64| {
        while c.h.now_ns < until_ns {
            c.step();
        }
    };
    run(c, c.h.now_ns + SECOND_NS);
    let before: Vec<_> = c.h.tasks.iter().map(|t| t.ran_ns).collect();
    let start_ns = c.h.now_ns;
    run(c, start_ns + seconds * SECOND_NS);
    let all_ns = (c.h.now_ns - start_ns) as f64;

    let got = c.h.tasks.iter().zip(before);
    got.map(|(t, before)| 100.0 * (t.ran_ns - before) as f64 / all_ns)
        .collect()
}

#[track_caller]
fn assert_near(got: f64, wanted: f64, within: f64) {
    assert!(
        (got - wanted).abs() <= within,
        "got {got:.3} %, not {wanted:.3} %"
    );
}

/// A member that always has something to do.
const BUSY: Program = Program::Honest {
    period_ns: 1000 * SECOND_NS,
    due_cost_ns: MS / 2,
    best_cost_ns: MS / 2,
    priority: 0,
};

/// Four members, one after the other: half a millisecond in five. Returns shares, and how late the latest event was.
fn turns(hogs: usize, apart_ns: u64) -> (Vec<f64>, u64) {
    let mut c = cpu(ORDER_PROGRAM);
    let audio = Program::Audio {
        period_ns: 5 * MS,
        cost_ns: MS / 2,
    };

    for i in 0..4 {
        c.add(audio.clone(), Some(0), i * apart_ns);
    }
    for _ in 0..hogs {
        c.add(Program::Hog, None, 0);
    }
    let shares = shares(&mut c, 10);
    let late_ns = c.threads[..4].iter().map(|t| t.tardiness_max_ns).max();
    (shares, late_ns.unwrap())
}

/// Two hogs leave them more than they want: nobody is late by more than the events of the others.
#[test]
fn members_that_take_turns_are_on_time_within_their_share() {
    for apart_ns in [0, MS / 2, MS] {
        let (shares, late_ns) = turns(2, apart_ns);

        shares[..4]
            .iter()
            .for_each(|&got| assert_near(got, 10.0, 0.05));
        shares[4..]
            .iter()
            .for_each(|&got| assert_near(got, 30.0, 0.05));
        assert!(late_ns <= 3 * MS / 2 + 10 * US, "{late_ns} ns late");
    }
}

/// Members that take turns have the share of all of them, and each of them its own: beside eight hogs a twelfth, less than
/// the tenth that it wants, however little of the time it is runnable. None misses more than every sixth of its events.
#[test]
fn members_that_take_turns_have_the_share_of_all() {
    for apart_ns in [0, MS / 2, MS] {
        let (shares, late_ns) = turns(8, apart_ns);

        shares
            .iter()
            .for_each(|&got| assert_near(got, 100.0 / 12.0, 0.05));
        assert!(late_ns <= 9 * MS + 10 * US, "{late_ns} ns late");
    }
}

/// Members that sleep a little between their due events, and want more than their share, have no more than that: the events of
/// their friends, which want half of theirs, are all served.
#[test]
fn members_that_want_too_much_leave_friends_their_events() {
    let audio = |period_ns, cost_ns| Program::Audio { period_ns, cost_ns };
    let mut c = cpu(ORDER_PROGRAM);

    for _ in 0..3 {
        c.add(audio(3400 * US, 3 * MS / 2), Some(0), 0);
    }
    for _ in 0..2 {
        c.add(audio(10 * MS, 7 * MS / 10), Some(0), 0);
    }
    for _ in 0..2 {
        c.add(Program::Hog, None, 0);
    }
    let shares = shares(&mut c, 10);

    assert!(shares[3..5].iter().all(|&got| got > 6.9), "{shares:?}");
    assert!(shares[5..].iter().all(|&got| got > 17.0), "{shares:?}");
}

/// A member that wants a hundredth of the CPU adds that to what its domain has, and not its weight, however heavy it is, and
/// whether it is awake while a friend runs or not.
#[test]
fn the_weight_of_a_sleeper_does_not_work_for_others() {
    let mixer = Program::Audio {
        period_ns: 2 * MS,
        cost_ns: 20 * US,
    };

    for nices in [(0, 0, 0), (-10, 10, 0), (-20, 0, 19)] {
        let mut c = cpu(ORDER_PROGRAM);
        let weights =
            [nices.0, nices.1, nices.2].map(|nice| u64::from(unsafe { core_weight_of_nice(nice) }));

        c.add(mixer.clone(), Some(0), 0);
        c.add(BUSY, Some(0), 0);
        c.add(Program::Hog, None, 0);
        (0..3).for_each(|t| c.h.set_weight(t, weights[t]));
        let got = shares(&mut c, 20);
        let part = 99.0 / (weights[1] + weights[2]) as f64;
        assert_near(got[0], 1.0, 0.01);
        assert_near(got[1], weights[1] as f64 * part, 0.15);
        assert_near(got[2], weights[2] as f64 * part, 0.15);
    }
}

/// The same where the friend is in another account: what it had in the mixer's is repaid before it has more.
#[test]
fn the_weight_of_a_sleeper_does_not_work_for_other_accounts() {
    let mut c = cpu(ORDER_PROGRAM);
    let groups = [4 * ONE, ONE].map(|weight| c.h.add_group(None, weight));
    let mixer = Program::Audio {
        period_ns: 2 * MS,
        cost_ns: 20 * US,
    };

    c.add_to(Some(groups[0]), mixer, Some(0), 0);
    c.add_to(Some(groups[1]), BUSY, Some(0), 0);
    for g in groups {
        c.add_to(Some(g), Program::Hog, None, 0);
    }
    let got = shares(&mut c, 20);
    assert_near(got[1] + got[3], 20.0, 1.0);
    assert_near(got[1], got[3], 1.0);
}

/// A domain over cgroups of 3:1, a member and a hog in each, a hog beside them: 30 % and 10 %, by whatever order.
#[test]
fn each_account_gives_what_its_member_is_entitled_to() {
    for order in [ORDER_PROGRAM, ORDER_PROGRESS, ORDER_SERVICE] {
        let mut c = cpu(order);
        let groups = [3 * ONE, ONE].map(|weight| c.h.add_group(None, weight));

        for g in groups {
            c.add_to(Some(g), BUSY, Some(0), 0);
        }
        for home in [Some(groups[0]), Some(groups[1]), None] {
            c.add_to(home, Program::Hog, None, 0);
        }
        let got = shares(&mut c, 20);
        assert_near(got[0], 30.0, 0.1);
        assert_near(got[1], 10.0, 0.1);
        assert_near(got[2], 30.0, 0.1);
        assert_near(got[3], 10.0, 0.1);
        assert_near(got[4], 20.0, 0.1);
    }
}

/// One that has something to do whenever it may beside three of another cgroup that are due far more often than they can be
/// served: what their domain would give them of its share it has, but for what it gives at first.
#[test]
fn friends_of_other_accounts_take_no_share() {
    for order in [ORDER_PROGRAM, ORDER_PROGRESS, ORDER_SERVICE] {
        let mut c = cpu(order);
        let groups = [ONE, 3 * ONE].map(|weight| c.h.add_group(None, weight));
        let eager = Program::Honest {
            period_ns: 3 * MS,
            due_cost_ns: 2 * MS,
            best_cost_ns: 0,
            priority: 0,
        };

        for _ in 0..3 {
            c.add_to(Some(groups[0]), eager.clone(), Some(0), 0);
        }
        c.add_to(Some(groups[1]), BUSY, Some(0), 0);
        for g in groups {
            c.add_to(Some(g), Program::Hog, None, 0);
        }
        let got = shares(&mut c, 10);
        assert_near(got[3], 75.0 / 2.0, 0.2);
        assert_near(got[4], 25.0 / 4.0, 0.2);
        assert_near(got[5], 75.0 / 2.0, 0.2);
    }
}

/// Two players and an editor in one cgroup, a build in another one: while it is runnable, a sixth of the CPU is the
/// editor's, to within a slice.
#[test]
fn who_is_beside_members_keeps_what_the_account_has_left() {
    let mut c = cpu(ORDER_SERVICE);
    let groups = [ONE; 2].map(|weight| c.h.add_group(None, weight));
    let editor = Program::Editor {
        works_ns: 2 * MS,
        sleeps_ns: 20 * MS,
    };

    for _ in 0..2 {
        c.add_to(Some(groups[0]), BUSY, Some(0), 0);
    }
    c.add_to(Some(groups[0]), editor, None, 0);
    c.add_to(Some(groups[1]), Program::Hog, None, 0);
    let got = shares(&mut c, 20);
    let least = 100.0 * 2.0 / (20.0 + 6.0 * 2.0 + 1.0);
    assert_near(got[3], 50.0, 0.1);
    assert!(
        got[2] >= least,
        "the editor got {:.3} % of {least:.3} %",
        got[2]
    );
}

/// What is behind a point, or less than nothing: as CPU time, exactly.
fn lead_ns(n: *mut tree_node) -> f64 {
    unsafe {
        let lead = (*n).vtime.wrapping_sub((*(*n).parent).vmin) as i64;
        lead as f64 * (*n).weight as f64 / f64::from(WEIGHT_ONE) / f64::from(1 << VTIME_SHIFT)
    }
}

fn seat_of(h: &Host, t: usize) -> *mut tree_node {
    unsafe { &raw mut (*(*h.member(t)).seat).node }
}

fn weight() -> impl Strategy<Value = u64> {
    (-20..20).prop_map(|nice| u64::from(unsafe { core_weight_of_nice(nice) }))
}

/// What a few moves through nanoseconds lose at most, of the heaviest.
fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 2e-3 * a.abs() + 600.0
}

proptest! {
    /// A member that leaves takes the lead along that it has had itself, in CPU time, and brings it back; so does one that has
    /// had nothing. Through another account and other weights.
    #[test]
    fn leads_survive_leaving_and_joining(
        ran_ns in 0..50 * MS, weights in (weight(), weight(), weight()), reweighed in weight(), vtime: u64,
        swap: bool,
    ) {
        let mut h = Host::new(vtime, 1000 * PATIENCE, WINDOW_NS);
        let d = h.add_domain(DomainArgs { order: ORDER_SERVICE, grace_ns: MS });
        let hog = h.add_task(None, None, ONE);
        let [a, b] = [weights.0, weights.1].map(|w| h.add_task(None, Some(d), w));
        let group = h.add_group(None, ONE);
        let beside = h.add_task(Some(group), None, ONE);

        h.wake(a);
        h.wake(b);
        h.dispatch();
        h.wake(hog);
        h.wake(beside);
        h.pass(ran_ns);
        h.settle();
        let all = lead_ns(seat_of(&h, a));
        prop_assert!(is_near(all, ran_ns as f64));
        let ran = h.running.unwrap();
        let (leaves, stays) = if ran == a { (b, a) } else { (a, b) };
        let (leaves, stays) = if swap { (stays, leaves) } else { (leaves, stays) };
        h.relocate(leaves, None, None);
        let part = if leaves == ran { all } else { 0.0 };
        prop_assert!(is_near(lead_ns(h.node(leaves)), part), "{} of {}", lead_ns(h.node(leaves)), part);
        prop_assert!(is_near(lead_ns(seat_of(&h, stays)), all - part));
        // Another account, where others are: the same lead there.
        h.relocate(leaves, Some(group), None);
        prop_assert!(is_near(lead_ns(h.node(leaves)), part), "{} of {}", lead_ns(h.node(leaves)), part);
        h.set_weight(leaves, reweighed);
        prop_assert!(is_near(lead_ns(h.node(leaves)), part), "{} of {}", lead_ns(h.node(leaves)), part);
        // Back: nothing is gained or lost.
        h.relocate(leaves, None, None);
        h.set_weight(leaves, weights.2);
        h.relocate(leaves, None, Some(d));
        prop_assert!(is_near(lead_ns(seat_of(&h, stays)), all), "{} of {}", lead_ns(seat_of(&h, stays)), all);
    }
}

/// What a member had in the seat of one of another account that has gone to sleep since is that seat's when he wakes, however
/// much later: sleepers repay nothing for others.
#[test]
fn what_friends_had_in_a_sleepers_seat_waits_for_it() {
    let mut h = Host::new(0, 1000 * PATIENCE, WINDOW_NS);
    let d = h.add_domain(DomainArgs {
        order: ORDER_SERVICE,
        grace_ns: MS,
    });
    let groups = [ONE; 2].map(|weight| h.add_group(None, weight));
    let [sleeper, friend] = groups.map(|g| h.add_task(Some(g), Some(d), ONE));
    let hog = h.add_task(Some(groups[0]), None, ONE);

    h.wake(friend);
    h.dispatch();
    h.wake(sleeper);
    h.wake(hog);
    h.tasks[friend].pays = seat_of(&h, sleeper);
    h.pass(2 * MS);
    h.stop_waiting(sleeper);
    h.settle();
    h.sleep();
    h.dispatch();
    h.pass(100 * MS);
    h.settle();
    h.wake(sleeper);
    let lead_ns = lead_ns(seat_of(&h, sleeper));
    assert!(is_near(lead_ns, 2.0 * MS as f64), "{lead_ns}");
}

/// A member that waited for long while its friend had their seat's part is then due all the time: it has been given nothing
/// that the hogs would owe it.
#[test]
fn what_a_member_gave_its_friends_it_does_not_get_from_others() {
    let mut c = cpu(ORDER_PROGRAM);
    let patient = Program::Honest {
        period_ns: 1000 * SECOND_NS,
        due_cost_ns: MS / 2,
        best_cost_ns: MS / 2,
        priority: 1,
    };

    c.add(BUSY, Some(0), 0);
    let t = c.add(patient, Some(0), 0);
    let hog = c.add(Program::Hog, None, 0);
    shares(&mut c, 5);
    c.threads[t].program = Program::Eager {
        cost_ns: MS / 2,
        ahead_ns: 0,
    };
    let before_ns = c.h.tasks[hog].ran_ns;
    let until_ns = c.h.now_ns + 100 * MS;
    while c.h.now_ns < until_ns {
        c.step();
    }
    let got_ns = c.h.tasks[hog].ran_ns - before_ns;
    assert!(got_ns >= 20 * MS, "the hog had {got_ns} ns of 100 ms");
}

#[derive(Clone, Copy, Debug)]
enum Churn {
    Leave,
    Join,
    Weight,
    Nap(u64),
}

fn churn() -> impl Strategy<Value = Churn> {
    prop_oneof![
        Just(Churn::Leave),
        Just(Churn::Join),
        Just(Churn::Weight),
        (1..20 * US).prop_map(Churn::Nap),
    ]
}

/// Does one of these things with a task that is active, running or not.
fn churn_once(h: &mut Host, t: usize, what: Churn) {
    match what {
        Churn::Leave => h.relocate(t, h.tasks[t].home, None),
        Churn::Join => h.relocate(t, h.tasks[t].home, Some(0)),
        Churn::Weight => h.set_weight(t, h.tasks[t].weight),
        Churn::Nap(ns) if h.running == Some(t) => {
            h.sleep();
            h.dispatch();
            h.pass(ns);
            h.wake(t);
        }
        Churn::Nap(_) => (),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Who leaves, joins, changes its weight and naps all the time gets no more than its share, to within a slice and the
    /// window, and loses no more than that unless it naps; nor do its domain's other members gain from it.
    #[test]
    fn churn_gains_nothing(
        steps in prop::collection::vec((churn(), 1..2 * MS), 50..400), hogs in 1usize..4, mates in 0usize..3,
    ) {
        const QUANTUM_NS: u64 = 2 * MS;
        let mut h = Host::new(0, 1000 * PATIENCE, WINDOW_NS);
        let d = h.add_domain(DomainArgs { order: ORDER_SERVICE, grace_ns: MS });
        let t = h.add_task(None, Some(d), ONE);

        unsafe { (*h.place.at()).quantum_ns = QUANTUM_NS };
        for _ in 0..mates {
            h.add_task(None, Some(d), ONE);
        }
        for _ in 0..hogs {
            h.add_task(None, None, ONE);
        }
        (0..h.tasks.len()).for_each(|t| h.wake(t));
        h.dispatch();
        let start_ns = h.now_ns;
        let naps = steps.iter().any(|(what, _)| matches!(what, Churn::Nap(_)));
        for &(what, ns) in &steps {
            h.pass(ns);
            h.settle();
            churn_once(&mut h, t, what);
            h.dispatch();
        }
        let all_ns = (h.now_ns - start_ns) as f64;
        let part = all_ns / h.tasks.len() as f64;
        let slack_ns = (WINDOW_NS + QUANTUM_NS) as f64 + steps.len() as f64 * 300.0;
        let got_ns = h.tasks[t].ran_ns as f64;
        prop_assert!(mates > 0 || got_ns <= part + slack_ns, "got {} of {}", got_ns, part);
        prop_assert!(mates > 0 || naps || got_ns + slack_ns >= part, "got {} of {}", got_ns, part);
        let outside: u64 = h.tasks[1 + mates..].iter().map(|t| t.ran_ns).sum();
        let least = part * hogs as f64 - slack_ns * hogs as f64;
        prop_assert!(outside as f64 >= least, "the hogs got {} of {}", outside, least);
    }
}

/// A member that wants a fiftieth of the CPU leaves the rest of its account to who is beside it there, however much the
/// other member of its domain, which is elsewhere, wants.
#[test]
fn what_a_sleeper_leaves_is_its_accounts() {
    for order in [ORDER_PROGRAM, ORDER_SERVICE] {
        let mut c = cpu(order);
        let group = c.h.add_group(None, ONE);
        let audio = Program::Audio {
            period_ns: 5 * MS,
            cost_ns: MS / 10,
        };

        c.add_to(Some(group), audio, Some(0), 0);
        c.add_to(Some(group), Program::Hog, None, 0);
        c.add(BUSY, Some(0), 0);
        c.add(Program::Hog, None, 0);
        let got = shares(&mut c, 10);
        assert!(got[1] >= 100.0 / 3.0 - 2.0 - 0.1, "beside it: {got:?}");
        assert!(got[3] >= 100.0 / 3.0 - 0.1, "outside: {got:?}");
    }
}
