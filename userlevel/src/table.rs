// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared memory as one member sees it, and the numbers read from it, checked.

use crate::layout::{
    Header, Seat, Shared, ABSENT, ASLEEP, AWAY, MAGIC, OUT, RUNNING, SEATS, VERSION, WAITING,
};
use crate::os::{Os, Who, NEVER};
use crate::policy::{self, DomainNumbers, Entry};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const DUE_AHEAD_MAX_NS: u64 = consort_abi::CONSORT_DUE_AHEAD_MAX_NS;
const PRIORITY_MAX: u32 = consort_abi::CONSORT_PRIORITY_MAX;
pub const PRIORITY_NONE: u32 = consort_abi::CONSORT_PRIORITY_NONE;
const EVENT_MIN_NS: u64 = consort_abi::CONSORT_EVENT_MIN_NS as u64;
pub const EVENT_MAX_NS: u64 = consort_abi::CONSORT_EVENT_MAX_NS as u64;
const ORDER_MAX: u32 = consort_abi::CONSORT_ORDER_SERVICE;
/// From the least nice value to SCHED_IDLE, and beyond.
const WEIGHTS: std::ops::RangeInclusive<u32> = 1 << 10..=1 << 27;

/// Memory of the size of [`Shared`], zeroed when it was new, mapped for as long as its owner says.
#[derive(Clone, Copy)]
pub struct Table {
    shared: NonNull<Shared>,
}

/// On what terms members are in a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The longest event, 0: the host's choice.
    pub event_ns: u64,
    /// `enum consort_order`.
    pub order: u32,
}

/// What a seat says beside the policy's numbers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Place {
    pub owner: u64,
    /// What its member does, as layout.rs has it.
    pub state: u32,
    pub looks_at_ns: u64,
    pub polls_by_ns: u64,
    pub cpus: u64,
    pub cpus_most: u32,
    /// Which set of CPUs that is, see room.rs.
    pub set: usize,
}

impl Table {
    /// # Safety
    /// `shared` stays mapped, readable and writable, while this table or a copy of it is used.
    pub unsafe fn new(shared: NonNull<Shared>) -> Table {
        Table { shared }
    }

    pub fn header(&self) -> &Header {
        // SAFETY: mapped, as `new` was promised; only atomics in it.
        unsafe { &(*self.shared.as_ptr()).header }
    }

    /// Panics if there is no such seat.
    pub fn seat(&self, index: usize) -> &Seat {
        assert!(index < SEATS);
        // SAFETY: as above; the index is checked.
        unsafe { &(*self.shared.as_ptr()).seats[index] }
    }

    /// Makes new memory a domain's.
    pub fn found(&self, token: u64, terms: Terms) {
        let header = self.header();
        header.event_ns.store(terms.event_ns, Relaxed);
        header.order.store(terms.order, Relaxed);
        header.version.store(VERSION, Relaxed);
        header.token.store(token, Relaxed);
        header
            .magic
            .store(MAGIC, std::sync::atomic::Ordering::Release);
    }

    /// Whether this is the domain's memory of that token, as far as a header can say.
    pub fn is_sound(&self, token: u64) -> bool {
        let header = self.header();
        header.magic.load(std::sync::atomic::Ordering::Acquire) == MAGIC
            && header.version.load(Relaxed) == VERSION
            && header.token.load(Relaxed) == token
            && self.terms().is_some()
    }

    /// The domain's terms; none if they are out of range.
    pub fn terms(&self) -> Option<Terms> {
        let header = self.header();
        let terms = Terms {
            event_ns: header.event_ns.load(Relaxed),
            order: header.order.load(Relaxed),
        };
        let is_event =
            terms.event_ns == 0 || (EVENT_MIN_NS..=EVENT_MAX_NS).contains(&terms.event_ns);
        (is_event && terms.order <= ORDER_MAX).then_some(terms)
    }

    /// How many seats may be taken: all after these are free.
    pub fn seats_used(&self) -> usize {
        (self.header().seats_used.load(Relaxed) as usize).min(SEATS)
    }

    pub fn who(&self, index: usize) -> Who {
        let seat = self.seat(index);
        Who {
            pid: seat.pid.load(Relaxed),
            tid: seat.tid.load(Relaxed),
            started: seat.started.load(Relaxed),
            pid_space: seat.pid_space.load(Relaxed),
        }
    }

    pub fn domain_numbers(&self, terms: Terms) -> DomainNumbers {
        let header = self.header();
        DomainNumbers {
            clock: header.clock.load(Relaxed),
            vmin: header.vmin.load(Relaxed),
            served_least: header.served_least.load(Relaxed),
            turn_least: header.turn_least.load(Relaxed),
            idle_since_ns: header.idle_since_ns.load(Relaxed),
            grace_ns: grace_ns(terms),
            order: terms.order,
            reserved: 0,
        }
    }

