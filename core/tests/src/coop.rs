// SPDX-License-Identifier: GPL-2.0 OR MIT
//! decide/coop.h, seat.h, borrow.h, place.h: random members of random domains among outsiders, in several accounts, some of
//! them reserved; after every step the queues hold what they should, and every choice is the one that the rules name.

use crate::{accounts::DomainArgs, check, host::Host, oracle, policy::*};
use proptest::prelude::*;

const TASKS: usize = 8;
const DOMAINS: usize = 3;
/// The root, and five below it or below a class.
const ACCOUNTS: usize = 6;
const MS: u64 = 1_000_000;
const DAY_NS: u64 = 24 * 3600 * 1000 * MS;

#[derive(Clone, Debug)]
enum Due {
    Never,
    LongPast,
    Past(u64),
    Ahead(u64),
}

#[derive(Clone, Debug)]
struct Poll {
    due: Due,
    priority: u32,
    key: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Wake(usize, bool),
    /// The running task's next poll, or no poll: a slice that ends.
    Run(u64, Option<Poll>),
    Sleep(u64, Poll),
    StopWaiting(usize),
    Weight(usize, u64),
    Join(usize, usize),
    Leave(usize),
    /// To another account.
    Home(usize, usize),
    AccountWeight(usize, u64),
}

fn due() -> impl Strategy<Value = Due> {
    prop_oneof![
        1 => Just(Due::Never),
        1 => Just(Due::LongPast),
        2 => (0..2 * MS).prop_map(Due::Past),
        4 => (0..5 * MS).prop_map(Due::Ahead),
        1 => (0..=DAY_NS).prop_map(Due::Ahead),
    ]
}

