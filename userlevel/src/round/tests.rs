// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single decisions, in memory of this process, at times of the tests' choice.

use super::*;
use crate::layout::Shared;
use crate::os::fake::Clock;
use crate::table::PRIORITY_NONE;
use std::ptr::NonNull;

const MS: u64 = 1_000_000;
const EVENT_NS: u64 = 4 * MS;
const KEY: u64 = 7;
const PROGRAM: u32 = 0;
const PROGRESS: u32 = 1;
const SERVICE: u32 = 2;

/// A domain of members that have joined, all bound to the same CPU.
struct Domain {
    _memory: Box<Shared>,
    table: Table,
    terms: Terms,
    clock: Clock,
    books: Books,
}

impl Domain {
    fn new(order: u32, members: usize) -> Domain {
        // SAFETY: all zero is what new shared memory is.
        let mut memory = unsafe { Box::<Shared>::new_zeroed().assume_init() };
        // SAFETY: the memory lives as long as the table, in the same value.
        let table = unsafe { Table::new(NonNull::from(&mut *memory)) };
        let terms = Terms {
            event_ns: EVENT_NS,
            order,
        };
        table.found(1, terms);
        table.header().seats_used.store(members as u32, Relaxed);
        for index in 0..members {
            let seat = table.seat(index);
            seat.owner.store(index as u64 + 1, Relaxed);
            seat.weight.store(1 << 20, Relaxed);
            seat.cpus.store(1, Relaxed);
            seat.cpus_most.store(1, Relaxed);
        }
        let domain = Domain {
            _memory: memory,
            table,
            terms,
            clock: Clock::default(),
            books: Books::default(),
        };
        domain.pass(1_000 * MS);
        domain
    }

    fn pass(&self, ns: u64) {
        self.clock.now_ns.set(self.clock.now_ns.get() + ns);
    }

    fn decide(&mut self, me: usize, change: impl FnOnce(&mut Round)) {
        let (table, terms) = (self.table, self.terms);
        self.books.decide(table, &self.clock, terms, me, change);
        self.books.write(table, &self.clock, me);
    }

    /// Best-effort work without end, of this priority, after it ran for so long.
    fn polls(&mut self, me: usize, priority: u32, ran_ns: u64) {
        self.decide(me, |round| {
            let had_turn = round.publish(u64::MAX, priority, KEY, ran_ns);
            round.go_on_or_wait(had_turn);
        });
    }

    fn state(&self, index: usize) -> u32 {
        self.table.seat(index).state.load(Relaxed)
    }

    fn standing(&self, index: usize) -> u32 {
        self.table.seat(index).slot.standing.load(Relaxed)
    }

    fn has_turn(&self, index: usize) -> bool {
        self.table.seat(index).turn.load(Relaxed) & 1 == 1
    }
}

#[test]
fn a_member_is_skipped_once_its_event_and_its_grace_are_over() {
    let mut domain = Domain::new(PROGRAM, 2);
    domain.polls(0, 1, 0);
    domain.polls(1, 1, 0);
    assert!(domain.has_turn(0) && domain.state(1) == WAITING);
    let polls_by_ns = domain.table.seat(0).polls_by_ns.load(Relaxed);
    assert!(polls_by_ns <= domain.clock.now_ns() + SIGN_NS);
    let left_ns = polls_by_ns + EVENT_NS + LATE_NS - domain.clock.now_ns();
    domain.pass(left_ns);
    domain.decide(1, |round| round.look());
    assert!(domain.has_turn(0), "it still may poll");
    domain.pass(1);
    domain.decide(1, |round| round.look());
    assert!(!domain.has_turn(0) && domain.has_turn(1));
    assert_eq!(domain.state(0), ABSENT);
    assert_eq!(domain.standing(0), consort_abi::CONSORT_DEMOTED);
    assert_eq!(domain.table.seat(0).skips.load(Relaxed), 1);
    // It may sleep, and not know that it had a turn.
    assert!(domain.books.nudged.contains(&0));
    assert!(domain.table.seat(0).looks_at_ns.load(Relaxed) <= domain.clock.now_ns());
}

#[test]
fn some_of_many_that_wait_look_soon_and_not_all_of_them() {
    let mut domain = Domain::new(PROGRAM, 801);
    for index in 0..801 {
        domain.polls(index, 1, 0);
        domain.pass(1000);
    }
    let look_within = |ns: u64| {
        let until_ns = domain.clock.now_ns() + ns;
        let looks = |index: &usize| domain.table.seat(*index).looks_at_ns.load(Relaxed) <= until_ns;
        (1..801).filter(looks).count()
    };
    assert_eq!(look_within(fallback_ns(801)), 800);
    let spread = [1, 2, 3, 4].map(|times| look_within(times * FALLBACK_NS + MS));
    assert!(spread[0] >= 1 && spread[3] <= 100, "{spread:?}");
    assert!(
        spread.windows(2).all(|pair| pair[0] < pair[1]),
        "{spread:?}"
    );
}

#[test]
fn what_others_decide_gives_a_running_member_no_more_time() {
    let mut domain = Domain::new(PROGRAM, 3);
    domain.polls(0, 1, 0);
    domain.polls(1, 1, 0);
    let mut before_ns = u64::MAX;
    for _ in 0..3 {
        domain.pass(MS);
        domain.decide(2, |round| round.wait());
        let polls_by_ns = domain.table.seat(0).polls_by_ns.load(Relaxed);
        assert!(polls_by_ns <= before_ns);
        before_ns = polls_by_ns;
    }
}

