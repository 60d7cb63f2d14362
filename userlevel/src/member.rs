// SPDX-License-Identifier: MIT OR Apache-2.0
//! A member of a domain that shares memory: joining, polling, sleeping, leaving.
//!
//! Who has a turn decides at its poll who has the next one, and wakes it: one system call to wake, one to wait. A sleeper is
//! woken by whoever polls when it is due; only where CPUs idle does it wake by itself. Each member that waits looks by
//! itself after a while, so that one that does not poll holds nobody up for long (round.rs has the times).

use crate::layout::{ASLEEP, AWAY, RUNNING, SEATS};
use crate::lock;
use crate::os::{Fate, Mistake, Os, Waited, Who};
use crate::round::{fallback_ns, Books, Round};
use crate::table::{Table, Terms};
use consort_abi::Slot;
use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

mod seats;

/// Decisions that somebody else overtook before they were written.
const ATTEMPTS: u32 = 100;
/// How often one of the members looks who has died.
const TEND_NS: u64 = 1_000_000_000;
/// How often one of the members looks for a daemon, and how often each does whatever the others do.
const LOOK_FOR_DAEMON_NS: u64 = 250_000_000;
const LOOK_ITSELF_NS: u64 = 2_000_000_000;

/// The seat is not this member's any more, the memory is not a domain's, or the kernel refuses to wait: join again.
#[derive(Debug, PartialEq, Eq)]
pub struct Lost;

#[derive(Debug, PartialEq, Eq)]
pub enum JoinError {
    /// All seats are taken.
    Full,
    /// The domain has others.
    Terms(Terms),
    /// The memory is not a domain's, or nobody gives the lock back.
    Lost,
}

/// What a member wants next, in range; see `struct consort_slot`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    pub due_ns: u64,
    pub key: u64,
    pub priority: u32,
}

/// Where a new member comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Newcomer {
    pub who: Who,
    /// Not 0, and nobody else's.
    pub owner: u64,
    pub share: Share,
}

/// What a member may have of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Bit n: it may run on CPU n. All bits: on any.
    pub cpus: u64,
    /// How many members may run on these at a time.
    pub cpus_most: u32,
    pub weight: u32,
}

pub struct Member<O: Os> {
    table: Table,
    os: O,
    token: u64,
    terms: Terms,
    index: usize,
    owner: u64,
    tickets: Cell<u32>,
    /// CPU time of the thread that is charged already.
    charged_ns: Cell<u64>,
    /// Up to which seat it has looked who has died.
    swept: Cell<usize>,
    /// When it last looked for a daemon.
    looked_for_daemon_at_ns: Cell<u64>,
    books: RefCell<Books>,
}

