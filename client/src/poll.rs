// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a poll says, what it answers, and when it needs the kernel.
//!
//! Most polls return without a system call: the thread has work, and nobody else's is more urgent yet. That path
//! is kept to a few dozen instructions.

use crate::layout::{
    Slot, DEMOTED, DUE_AHEAD_MAX_NS, MEMBER, NEVER, PRIORITY_MAX, PRIORITY_NONE, RUNNING, SLEEPING,
    YIELDING,
};
use crate::{clock, Error};
use std::sync::atomic::{compiler_fence, Ordering};

/// What the thread wants the CPU for next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Next {
    /// Its earliest due event, absolute; [`NEVER`] if there is none; at most [`DUE_AHEAD_MAX_NS`] ahead.
    pub due_ns: u64,
    /// Its most important best-effort event: (priority, key), the smaller the earlier.
    pub best_effort: Option<(u32, u64)>,
}

impl Next {
    /// Nothing to do before `due_ns`.
    pub fn due(due_ns: u64) -> Next {
        Next {
            due_ns,
            best_effort: None,
        }
    }

    #[inline]
    pub(crate) fn raw(self) -> Result<RawNext, Error> {
        let (priority, key) = match self.best_effort {
            None => (PRIORITY_NONE, 0),
            Some((PRIORITY_NONE, _)) => {
                return Err(Error::PriorityRange {
                    priority: PRIORITY_NONE,
                })
            }
            Some(event) => event,
        };
        Ok(RawNext {
            due_ns: self.due_ns,
            key,
            priority,
        })
    }
}

/// The same as a slot has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawNext {
    pub due_ns: u64,
    pub key: u64,
    pub priority: u32,
}

/// How the scheduler regards a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Not a member: no scheduler is there, or it has not let the thread in yet.
    Outside,
    Member,
    /// Broke the contract: best effort until its next timely poll.
    Demoted,
}

/// What the other members want, and what the scheduler says of this one. The layout is that of
/// `struct consort_others`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Others {
    /// Poll again by this time; [`NEVER`]: whenever.
    pub yield_by_ns: u64,
    /// Earliest due event of the others; [`NEVER`]: none.
    pub due_ns: u64,
    key: u64,
    priority: u32,
    standing: u32,
}

impl Others {
    /// What a thread on its own is told.
    pub fn nobody() -> Others {
        Others::read(&Slot::vacant())
    }

    /// Others that want this, for a [`Host`](crate::Host) of one's own. The scheduler's are read from the slot.
    pub fn wanting(yield_by_ns: u64, due_ns: u64, best_effort: Option<(u32, u64)>) -> Others {
        let (priority, key) = best_effort.unwrap_or((PRIORITY_NONE, 0));
        Others {
            yield_by_ns,
            due_ns,
            key,
            priority,
            standing: MEMBER,
        }
    }

    #[inline]
    pub(crate) fn read(slot: &Slot) -> Others {
        Others {
            yield_by_ns: slot.yield_by_ns.load(Ordering::Relaxed),
            due_ns: slot.other_due_ns.load(Ordering::Relaxed),
            key: slot.other_key.load(Ordering::Relaxed),
            priority: slot.other_priority.load(Ordering::Relaxed),
            standing: slot.standing.load(Ordering::Relaxed),
        }
    }

    /// Most important best-effort event of those that wait for the CPU: (priority, key).
    pub fn best_effort(&self) -> Option<(u32, u64)> {
        (self.priority != PRIORITY_NONE).then_some((self.priority, self.key))
    }

    /// How the scheduler regards this thread.
    pub fn standing(&self) -> Standing {
        match self.standing {
            MEMBER => Standing::Member,
            DEMOTED => Standing::Demoted,
            _ => Standing::Outside,
        }
    }
}

/// Waits where a poll has nothing to do.
pub(crate) trait Sleeper {
    /// Whether something else than time can end the wait.
    const HAS_FDS: bool;
    /// Until `due_ns` (possibly [`NEVER`]), or earlier.
    fn sleep(&mut self, due_ns: u64) -> Result<(), Error>;
}

pub(crate) struct ClockOnly;

impl Sleeper for ClockOnly {
    const HAS_FDS: bool = false;

    fn sleep(&mut self, due_ns: u64) -> Result<(), Error> {
        clock::sleep_until(due_ns)
    }
}

/// What a poll does, as the numbers have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    Return,
    Yield,
    Sleep,
}

/// What the scheduler has left in a slot, and this member's own due event of its last poll; read when it is needed.
pub trait Told {
    fn due_ns(&self) -> u64;
    fn yield_by_ns(&self) -> u64;
    fn standing(&self) -> u32;
    fn other_priority(&self) -> u32;
    fn other_key(&self) -> u64;
}

impl Told for Slot {
    #[inline]
    fn due_ns(&self) -> u64 {
        self.due_ns.load(Ordering::Relaxed)
    }