#[test]
fn a_member_that_was_skipped_and_polls_is_in_good_standing_with_its_next_turn() {
    let mut domain = Domain::new(PROGRAM, 2);
    domain.polls(0, 1, 0);
    domain.polls(1, 1, 0);
    domain.pass(100 * MS);
    domain.decide(1, |round| round.look());
    assert_eq!(domain.standing(0), consort_abi::CONSORT_DEMOTED);
    domain.polls(0, 2, 100 * MS);
    assert_eq!(domain.state(0), WAITING, "it lost its turn");
    domain.decide(1, |round| {
        round.sleep(ASLEEP);
    });
    assert!(domain.has_turn(0));
    assert_eq!(domain.standing(0), consort_abi::CONSORT_MEMBER);
}

#[test]
fn cpu_time_counts_from_turn_to_turn_and_without_one_it_does_not() {
    let mut domain = Domain::new(SERVICE, 2);
    let vtime = |domain: &Domain, index: usize| domain.table.seat(index).vtime.load(Relaxed);
    domain.polls(0, 1, 5 * MS);
    let before = vtime(&domain, 0);
    domain.pass(5 * MS);
    domain.polls(0, 1, 5 * MS);
    let with_turn = vtime(&domain, 0) - before;
    assert!(with_turn > 0, "a turn of 5 ms is charged");
    domain.polls(1, 1, 5 * MS);
    assert_eq!(domain.state(1), WAITING);
    let waiting = vtime(&domain, 1);
    domain.polls(1, 1, 5 * MS);
    assert_eq!(vtime(&domain, 1), waiting, "it had no turn");
}

#[test]
fn due_events_that_are_over_are_counted_in_the_seat() {
    let mut domain = Domain::new(PROGRESS, 1);
    let served = |domain: &Domain| domain.table.seat(0).served.load(Relaxed);
    for _ in 0..3 {
        let before = served(&domain);
        let due_ns = domain.clock.now_ns();
        domain.decide(0, |round| {
            let had_turn = round.publish(due_ns, 1, KEY, 0);
            round.go_on_or_wait(had_turn);
        });
        domain.pass(MS);
        domain.polls(0, 1, MS);
        assert!(served(&domain) > before);
    }
}

#[test]
fn a_member_without_room_goes_on_waiting_and_the_one_that_runs_is_to_show_that_it_polls() {
    let mut domain = Domain::new(PROGRAM, 3);
    // Two CPUs: the first two are bound to one of them.
    domain.table.seat(2).cpus.store(0b11, Relaxed);
    domain.table.seat(2).cpus_most.store(2, Relaxed);
    domain.polls(0, 1, 0);
    domain.polls(1, 0, 0);
    assert!(domain.has_turn(0) && domain.state(1) == WAITING);
    domain.polls(2, 1, 0);
    assert_eq!(
        [0, 1, 2].map(|i| domain.state(i)),
        [RUNNING, WAITING, RUNNING]
    );
    let polls_by_ns = domain.table.seat(2).polls_by_ns.load(Relaxed);
    assert!(polls_by_ns <= domain.clock.now_ns() + SIGN_NS);
}

#[test]
fn whatever_is_in_a_seat_is_taken_for_something_in_range() {
    let domain = Domain::new(PROGRAM, 1);
    let (seat, now_ns) = (domain.table.seat(0), domain.clock.now_ns());
    for word in [0, 1 << 30, u32::MAX] {
        seat.weight.store(word, Relaxed);
        seat.priority.store(word, Relaxed);
        seat.cpus_most.store(word, Relaxed);
        seat.state.store(word, Relaxed);
        seat.since_ns.store(u64::MAX, Relaxed);
        seat.due_ns.store(u64::MAX - 1, Relaxed);
        let (entry, place) = domain.table.read(0, now_ns);
        assert!((1 << 10..=1 << 27).contains(&entry.weight));
        assert!((1..=crate::SEATS as u32).contains(&place.cpus_most));
        assert!(entry.state <= policy::ASLEEP && entry.since_ns <= now_ns);
        assert_eq!(entry.due_ns, NEVER);
    }
}

#[test]
fn a_member_without_room_keeps_since_when_it_waits() {
    let mut domain = Domain::new(PROGRAM, 3);
    domain.table.seat(2).cpus.store(0b10, Relaxed);
    domain.polls(0, 1, 0);
    domain.polls(1, 0, 0);
    let since_ns = domain.table.seat(1).since_ns.load(Relaxed);
    domain.pass(MS);
    // There is a second CPU, and it is not for the one that waits.
    domain.polls(2, 1, 0);
    assert_eq!((domain.state(1), domain.state(2)), (WAITING, RUNNING));
    assert_eq!(domain.table.seat(1).since_ns.load(Relaxed), since_ns);
}

#[test]
fn of_those_that_sleep_while_a_cpu_idles_the_first_wakes_by_itself_and_the_others_do_not() {
    let mut domain = Domain::new(PROGRAM, 4);
    let due_ns = domain.clock.now_ns() + 50 * MS;
    for index in 0..4 {
        domain.decide(index, |round| {
            round.publish(due_ns + index as u64 * MS / 10, PRIORITY_NONE, 0, 0);
            round.sleep(ASLEEP);
        });
    }
    let looks_when_due = |index: &usize| {
        let seat = domain.table.seat(*index);
        seat.looks_at_ns.load(Relaxed) <= seat.due_ns.load(Relaxed)
    };
    let looking: Vec<usize> = (0..4).filter(looks_when_due).collect();
    assert_eq!(looking, [0]);
}