    pub fn write_domain<O: Os>(&self, os: &O, before: &DomainNumbers, now: &DomainNumbers) {
        let header = self.header();
        write(os, &header.clock, before.clock, now.clock);
        write(os, &header.vmin, before.vmin, now.vmin);
        write(
            os,
            &header.served_least,
            before.served_least,
            now.served_least,
        );
        write(os, &header.turn_least, before.turn_least, now.turn_least);
        write(
            os,
            &header.idle_since_ns,
            before.idle_since_ns,
            now.idle_since_ns,
        );
    }

    /// Reads a seat. What is out of range counts as absent, or as the nearest that is in range.
    pub fn read(&self, index: usize, now_ns: u64) -> (Entry, Place) {
        let seat = self.seat(index);
        let owner = seat.owner.load(Relaxed);
        if owner == 0 {
            return (Entry::default(), Place::default());
        }
        let state = seat.state.load(Relaxed);
        let place = Place {
            owner,
            state,
            looks_at_ns: seat.looks_at_ns.load(Relaxed),
            polls_by_ns: seat.polls_by_ns.load(Relaxed),
            cpus: seat.cpus.load(Relaxed),
            cpus_most: seat.cpus_most.load(Relaxed).clamp(1, SEATS as u32),
            set: 0,
        };
        let entry = Entry {
            due_ns: due_in_range(seat.due_ns.load(Relaxed), now_ns),
            key: seat.key.load(Relaxed),
            since_ns: seat.since_ns.load(Relaxed).min(now_ns),
            vtime: seat.vtime.load(Relaxed),
            debt_vtime: seat.debt_vtime.load(Relaxed),
            served: seat.served.load(Relaxed),
            turn_ns: seat.turn_ns.load(Relaxed),
            turn_vtime: seat.turn_vtime.load(Relaxed),
            turn_from: seat.turn_from.load(Relaxed),
            run_due_ns: seat.run_due_ns.load(Relaxed),
            priority: priority_in_range(seat.priority.load(Relaxed)),
            weight: seat
                .weight
                .load(Relaxed)
                .clamp(*WEIGHTS.start(), *WEIGHTS.end()),
            state: state_for_policy(state),
            reserved: 0,
        };
        (entry, place)
    }

    /// Writes what has changed of the policy's numbers.
    pub fn write_entry<O: Os>(&self, os: &O, index: usize, before: &Entry, now: &Entry) {
        let seat = self.seat(index);
        write(os, &seat.due_ns, before.due_ns, now.due_ns);
        write(os, &seat.key, before.key, now.key);
        write_small(os, &seat.priority, before.priority, now.priority);
        write(os, &seat.since_ns, before.since_ns, now.since_ns);
        write(os, &seat.vtime, before.vtime, now.vtime);
        write(os, &seat.debt_vtime, before.debt_vtime, now.debt_vtime);
        write(os, &seat.served, before.served, now.served);
        write(os, &seat.turn_ns, before.turn_ns, now.turn_ns);
        write(os, &seat.turn_vtime, before.turn_vtime, now.turn_vtime);
        write(os, &seat.turn_from, before.turn_from, now.turn_from);
        write(os, &seat.run_due_ns, before.run_due_ns, now.run_due_ns);
    }
}

/// Stores, if that changes anything.
pub fn write<O: Os>(os: &O, to: &AtomicU64, before: u64, now: u64) {
    if before != now {
        os.step();
        to.store(now, Relaxed);
    }
}

pub fn write_small<O: Os>(os: &O, to: &AtomicU32, before: u32, now: u32) {
    if before != now {
        os.step();
        to.store(now, Relaxed);
    }
}

/// How late a member may poll.
pub fn grace_ns(terms: Terms) -> u64 {
    match terms.event_ns {
        0 => EVENT_MAX_NS,
        event_ns => event_ns,
    }
}

fn due_in_range(due_ns: u64, now_ns: u64) -> u64 {
    match due_ns > now_ns && due_ns - now_ns > DUE_AHEAD_MAX_NS {
        true => NEVER,
        false => due_ns,
    }
}

fn priority_in_range(priority: u32) -> u32 {
    match priority <= PRIORITY_MAX {
        true => priority,
        false => PRIORITY_NONE,
    }
}

fn state_for_policy(state: u32) -> u32 {
    match state {
        RUNNING => policy::RUNNING,
        WAITING => policy::WAITING,
        ASLEEP | AWAY => policy::ASLEEP,
        OUT | ABSENT => policy::NOWHERE,
        _ => policy::NOWHERE,
    }
}
