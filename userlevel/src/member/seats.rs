// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seats: who takes one, gives it back, and whose is another's again because it died.

use super::{is_ours, JoinError, Lost, Member, Newcomer, Share, TEND_NS};
use crate::layout::{Seat, ABSENT, OUT, SEATS};
use crate::lock;
use crate::os::{Fate, Os, NEVER};
use crate::table::PRIORITY_NONE;
use consort_abi::Slot;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A member that was skipped is forgotten after this: it joins again if it polls again.
const FORGET_NS: u64 = 60_000_000_000;
/// At how many seats one looks in one go.
const SWEEP: usize = 4;

impl<O: Os> Member<O> {
    pub(super) fn take_seat(&self, newcomer: &Newcomer) -> Result<usize, JoinError> {
        let held = lock::take(&self.table.header().lock, &self.os, self.ticket());
        let held = held.map_err(|_| JoinError::Lost)?;
        let index = self.free_seat().ok_or(JoinError::Full)?;
        let (header, seat) = (self.table.header(), self.table.seat(index));
        seat.state.store(OUT, Relaxed);
        seat.turn.store(seat.turn.load(Relaxed) & !1, Relaxed);
        seat.pid.store(newcomer.who.pid, Relaxed);
        seat.tid.store(newcomer.who.tid, Relaxed);
        seat.started.store(newcomer.who.started, Relaxed);
        seat.pid_space.store(newcomer.who.pid_space, Relaxed);
        write_share(seat, newcomer.share);
        seat.looks_at_ns.store(NEVER, Relaxed);
        seat.polls_by_ns.store(NEVER, Relaxed);
        // It begins with what the others have had.
        let vmin = header.vmin.load(Relaxed);
        seat.vtime.store(vmin, Relaxed);
        seat.turn_vtime.store(vmin, Relaxed);
        seat.debt_vtime.store(header.clock.load(Relaxed), Relaxed);
        seat.served
            .store(header.served_least.load(Relaxed), Relaxed);
        seat.turn_ns.store(self.os.now_ns(), Relaxed);
        seat.turn_from
            .store(header.turn_least.load(Relaxed), Relaxed);
        for never in [&seat.due_ns, &seat.run_due_ns, &seat.slot.due_ns] {
            never.store(NEVER, Relaxed);
        }
        seat.priority.store(PRIORITY_NONE, Relaxed);
        seat.yields.store(0, Relaxed);
        seat.skips.store(0, Relaxed);
        vacate(&seat.slot);
        if !held.is_mine() {
            return Err(JoinError::Lost);
        }
        self.os.step();
        seat.owner.store(newcomer.owner, Release);
        if index >= self.table.seats_used() {
            header.seats_used.store(index as u32 + 1, Release);
        }
        Ok(index)
    }

    /// The first free seat; where there is none, that of a member which has died, or has not polled for very long.
    fn free_seat(&self) -> Option<usize> {
        let owner = |index: &usize| self.table.seat(*index).owner.load(Acquire);
        let used = self.table.seats_used();
        if let Some(free) = (0..used).find(|index| owner(index) == 0) {
            return Some(free);
        }
        if used < SEATS {
            return Some(used);
        }
        let now_ns = self.os.now_ns();
        (0..used).find(|&index| self.is_useless(index, now_ns))
    }

    fn is_useless(&self, index: usize, now_ns: u64) -> bool {
        let seat = self.table.seat(index);
        let absent_ns = now_ns.saturating_sub(seat.since_ns.load(Relaxed));
        let is_absent = seat.state.load(Relaxed) == ABSENT && absent_ns > FORGET_NS;
        is_absent || self.os.fate(&self.table.who(index)) == Fate::Gone
    }

    /// The kernel has given it other CPUs, or another weight: counts from the next decision on.
    pub fn change_share(&self, share: Share) {
        if self.is_mine() {
            write_share(self.table.seat(self.index), share);
        }
    }

    /// After its last decision: whoever got its turn may have died, and then another decision is due.
    pub(super) fn give_back_seat(&self) -> Result<(), Lost> {
        let held = lock::take(&self.table.header().lock, &self.os, self.ticket());
        let held = held.map_err(|_| Lost)?;
        if !self.is_mine() || !held.is_mine() {
            return Err(Lost);
        }
        self.vacate_seat(self.index);
        Ok(())
    }

    /// Forgets members that have died: a few seats at a time, and one member for all.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn tend(&self, now_ns: u64) -> Result<(), Lost> {
        let used = self.table.seats_used();
        if used == 0 {
            return Err(Lost);
        }
        let every_ns = TEND_NS / used.div_ceil(SWEEP) as u64;
        if !is_ours(&self.table.header().tended_at_ns, now_ns, every_ns) {
            return Ok(());
        }
        let from = self.swept.get();
        self.swept.set(from + SWEEP);
        for index in from..from + SWEEP.min(used) {
            let index = index % used;
            let is_others = index != self.index && self.table.seat(index).owner.load(Relaxed) != 0;
            if is_others && self.is_useless(index, now_ns) {
                self.bury(index)?;
                // Its turn goes on to somebody.
                self.decide(|_| {})?;
            }
        }
        Ok(())
    }

    /// A member has died: its seat is free, and so are those of its process' other members that have.
    pub(super) fn bury(&self, index: usize) -> Result<(), Lost> {
        let held = lock::take(&self.table.header().lock, &self.os, self.ticket());
        let held = held.map_err(|_| Lost)?;
        let (pid, now_ns) = (self.table.who(index).pid, self.os.now_ns());
        for other in 0..self.table.seats_used() {
            let seat = self.table.seat(other);
            let is_of_it = seat.owner.load(Relaxed) != 0 && seat.pid.load(Relaxed) == pid;
            if other == self.index || !is_of_it || !self.is_useless(other, now_ns) {
                continue;
            }
            if !held.is_mine() {
                break;
            }
            self.vacate_seat(other);
            self.table.header().buried.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn vacate_seat(&self, index: usize) {
        let (header, seat) = (self.table.header(), self.table.seat(index));
        self.os.step();
        seat.owner.store(0, Release);
        self.os.step();
        seat.state.store(OUT, Relaxed);
        let mut used = self.table.seats_used();
        while used > 0 && self.table.seat(used - 1).owner.load(Relaxed) == 0 {
            used -= 1;
        }
        self.os.step();
        header.seats_used.store(used as u32, Release);
    }
}

fn write_share(seat: &Seat, share: Share) {
    seat.cpus.store(share.cpus, Relaxed);
    seat.cpus_most.store(share.cpus_most, Relaxed);
    seat.weight.store(share.weight, Relaxed);
}

/// A slot of somebody who has just come: its first poll asks at once.
fn vacate(slot: &Slot) {
    slot.key.store(0, Relaxed);
    slot.priority.store(PRIORITY_NONE, Relaxed);
    slot.intent.store(consort_abi::CONSORT_RUNNING, Relaxed);
    slot.yield_by_ns.store(0, Relaxed);
    slot.other_due_ns.store(NEVER, Relaxed);
    slot.other_key.store(0, Relaxed);
    slot.other_priority.store(PRIORITY_NONE, Relaxed);
    slot.standing.store(consort_abi::CONSORT_MEMBER, Relaxed);
}