impl<O: Os> Member<O> {
    /// Takes a seat in a domain's memory. The member has no turn before it polls.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub fn join(
        table: Table,
        os: O,
        token: u64,
        terms: Terms,
        newcomer: &Newcomer,
    ) -> Result<Member<O>, JoinError> {
        if !table.is_sound(token) {
            return Err(JoinError::Lost);
        }
        match table.terms() {
            Some(known) if known != terms => return Err(JoinError::Terms(known)),
            _ => {}
        }
        let (charged_ns, joined_at_ns) = (os.cpu_ns(), os.now_ns());
        let mut member = Member {
            table,
            os,
            token,
            terms,
            index: SEATS,
            owner: newcomer.owner,
            tickets: Cell::new(newcomer.owner as u32),
            charged_ns: Cell::new(charged_ns),
            swept: Cell::new(newcomer.owner as usize % SEATS),
            looked_for_daemon_at_ns: Cell::new(joined_at_ns),
            books: RefCell::default(),
        };
        member.index = member.take_seat(newcomer)?;
        Ok(member)
    }

    fn ticket(&self) -> u32 {
        let next = self.tickets.get().wrapping_add(1) & 0x7fff_ffff;
        self.tickets.set(next.max(1));
        next.max(1)
    }

    pub fn slot(&self) -> &Slot {
        &self.table.seat(self.index).slot
    }

    pub fn os(&self) -> &O {
        &self.os
    }

    fn is_mine(&self) -> bool {
        self.table.seat(self.index).owner.load(Relaxed) == self.owner
    }

    /// Publishes `wish`, gives turns to whom they are due, and returns when this member has one: at once, where nobody is
    /// more important.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn poll(&self, wish: Wish) -> Result<(), Lost> {
        let ran_ns = self.ran_ns();
        self.decide(|round| {
            let had_turn = round.publish(wish.due_ns, wish.priority, wish.key, ran_ns);
            round.go_on_or_wait(had_turn);
        })?;
        self.charged_ns.set(self.charged_ns.get() + ran_ns);
        while self.wait_for_turn(0)? == Waited::Interrupted {}
        Ok(())
    }

    /// The same for a member that has nothing to do before its due time: it sleeps until then. A signal handler may end that.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn sleep(&self, wish: Wish) -> Result<(), Lost> {
        self.rest(wish, ASLEEP)?;
        if self.wait_for_turn(wish.due_ns)? == Waited::Interrupted {
            self.decide(|round| round.wait())?;
            while self.wait_for_turn(0)? == Waited::Interrupted {}
        }
        Ok(())
    }

    /// The same for a member that is woken by something else than others, too: it returns at once, without a turn. When it
    /// is awake, it calls [`Member::come_back`].
    ///
    /// # Errors
    /// [`Lost`].
    pub fn go_away(&self, wish: Wish) -> Result<(), Lost> {
        self.rest(wish, AWAY)
    }

    fn rest(&self, wish: Wish, state: u32) -> Result<(), Lost> {
        let ran_ns = self.ran_ns();
        self.decide(|round| {
            round.publish(wish.due_ns, wish.priority, wish.key, ran_ns);
            round.sleep(state);
        })?;
        self.charged_ns.set(self.charged_ns.get() + ran_ns);
        Ok(())
    }

    /// Returns when the member has a turn again.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn come_back(&self) -> Result<(), Lost> {
        if self.has_turn() && self.is_mine() {
            return Ok(());
        }
        self.decide(|round| round.wait())?;
        while self.wait_for_turn(0)? == Waited::Interrupted {}
        Ok(())
    }

    /// Gives the seat back. True: no member is left that anybody knows of.
    pub fn leave(&self) -> bool {
        let left = self.decide(|round| round.leave());
        left.is_ok() && self.give_back_seat().is_ok() && self.table.seats_used() == 0
    }

    /// Whether this member is to look now whether a daemon is there. One does it for all: each look is a search for a file, of
    /// which the kernel tidies up in a thread of its own. Once one has moved there, all look.
    pub fn is_to_look_for_daemon(&self, now_ns: u64) -> bool {
        let header = self.table.header();
        let looked_at_ns = self.looked_for_daemon_at_ns.get();
        let is_to_look = header.moved_to_daemon_at_ns.load(Relaxed) > looked_at_ns
            || now_ns >= looked_at_ns.saturating_add(LOOK_ITSELF_NS)
            || is_ours(&header.look_for_daemon_at_ns, now_ns, LOOK_FOR_DAEMON_NS);
        if is_to_look {
            self.looked_for_daemon_at_ns.set(now_ns);
        }
        is_to_look
    }

    /// Tells the others that this member moves to a daemon.
    pub fn announce_daemon(&self) {
        let header = self.table.header();
        header
            .moved_to_daemon_at_ns
            .store(self.os.now_ns(), Relaxed);
    }

    fn ran_ns(&self) -> u64 {
        self.os.cpu_ns().saturating_sub(self.charged_ns.get())
    }

    fn has_turn(&self) -> bool {
        self.os.step();
        self.table.seat(self.index).turn.load(Acquire) & 1 == 1
    }

    /// Until the member has a turn, which it wants from `wants_at_ns` on.
    fn wait_for_turn(&self, wants_at_ns: u64) -> Result<Waited, Lost> {
        let waited = self.look_for_turn(wants_at_ns);
        self.os.be_patient(false);
        waited
    }

    fn look_for_turn(&self, wants_at_ns: u64) -> Result<Waited, Lost> {
        let seat = self.table.seat(self.index);
        let latest_ns = || {
            wants_at_ns
                .max(self.os.now_ns())
                .saturating_add(fallback_ns(self.table.seats_used()))
        };
        // What others write there may make it look sooner, and not later.
        let (mut looks, mut until_ns) = (0u32, latest_ns());
        loop {
            self.os.step();
            let turn = seat.turn.load(Acquire);
            if !self.is_mine() {
                return Err(Lost);
            }
            if turn & 1 == 1 {
                return Ok(Waited::Over);
            }
            let now_ns = self.os.now_ns();
            let looks_at_ns = seat.looks_at_ns.load(Relaxed).min(until_ns);
            if now_ns < looks_at_ns {
                match self.os.wait(&seat.turn, turn, looks_at_ns) {
                    Waited::Over => {}
                    Waited::Interrupted => return Ok(Waited::Interrupted),
                    // To ask again and again would take the CPU from those that it waits for.
                    Waited::Refused => return Err(Lost),
                }
            } else {
                looks += 1;
                // Somebody plays tricks with the time: be on one's own.
                if looks > 100_000 {
                    return Err(Lost);
                }
                match now_ns < wants_at_ns {
                    true => self.decide(|round| round.look())?,
                    false => self.decide(|round| round.wait())?,
                }
                until_ns = latest_ns();
            }
        }
    }

    /// Decides. Turns that have gone to members which died go on to others.
    fn decide(&self, change: impl Fn(&mut Round)) -> Result<(), Lost> {
        let mut decided = self.decide_once(change);
        // Each time some have died for good: more often than there are seats is a trick.
        for _ in 0..SEATS {
            match decided {
                Ok(dead) if !dead.is_empty() => {
                    let buried = dead.into_iter().try_for_each(|index| self.bury(index));
                    decided = buried.and_then(|()| self.decide_once(|_| {}));
                }
                _ => break,
            }
        }
        if decided.is_err() {
            self.os.be_patient(false);
        }
        decided.map(|_| ())
    }

    /// Reads, decides, writes, and wakes who has got a turn. Returns those that had got one, or were skipped, and have died.
    fn decide_once(&self, change: impl Fn(&mut Round)) -> Result<Vec<usize>, Lost> {
        let mut books = self.books.try_borrow_mut().map_err(|_| Lost)?;
        for _ in 0..ATTEMPTS {
            let held = lock::take(&self.table.header().lock, &self.os, self.ticket());
            let held = held.map_err(|_| Lost)?;
            if !self.table.is_sound(self.token) || !self.is_mine() {
                return Err(Lost);
            }
            let readmitted = books.decide(self.table, &self.os, self.terms, self.index, |round| {
                change(round)
            });
            if !held.is_mine() {
                continue;
            }
            books.write(self.table, &self.os, self.index);
            self.count(held.was_taken_over, readmitted);
            drop(held);
            // Now: between waking another and sleeping there is to be nothing.
            self.os.be_patient(books.is_patient(self.index));
            return Ok(self.wake(&books));
        }
        Err(Lost)
    }

    fn count(&self, took_over: bool, readmitted: bool) {
        let header = self.table.header();
        if took_over {
            header.locks_taken_over.fetch_add(1, Relaxed);
        }
        if readmitted {
            header.readmitted.fetch_add(1, Relaxed);
        }
    }

    /// Wakes those that have got a turn. Returns those that are not there to take it.
    fn wake(&self, books: &Books) -> Vec<usize> {
        let is_gone = |index: &usize| self.os.fate(&self.table.who(*index)) == Fate::Gone;
        let mut dead = Vec::new();
        for &index in books.nudged.iter().filter(|&&index| index != self.index) {
            self.os.wake(&self.table.seat(index).turn);
        }
        for &index in books.granted.iter().filter(|&&index| index != self.index) {
            if self.os.makes(Mistake::NobodyIsWoken) {
                continue;
            }
            if !self.os.wake(&self.table.seat(index).turn) && is_gone(&index) {
                dead.push(index);
            }
        }
        dead.extend(books.skipped().iter().copied().filter(is_gone));
        dead
    }

    /// Whether it has a turn now, for tests and models.
    pub fn is_running(&self) -> bool {
        self.has_turn() && self.table.seat(self.index).state.load(Relaxed) == RUNNING
    }

    pub fn index(&self) -> usize {
        self.index
    }
}

/// Whether it is the caller who does now what one of the members does that often. The word says when it is next.
fn is_ours(next_at: &AtomicU64, now_ns: u64, every_ns: u64) -> bool {
    let at_ns = next_at.load(Relaxed);
    // A time from further in the future is nobody's.
    let is_later = at_ns > now_ns && at_ns <= now_ns.saturating_add(TEND_NS);
    let next_ns = now_ns.saturating_add(every_ns);
    !is_later
        && next_at
            .compare_exchange(at_ns, next_ns, Relaxed, Relaxed)
            .is_ok()
}