    #[inline]
    fn yield_by_ns(&self) -> u64 {
        self.yield_by_ns.load(Ordering::Relaxed)
    }

    #[inline]
    fn standing(&self) -> u32 {
        self.standing.load(Ordering::Relaxed)
    }

    #[inline]
    fn other_priority(&self) -> u32 {
        self.other_priority.load(Ordering::Relaxed)
    }

    #[inline]
    fn other_key(&self) -> u64 {
        self.other_key.load(Ordering::Relaxed)
    }
}

/// For a thread on its own.
pub fn decide_alone(next: RawNext, now_ns: u64) -> Turn {
    match next.priority == PRIORITY_NONE && next.due_ns > now_ns {
        true => Turn::Sleep,
        false => Turn::Return,
    }
}

/// For a member that is about to publish what it wants next. `keys_compare`: its key and the others' are of one kind.
#[inline(always)]
pub fn decide<S: Told>(next: RawNext, now_ns: u64, slot: &S, keys_compare: bool) -> Turn {
    let expired = next.due_ns <= now_ns;
    if next.priority == PRIORITY_NONE && !expired {
        return Turn::Sleep;
    }
    if now_ns >= slot.yield_by_ns() {
        return Turn::Yield;
    }
    // Only a poll that the kernel sees before the yield-by time restores a demoted member.
    if slot.standing() == DEMOTED {
        return Turn::Yield;
    }
    if !expired && keys_compare {
        // PRIORITY_NONE is greater than every priority, so nobody's event beats none.
        let others_priority = slot.other_priority();
        if others_priority < next.priority
            || (others_priority == next.priority && slot.other_key() < next.key)
        {
            return Turn::Yield;
        }
    }
    // Where the scheduler counts due events, one that is announced is one more: others may be next.
    if !keys_compare && next.due_ns != NEVER && slot.due_ns() == NEVER {
        return Turn::Yield;
    }
    Turn::Return
}

#[inline]
fn is_priority(priority: u32) -> bool {
    priority <= PRIORITY_MAX || priority == PRIORITY_NONE
}

/// How far in the future a due time may be, and which priorities there are.
#[inline]
pub(crate) fn is_in_range(next: RawNext, now_ns: u64) -> bool {
    is_priority(next.priority)
        && (next.due_ns <= now_ns.saturating_add(DUE_AHEAD_MAX_NS) || next.due_ns == NEVER)
}

#[inline]
pub(crate) fn check_range(next: RawNext, now_ns: u64) -> Result<(), Error> {
    match is_in_range(next, now_ns) {
        true => Ok(()),
        false => Err(out_of_range(next, now_ns)),
    }
}

#[cold]
fn out_of_range(next: RawNext, now_ns: u64) -> Error {
    if !is_priority(next.priority) {
        return Error::PriorityRange {
            priority: next.priority,
        };
    }
    Error::DueRange {
        due_ns: next.due_ns,
        ahead_ns: next.due_ns.saturating_sub(now_ns),
    }
}

#[inline]
pub(crate) fn publish(slot: &Slot, next: RawNext) {
    slot.due_ns.store(next.due_ns, Ordering::Relaxed);
    slot.key.store(next.key, Ordering::Relaxed);
    slot.priority.store(next.priority, Ordering::Relaxed);
    // The scheduler reads the slot on this thread's way into the kernel, which may be an interrupt.
    compiler_fence(Ordering::Release);
}

/// Gives the CPU to whoever the scheduler finds more important.
#[inline(never)]
pub(crate) fn yield_cpu(slot: &Slot) {
    enter(slot, YIELDING);
    // SAFETY: no arguments, never fails on Linux.
    unsafe { libc::sched_yield() };
    slot.intent.store(RUNNING, Ordering::Release);
}

/// A sleep without an end is none.
pub(crate) fn check_sleep<S: Sleeper>(next: RawNext) -> Result<(), Error> {
    match next.due_ns == NEVER && !S::HAS_FDS {
        true => Err(Error::NothingToWaitFor),
        false => Ok(()),
    }
}

#[inline(never)]
pub(crate) fn sleep<S: Sleeper>(slot: &Slot, next: RawNext, sleeper: &mut S) -> Result<(), Error> {
    check_sleep::<S>(next)?;
    enter(slot, SLEEPING);
    let slept = sleeper.sleep(next.due_ns);
    slot.intent.store(RUNNING, Ordering::Release);
    slept
}

/// The first half of a poll that sleeps.
pub(crate) fn begin_sleep(slot: &Slot) {
    enter(slot, SLEEPING);
}

/// Its second half.
pub(crate) fn end_sleep(slot: &Slot) {
    slot.intent.store(RUNNING, Ordering::Release);
}

fn enter(slot: &Slot, intent: u32) {
    slot.intent.store(intent, Ordering::Relaxed);
    let seq = slot.poll_seq.load(Ordering::Relaxed);
    // Release: whoever sees the new number sees what was published before it.
    slot.poll_seq.store(seq.wrapping_add(1), Ordering::Release);
}
