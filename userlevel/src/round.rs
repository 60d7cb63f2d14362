// SPDX-License-Identifier: MIT OR Apache-2.0
//! One decision: the domain is read, who has a turn is decided in this program's own memory, and what has changed is
//! written. All of it under the lock.

use crate::layout::{ABSENT, ASLEEP, OUT, RUNNING, WAITING};
use crate::os::{Mistake, Os, NEVER};
use crate::policy::{self, DomainNumbers, Entry, Loaded, Policy, Told};
use crate::room::{running, Room};
use crate::table::{grace_ns, write, write_small, Place, Table, Terms};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// While others wait, a running member shows at least this often that it polls.
pub const SIGN_NS: u64 = 3_000_000;
/// What a member may be late with a poll, beyond its longest event, before others stop waiting for it.
const LATE_NS: u64 = 4_000_000;
/// How much later than that somebody looks. Looking costs two switches; most that are to look have a turn before.
const LOOK_NS: u64 = 8_000_000;
/// A sleeper whom others are to wake looks by itself so much after its due time, beyond the longest event.
const BACKSTOP_NS: u64 = 2_000_000;
/// The same of one that waits for its turn, whatever happens. With the skip that may follow, nobody waits for 100 ms.
const FALLBACK_NS: u64 = 80_000_000;
/// So many look within that time. Of more, each looks more seldom, or they would do nothing else.
const LOOKERS: usize = 8;
/// Even alone, a member comes by this often: to see who is there otherwise.
const COME_BY_NS: u64 = 250_000_000;
/// Nobody looks again sooner.
const LOOK_AGAIN_NS: u64 = 1_000_000;

/// Buffers that decisions use again.
#[derive(Default)]
pub struct Books {
    policy: Option<Policy>,
    domain: DomainNumbers,
    before_domain: DomainNumbers,
    entries: Vec<Entry>,
    places: Vec<Place>,
    before: Vec<Entry>,
    before_places: Vec<Place>,
    room: Room,
    told: Vec<(usize, Told)>,
    /// Whom to wake afterwards: those that have a turn now, and those that are to look at their time again.
    pub granted: Vec<usize>,
    pub nudged: Vec<usize>,
    aside: Vec<(usize, u64)>,
    skipped: Vec<usize>,
}

pub struct Round<'a> {
    loaded: Loaded<'a>,
    places: &'a mut Vec<Place>,
    granted: &'a mut Vec<usize>,
    nudged: &'a mut Vec<usize>,
    aside: &'a mut Vec<(usize, u64)>,
    told: &'a mut Vec<(usize, Told)>,
    skipped: &'a mut Vec<usize>,
    me: usize,
    pub now_ns: u64,
    grace_ns: u64,
    room: &'a Room,
    readmitted: bool,
}

impl Books {
    /// Reads the domain, lets `decide` change it, and makes everything follow from that. Nothing is written yet.
    pub fn decide<O: Os>(
        &mut self,
        table: Table,
        os: &O,
        terms: Terms,
        me: usize,
        decide: impl FnOnce(&mut Round),
    ) -> bool {
        let now_ns = os.now_ns();
        self.read(table, terms, me, now_ns);
        self.before.clone_from(&self.entries);
        self.before_places.clone_from(&self.places);
        self.before_domain = self.domain;
        let mut domain = self.domain;
        let policy = self.policy.get_or_insert_with(Policy::new);
        let mut round = Round {
            loaded: policy.load(&mut domain, &mut self.entries),
            room: &self.room,
            places: &mut self.places,
            granted: &mut self.granted,
            nudged: &mut self.nudged,
            aside: &mut self.aside,
            told: &mut self.told,
            skipped: &mut self.skipped,
            me,
            now_ns,
            grace_ns: grace_ns(terms),
            readmitted: false,
        };
        round.expire();
        if !os.makes(Mistake::NobodyIsSkipped) {
            round.skip();
        }
        decide(&mut round);
        round.fill();
        round.tell();
        round.watch_over_sleepers();
        if !os.makes(Mistake::NobodyWatches) {
            round.watch_the_running();
        }
        let readmitted = round.readmitted;
        round.loaded.save();
        self.domain = domain;
        readmitted
    }

    fn read(&mut self, table: Table, terms: Terms, me: usize, now_ns: u64) {
        self.entries.clear();
        self.places.clear();
        self.granted.clear();
        self.nudged.clear();
        self.told.clear();
        self.skipped.clear();
        self.domain = table.domain_numbers(terms);
        // Whatever is said there, `me` has a seat.
        for index in 0..table.seats_used().max(me + 1) {
            let (entry, place) = table.read(index, now_ns);
            self.entries.push(entry);
            self.places.push(place);
        }
        self.room.find(&mut self.places);
    }