fn poll() -> impl Strategy<Value = Poll> {
    let priority = prop_oneof![4 => 0u32..3, 1 => Just(PRIORITY_NONE), 1 => 0u32..1 << 31];

    (due(), priority, prop_oneof![0u64..4, any::<u64>()]).prop_map(|(due, priority, key)| Poll {
        due,
        priority,
        key,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let task = || 0..TASKS;
    let run = || prop_oneof![8 => 0..=3 * MS, 1 => 0..=2 * PATIENCE];

    prop_oneof![
        6 => (task(), any::<bool>()).prop_map(|(t, compare)| Step::Wake(t, compare)),
        10 => (run(), prop::option::of(poll())).prop_map(|(ns, poll)| Step::Run(ns, poll)),
        4 => (run(), poll()).prop_map(|(ns, poll)| Step::Sleep(ns, poll)),
        1 => task().prop_map(Step::StopWaiting),
        1 => (task(), 0u32..40).prop_map(|(t, n)| Step::Weight(t, nice(n))),
        1 => (task(), 0..DOMAINS).prop_map(|(t, d)| Step::Join(t, d)),
        1 => task().prop_map(Step::Leave),
        1 => (task(), 0..ACCOUNTS).prop_map(|(t, home)| Step::Home(t, home)),
        1 => (1..ACCOUNTS, 0u32..40).prop_map(|(g, n)| Step::AccountWeight(g, nice(n))),
    ]
}

fn nice(level: u32) -> u64 {
    u64::from(unsafe { core_weight_of_nice(level as i32 - 20) })
}

#[derive(Clone, Debug)]
struct Shape {
    vtime: u64,
    window_ns: u64,
    quantum_ns: u64,
    domains: Vec<DomainArgs>,
    /// The order of the class in which two of the accounts are reserved.
    class: u32,
    /// Each one's account; which domain, if any; the nice level.
    tasks: Vec<(usize, Option<usize>, u32)>,
}

fn shape() -> impl Strategy<Value = Shape> {
    let order =
        prop_oneof![2 => Just(ORDER_PROGRAM), 1 => Just(ORDER_PROGRESS), 1 => Just(ORDER_SERVICE)];
    let domain = (order, 0..=3 * MS).prop_map(|(order, grace_ns)| DomainArgs { order, grace_ns });
    let level = || prop_oneof![3 => Just(20u32), 1 => 0u32..40];
    let home = prop_oneof![2 => 0usize..4, 1 => 0..ACCOUNTS];
    let task = (home, prop::option::weighted(0.7, 0..DOMAINS), level());
    let class = prop_oneof![Just(NODE_FAIR), Just(NODE_PERIOD), Just(NODE_RC)];

    (
        prop_oneof![Just(0u64), any::<u64>()],
        0..=8 * MS,
        0..=4 * MS,
        prop::collection::vec(domain, DOMAINS),
        class,
        prop::collection::vec(task, 1..=TASKS),
    )
        .prop_map(
            |(vtime, window_ns, quantum_ns, domains, class, tasks)| Shape {
                vtime,
                window_ns,
                quantum_ns,
                domains,
                class,
                tasks,
            },
        )
}

fn build(shape: &Shape) -> Host {
    let mut h = Host::new(shape.vtime, 1000 * PATIENCE, shape.window_ns);
    unsafe { (*h.place.at()).quantum_ns = shape.quantum_ns };
    let one = u64::from(WEIGHT_ONE);
    let outer = h.add_group(None, one);

    h.add_group(Some(outer), 3 * one);
    h.add_group(None, one / 2);
    let class = h.add_class_of(shape.class, one * 3 / 4);
    // Groups from here on are reserved; the class has no tasks of its own.
    h.add_reservation(class, one / 2, 20 * MS, MS);
    h.add_reservation(class, one / 8, 50 * MS, MS);
    for &args in &shape.domains {
        h.add_domain(args);
    }
    for &(account, domain, level) in &shape.tasks {
        h.add_task(home(account), domain, nice(level));
    }
    h
}

/// One of the accounts that have tasks.
fn home(account: usize) -> Option<usize> {
    match account {
        0 => None,
        g @ 1..4 => Some(g - 1),
        reserved => Some(reserved),
    }
}

fn publish(h: &mut Host, poll: &Poll) {
    let due_ns = match poll.due {
        Due::Never => u64::MAX,
        Due::LongPast => 0,
        Due::Past(ns) => h.now_ns - ns,
        Due::Ahead(ns) => h.now_ns + ns,
    };

    if let Some(t) = h.running.filter(|&t| h.tasks[t].domain.is_some()) {
        h.publish(t, due_ns, poll.priority, poll.key);
    }
}

/// The CPU chooses, as the oracle says.
fn choose(h: &mut Host) {
    h.settle();
    h.settle_sleepers();
    check::domains(h);
    let oracle = oracle::ask(h);
    let c = h.choose();
    oracle.check(h, &c);
    if oracle.by_accounts() {
        check_blocked(h, c.pays);
    }
    h.follow(c);
}

/// Domains that have been caught up with where they were too far ahead, and where the accounts' choice came by, are not held
/// back any more. Elsewhere one that was owed may have gone without a run: the next choice that comes by sees that.
fn check_blocked(h: &Host, pays: *mut tree_node) {
    if pays.is_null() {
        return;
    }
    for (g, _) in oracle::path(pays) {
        for (i, d) in h.domains.iter().enumerate() {
            let behind = unsafe { core_vtime_before(oracle::floor(h, g), d.upcoming.major) != 0 };
            assert!(
                d.blocked_in != g || behind,
                "domain {i} is held back in {:?}, and has been caught up with",
                check::accounts(h)
                    .iter()
                    .find(|account| account.1 == g)
                    .map(|account| account.0)
            );
        }
    }
}

fn take_step(h: &mut Host, step: &Step) {
    let nr = h.tasks.len();

    match step {
        Step::Wake(t, compare) => {
            h.wake(t % nr);
            if *compare || h.running.is_none() {
                choose(h);
            }
        }
        Step::Run(ns, poll) => {
            h.pass(*ns);
            match poll {
                Some(poll) => publish(h, poll),
                None => h.interrupt(),
            }
            choose(h);
        }
        Step::Sleep(ns, poll) => {
            h.pass(*ns);
            publish(h, poll);
            h.sleep();
            choose(h);
        }
        Step::StopWaiting(t) => h.stop_waiting(t % nr),
        Step::Weight(t, weight) => h.set_weight(t % nr, *weight),
        Step::Join(t, d) => h.relocate(t % nr, h.tasks[t % nr].home, Some(*d)),
        Step::Leave(t) => h.relocate(t % nr, h.tasks[t % nr].home, None),
        Step::Home(t, account) => h.relocate(t % nr, home(*account), h.tasks[t % nr].domain),
        Step::AccountWeight(account, weight) => {
            h.set_group_weight(home(*account).unwrap_or(0), *weight)
        }
    }
}

proptest! {
    #[test]
    fn every_choice_is_by_the_rules(shape in shape(), steps in prop::collection::vec(step(), 1..150)) {
        let mut h = build(&shape);

        for step in &steps {
            take_step(&mut h, step);
            check::tree(&h);
            check::domains(&h);
        }
    }
}

#[test]
fn an_interrupted_event_goes_on_before_best_effort_and_after_due_events() {
    let mut h = Host::new(0, 1000 * PATIENCE, MS);
    h.add_domain(DomainArgs {
        order: ORDER_PROGRAM,
        grace_ns: 2 * MS,
    });
    let [interrupted, important, due] = [0; 3].map(|_| h.add_task(None, Some(0), nice(20)));
    let runs = |h: &mut Host, t| {
        h.dispatch();
        assert_eq!(h.running, Some(t));
    };
    let due_ns = h.now_ns + MS;

    h.wake(interrupted);
    runs(&mut h, interrupted);
    h.publish(interrupted, u64::MAX, 9, 0);
    h.interrupt();
    unsafe { (*h.member(important)).priority = 0 };
    unsafe { (*h.member(due)).due_ns = due_ns };
    h.wake(important);
    h.wake(due);
    runs(&mut h, interrupted);
    h.pass(MS);
    runs(&mut h, due);
    h.publish(due, u64::MAX, PRIORITY_NONE, 0);
    h.sleep();
    runs(&mut h, interrupted);
    h.publish(interrupted, u64::MAX, 9, 0);
    runs(&mut h, important);
}

/// However often another one's due events cut their turns short.
#[test]
fn members_with_equal_keys_have_cpu_time_by_their_weights() {
    const STEP: u64 = 7 * MS / 10;
    let mut h = Host::new(0, 1000 * PATIENCE, MS);
    h.add_domain(DomainArgs {
        order: ORDER_PROGRAM,
        grace_ns: MS,
    });
    let (heavy, light) = (nice(15), nice(20));
    let members = [heavy, light, light].map(|weight| h.add_task(None, Some(0), weight));
    let due = h.add_task(None, Some(0), light);
    for t in members {
        h.publish(t, u64::MAX, 0, 0);
        h.wake(t);
    }
    let (mut ran_ns, mut next_due_ns) = ([0; 3], 0);
    for _ in 0..20_000 {
        if h.now_ns >= next_due_ns && h.running != Some(due) {
            h.publish(due, h.now_ns, 0, 1);
            h.wake(due);
            next_due_ns = h.now_ns + 5 * MS;
        }
        h.dispatch();
        let t = h.running.expect("somebody always wants the CPU");
        h.pass(STEP);
        h.settle();
        match members.iter().position(|member| *member == t) {
            Some(which) => {
                ran_ns[which] += STEP;
                h.publish(t, u64::MAX, 0, 0);
            }
            None => {
                h.publish(due, u64::MAX, PRIORITY_NONE, 0);
                h.sleep();
            }
        }
    }
    let [most_ns, one_ns, other_ns] = ran_ns.map(|ns| ns as f64);
    let wanted = heavy as f64 / light as f64;
    let a_turn_ns = 4.0 * MS as f64;
    assert!((one_ns - other_ns).abs() < a_turn_ns, "{ran_ns:?}");
    assert!(
        (most_ns - wanted * one_ns).abs() < wanted * a_turn_ns,
        "{ran_ns:?}"
    );
}

#[test]
fn who_runs_for_a_due_event_ahead_of_others_gives_way_after_it() {
    const SLICE_NS: u64 = 5 * MS;
    let mut h = Host::new(0, 1000 * PATIENCE, 4 * MS);
    let d = h.add_domain(DomainArgs {
        order: ORDER_PROGRAM,
        grace_ns: MS,
    });
    let [member, outsider] = [Some(d), None].map(|of| h.add_task(None, of, nice(20)));
    let runs = |h: &mut Host, t, slice_ns| {
        h.dispatch();
        assert_eq!(h.running, Some(t));
        assert_eq!(h.compare_at_ns(SLICE_NS), h.now_ns + slice_ns);
    };

    h.wake(member);
    h.wake(outsider);
    h.publish(member, u64::MAX, 1, 0);
    runs(&mut h, member, SLICE_NS);
    h.pass(MS);
    h.publish(member, h.now_ns + MS, 1, 0);
    runs(&mut h, outsider, MS);
    h.pass(MS);
    runs(&mut h, member, SLICE_NS);
    h.pass(MS);
    h.publish(member, h.now_ns, 1, 0);
    runs(&mut h, member, 0);
}

/// On two CPUs, on one of which a heavy task runs, a light member wakes that is due, is ahead, and awaits an event for a millisecond.
fn awaiting() -> (Host, [usize; 3]) {
    let mut h = Host::new(0, 1000 * PATIENCE, 4 * MS);
    let d = h.add_domain(DomainArgs {
        order: ORDER_PROGRAM,
        grace_ns: MS,
    });
    let member = h.add_task(None, Some(d), nice(20));
    let [heavy, other] = [0; 2].map(|_| h.add_task(None, None, nice(0)));

    unsafe { (*h.place.at()).nr_cpus = 2 };
    h.wake(member);
    h.dispatch();
    h.wake(heavy);
    h.pass(MS);
    h.publish(member, h.now_ns + MS, PRIORITY_NONE, 0);
    h.sleep();
    h.dispatch();
    h.pass(MS);
    unsafe { (*h.member(member)).awaits_ns = h.now_ns + MS };
    h.wake(member);
    h.dispatch();
    assert_eq!(h.running, Some(heavy));
    (h, [member, heavy, other])
}

#[test]
fn a_due_member_that_awaits_an_event_interrupts_others_after_its_grace() {
    let (mut h, [member, heavy, _]) = awaiting();
    h.pass(MS - 1);
    h.dispatch();
    assert_eq!(h.running, Some(heavy));
    h.pass(1);
    h.dispatch();
    assert_eq!(h.running, Some(member));
}

#[test]
fn a_cpu_that_becomes_free_serves_a_member_that_awaits_an_event() {
    let (mut h, [member, _, other]) = awaiting();
    h.wake(other);
    h.sleep();
    h.dispatch();
    assert_eq!(h.running, Some(member));
}

#[test]
fn a_sleeper_that_sleeps_again_is_asleep_once() {
    let mut h = Host::new(0, 1000 * PATIENCE, MS);
    let d = h.add_domain(DomainArgs {
        order: ORDER_PROGRAM,
        grace_ns: MS,
    });
    let members = [0; 4].map(|_| h.add_task(None, Some(d), nice(20)));

    for (number, &t) in members.iter().enumerate() {
        h.publish(t, h.now_ns + (1 + number as u64) * MS, PRIORITY_NONE, 0);
        h.wake(t);
        h.dispatch();
        h.sleep();
    }
    for (number, &t) in members.iter().enumerate() {
        h.sleep_again(t, h.now_ns + (9 - number as u64) * MS);
        check::domains(&h);
    }
    for &t in &members {
        h.wake(t);
        check::domains(&h);
    }
}

#[test]
fn a_sleeper_whose_class_is_ahead_holds_up_no_choice() {
    let mut h = Host::new(0, 1000 * PATIENCE, MS);
    let class = h.add_class_of(NODE_PERIOD, u64::from(WEIGHT_ONE) / 4);
    let reserved = h.add_reservation(class, u64::from(WEIGHT_ONE) / 4, 20 * MS, MS);
    let d = h.add_domain(DomainArgs {
        order: ORDER_PROGRAM,
        grace_ns: 100 * MS,
    });
    let members = [0; 2].map(|_| h.add_task(Some(reserved), Some(d), nice(20)));
    let plain = h.add_task(None, None, nice(20));

    unsafe { (*h.place.at()).quantum_ns = 10 * MS };
    h.wake(plain);
    h.dispatch();
    for &t in &members {
        unsafe { (*h.member(t)).due_ns = 0 };
        h.wake(t);
    }
    // Two that are due may put their class further ahead than one may that sleeps.
    for _ in 0..2 {
        h.dispatch();
        assert_ne!(h.running, Some(plain));
        h.pass(10 * MS);
        h.publish(h.running.unwrap(), h.now_ns + 500 * MS, PRIORITY_NONE, 0);
        h.sleep();
    }
    assert!(!h.domains[d].blocked_in.is_null(), "it is held back");
    h.dispatch();
    assert_eq!(h.running, Some(plain));
    check::domains(&h);
}