    /// Writes what has changed: first who gets a turn, last what `me` is up to, so that a writer who dies in between leaves
    /// a member too many with a turn, and not one too few.
    pub fn write<O: Os>(&self, table: Table, os: &O, me: usize) {
        table.write_domain(os, &self.before_domain, &self.domain);
        for &index in &self.granted {
            self.write_seat(table, os, index);
        }
        for index in 0..self.entries.len() {
            if index != me && !self.granted.contains(&index) {
                self.write_seat(table, os, index);
            }
        }
        if !self.granted.contains(&me) {
            self.write_seat(table, os, me);
        }
        for (index, told) in &self.told {
            self.write_told(table, os, *index, told);
        }
        let header = table.header();
        let passed = self.granted.iter().filter(|&&i| i != me).count() as u64;
        if passed > 0 {
            os.step();
            header.handovers.fetch_add(passed, Relaxed);
            table.seat(me).yields.fetch_add(passed as u32, Relaxed);
        }
        for &index in &self.skipped {
            header.skipped.fetch_add(1, Relaxed);
            let seat = table.seat(index);
            seat.skips.fetch_add(1, Relaxed);
            seat.slot
                .standing
                .store(consort_abi::CONSORT_DEMOTED, Relaxed);
            seat.slot.yield_by_ns.store(0, Relaxed);
        }
    }

    fn write_seat<O: Os>(&self, table: Table, os: &O, index: usize) {
        let seat = table.seat(index);
        let (before, now) = (&self.before_places[index], &self.places[index]);
        table.write_entry(os, index, &self.before[index], &self.entries[index]);
        write(os, &seat.looks_at_ns, before.looks_at_ns, now.looks_at_ns);
        write(os, &seat.polls_by_ns, before.polls_by_ns, now.polls_by_ns);
        write_small(os, &seat.state, before.state, now.state);
        let turn = seat.turn.load(Relaxed);
        let has_turn = now.state == RUNNING;
        let nudge = self.nudged.contains(&index);
        if (turn & 1 == 1) != has_turn {
            os.step();
            seat.turn.store(turn.wrapping_add(1), Release);
        } else if nudge {
            os.step();
            seat.turn.store(turn.wrapping_add(2), Release);
        }
    }

    fn write_told<O: Os>(&self, table: Table, os: &O, index: usize, told: &Told) {
        let slot = &table.seat(index).slot;
        os.step();
        slot.other_due_ns.store(told.other_due_ns, Relaxed);
        slot.other_key.store(told.other_key, Relaxed);
        slot.other_priority.store(told.other_priority, Relaxed);
        slot.standing.store(consort_abi::CONSORT_MEMBER, Relaxed);
        slot.yield_by_ns.store(told.yield_by_ns, Release);
    }

    /// Whether others wake it. One that wakes by itself, as a CPU idles, is not to wait for another program's slice.
    pub fn is_patient(&self, index: usize) -> bool {
        let place = &self.places[index];
        let is_exact = place.looks_at_ns <= self.entries[index].due_ns;
        place.state == WAITING || (place.state == ASLEEP && !is_exact)
    }

    /// Those that were skipped in this decision.
    pub fn skipped(&self) -> &[usize] {
        &self.skipped
    }
}

/// After what time the last of so many members has looked.
pub fn fallback_ns(members: usize) -> u64 {
    FALLBACK_NS * members.div_ceil(LOOKERS).max(1) as u64
}

impl Round<'_> {
    fn entry(&self, i: usize) -> &Entry {
        &self.loaded.entries[i]
    }

    fn members(&self) -> std::ops::Range<usize> {
        0..self.loaded.entries.len()
    }

    fn someone_waits(&self) -> bool {
        self.loaded
            .entries
            .iter()
            .any(|entry| entry.state == policy::WAITING)
    }

    /// Sleepers whose time has come wait for their turn, whether they have noticed or not.
    fn expire(&mut self) {
        for i in self.members() {
            let entry = *self.entry(i);
            if entry.state == policy::ASLEEP && entry.due_ns <= self.now_ns {
                self.loaded.wake(i, self.now_ns);
                self.loaded.wait(
                    i,
                    entry.due_ns.max(self.now_ns.saturating_sub(1_000_000_000)),
                );
                self.places[i].state = WAITING;
            }
        }
    }

    /// From when on nobody waits for a running member any more.
    fn skipped_at_ns(&self, i: usize) -> u64 {
        self.places[i]
            .polls_by_ns
            .saturating_add(self.grace_ns + LATE_NS)
    }

    /// Those that should have polled long ago lose their turns, if somebody waits for one.
    fn skip(&mut self) {
        if !self.someone_waits() {
            return;
        }
        for i in self.members() {
            let is_late = self.now_ns > self.skipped_at_ns(i);
            if i != self.me && self.entry(i).state == policy::RUNNING && is_late {
                self.loaded.rest(i, policy::NOWHERE, self.now_ns);
                self.loaded.entries[i].since_ns = self.now_ns;
                self.places[i].state = ABSENT;
                self.skipped.push(i);
                // Nobody may have woken it when it got its turn.
                self.places[i].looks_at_ns = self.now_ns;
                self.nudged.push(i);
            }
        }
    }

    /// The member `me` is there, is awake, and does not wait: it has its turn, or has come for one.
    fn stand_up(&mut self) {
        let me = self.me;
        match self.entry(me).state {
            policy::WAITING => self.loaded.take(me),
            policy::RUNNING => {}
            _ => self.loaded.wake(me, self.now_ns),
        }
        self.readmitted |= self.places[me].state == ABSENT;
    }

    /// `me` has polled: what it wants next, and what it ran since.
    pub fn publish(&mut self, due_ns: u64, priority: u32, key: u64, ran_ns: u64) -> bool {
        let had_turn = self.places[self.me].state == RUNNING;
        self.stand_up();
        let ran_ns = if had_turn { ran_ns } else { 0 };
        self.loaded
            .publish(self.me, due_ns, priority, key, ran_ns, self.now_ns);
        had_turn
    }

    /// `me` goes on if it had a turn and nobody is more important; else it waits.
    pub fn go_on_or_wait(&mut self, had_turn: bool) {
        let me = self.me;
        let mut is_undecided = had_turn;
        while is_undecided {
            match self.loaded.first(Some(me), self.now_ns) {
                Some(other) if other != me => {
                    let since_ns = self.entry(other).since_ns;
                    self.loaded.take(other);
                    // Its own turn is the other's, where that may run.
                    match self.room.is_for(self.places, other, Some(me)) {
                        true => {
                            self.grant(other);
                            is_undecided = false;
                        }
                        false => self.aside.push((other, since_ns)),
                    }
                }
                _ => break,
            }
        }
        match is_undecided {
            true => self.places[me].state = RUNNING,
            false => {
                self.loaded.wait(me, self.now_ns);
                self.places[me].state = WAITING;
            }
        }
        self.call_back();
    }

    /// `me` waits for its turn, since it came for it.
    pub fn wait(&mut self) {
        if self.places[self.me].state == RUNNING || self.places[self.me].state == WAITING {
            return;
        }
        self.stand_up();
        self.loaded.wait(self.me, self.now_ns);
        self.places[self.me].state = WAITING;
    }

    /// `me` looks whether it is its turn. A sleeper whose time has not come goes on sleeping; one that was skipped waits again.
    pub fn look(&mut self) {
        if self.entry(self.me).state == policy::NOWHERE {
            self.wait();
        }
    }

    /// `me` sleeps until its due time. `state` is ASLEEP or AWAY.
    pub fn sleep(&mut self, state: u32) {
        self.loaded.rest(self.me, policy::ASLEEP, self.now_ns);
        self.places[self.me].state = state;
        self.places[self.me].looks_at_ns = self.entry(self.me).due_ns;
    }

    /// `me` leaves.
    pub fn leave(&mut self) {
        self.stand_up();
        self.loaded.rest(self.me, policy::NOWHERE, self.now_ns);
        self.places[self.me].state = OUT;
    }

    fn grant(&mut self, i: usize) {
        self.places[i].state = RUNNING;
        self.places[i].polls_by_ns = NEVER;
        self.granted.push(i);
    }

    /// Gives turns to those that wait, most important first, while there is room.
    fn fill(&mut self) {
        let seats = self.room.seats();
        while running(self.places) < seats {
            let Some(first) = self.loaded.first(None, self.now_ns) else {
                break;
            };
            let since_ns = self.entry(first).since_ns;
            self.loaded.take(first);
            match self.room.is_for(self.places, first, None) {
                true => self.grant(first),
                false => self.aside.push((first, since_ns)),
            }
        }
        self.call_back();
    }

    /// Those for whom there was no room go on waiting.
    fn call_back(&mut self) {
        while let Some((i, since_ns)) = self.aside.pop() {
            self.loaded.wait(i, since_ns);
        }
    }

    /// All that have a turn are told by when to poll.
    fn tell(&mut self) {
        let sign_ns = match self.someone_waits() {
            true => self.now_ns + SIGN_NS,
            false => NEVER,
        };
        for i in self.members() {
            if self.entry(i).state != policy::RUNNING {
                continue;
            }
            let mut told = self.loaded.told(i, self.now_ns);
            let asked_ns = told.yield_by_ns.min(sign_ns);
            let has_polled = i == self.me || self.granted.contains(&i);
            let before_ns = match has_polled {
                true => NEVER,
                false => self.places[i].polls_by_ns,
            };
            // One that has not polled since is not given more time for it.
            self.places[i].polls_by_ns = before_ns.min(asked_ns.max(self.now_ns));
            told.yield_by_ns = asked_ns.min(before_ns).min(self.now_ns + COME_BY_NS);
            self.told.push((i, told));
        }
    }

    /// Sees to it that those that sleep are awake when they are due.
    fn watch_over_sleepers(&mut self) {
        let me = self.me;
        let (exact, state) = (self.sleepers_to_wake_exactly(), self.places[me].state);
        if state == ASLEEP || state == WAITING {
            let due_ns = self.entry(me).due_ns;
            let looks_at_ns = match state == ASLEEP && exact.contains(&me) {
                true => due_ns,
                false => self.backstop_ns(due_ns),
            };
            self.places[me].looks_at_ns = looks_at_ns;
        }
        for i in exact {
            if i != me && self.places[i].looks_at_ns > self.entry(i).due_ns {
                self.places[i].looks_at_ns = self.entry(i).due_ns;
                self.nudged.push(i);
            }
        }
    }

    fn backstop_ns(&self, due_ns: u64) -> u64 {
        let at_ns = due_ns.saturating_add(self.grace_ns + BACKSTOP_NS);
        let latest_ns = self.now_ns + self.own_fallback_ns();
        match at_ns > self.now_ns + LOOK_AGAIN_NS {
            true => at_ns.min(latest_ns),
            false => latest_ns,
        }
    }

    /// Where many wait, they are spread over a longer time: many of them may be lost at once, all of a process' say.
    fn own_fallback_ns(&self) -> u64 {
        let can_look = |i: &usize| matches!(self.places[*i].state, ASLEEP | WAITING);
        let more_ns = fallback_ns(self.members().filter(can_look).count()) - FALLBACK_NS;
        let number = (self.me as u64 ^ self.now_ns).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        FALLBACK_NS + more_ns / 1000 * (number >> 32) / (1 << 32) * 1000
    }

    /// Where CPUs idle nobody wakes those that sleep: as many as could run then wake by themselves, the first of all.
    fn sleepers_to_wake_exactly(&self) -> Vec<usize> {
        let free = self.room.seats().saturating_sub(running(self.places));
        if free == 0 {
            return Vec::new();
        }
        let sleeps =
            |i: &usize| self.entry(*i).state == policy::ASLEEP && self.entry(*i).due_ns != NEVER;
        let mut sleepers: Vec<usize> = self.members().filter(sleeps).collect();
        sleepers.sort_unstable_by_key(|&i| self.entry(i).due_ns);
        sleepers.truncate(free);
        sleepers.retain(|&i| self.places[i].state == ASLEEP);
        sleepers
    }

    /// Sees to it that somebody looks when those that have a turn do not poll.
    fn watch_the_running(&mut self) {
        let runs = |i: &usize| self.entry(*i).state == policy::RUNNING;
        let deadlines = self.members().filter(runs).map(|i| self.skipped_at_ns(i));
        let needed_ns = deadlines.min().unwrap_or(NEVER);
        if needed_ns >= NEVER - LOOK_NS {
            return;
        }
        let needed_ns = needed_ns.max(self.now_ns + LOOK_AGAIN_NS) + LOOK_NS;
        let can_look = |i: usize| matches!(self.places[i].state, ASLEEP | WAITING);
        let looks = |i: &usize| {
            let at_ns = self.places[*i].looks_at_ns;
            can_look(*i) && at_ns > self.now_ns && at_ns <= needed_ns
        };
        if self.members().any(|i| looks(&i)) {
            return;
        }
        let me = self.me;
        if can_look(me) {
            self.places[me].looks_at_ns = needed_ns;
            return;
        }
        // A member that goes on had somebody look when it got its turn.
        if self.places[me].state == RUNNING && self.granted.is_empty() {
            return;
        }
        let watcher = self
            .members()
            .find(|&i| can_look(i) && self.places[i].looks_at_ns > needed_ns);
        if let Some(watcher) = watcher {
            self.places[watcher].looks_at_ns = needed_ns;
            self.nudged.push(watcher);
        }
    }
}

#[cfg(test)]
mod tests;
