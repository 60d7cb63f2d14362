// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock of a domain's memory: a futex that outlives its owner.
//!
//! Problem  Its owner may be killed, stopped or traced at any instruction.
//! Rule     The word says who has it, by a number that is used once. An owner that has had it for [`TAKE_OVER_NS`] loses it to
//!          whoever waits. It finds that out before it writes: its decision is made in its own memory, and then written at
//!          once, if the lock is still its own; else it is made anew.
//! Bound    Nobody waits for a stopped owner for longer than [`TAKE_OVER_NS`], or for the lock at all for longer than
//!          [`GIVE_UP_NS`] and [`LOOKS`]: then somebody plays tricks with it. Time alone says nothing: on a machine with
//!          more to do, a thread that waits may not run for as long.
//! Limits   An owner that is stopped in the middle of those writes may finish them when it goes on. What it writes is
//!          numbers: two members may have a turn at a time, or a number is old, until they poll next.

use crate::os::{Mistake, Os, Waited};
use std::sync::atomic::{AtomicU32, Ordering};

/// Decisions take microseconds.
pub const TAKE_OVER_NS: u64 = 2_000_000;
const GIVE_UP_NS: u64 = 100_000_000;
/// As many as fit into that time while each is for an owner that keeps it.
const LOOKS: u64 = GIVE_UP_NS / TAKE_OVER_NS;

const WAITERS: u32 = 1;

/// The lock never came, or the kernel refuses to wait for it.
#[derive(Debug, PartialEq, Eq)]
pub struct NeverFree;

pub struct Held<'a, O: Os> {
    word: &'a AtomicU32,
    os: &'a O,
    mine: u32,
    /// It was taken from an owner that kept it.
    pub was_taken_over: bool,
}

/// Takes the lock. `ticket` names this taking: not 0, below 2^31, and not used by anybody else for a while.
pub fn take<'a, O: Os>(
    word: &'a AtomicU32,
    os: &'a O,
    ticket: u32,
) -> Result<Held<'a, O>, NeverFree> {
    let mut mine = ticket << 1;
    let held = |mine: u32, was_taken_over| Held {
        word,
        os,
        mine: mine & !WAITERS,
        was_taken_over,
    };
    os.step();
    if word
        .compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
    {
        return Ok(held(mine, false));
    }
    let begun_ns = os.now_ns();
    let (mut owner, mut owner_since_ns) = (0, begun_ns);
    let mut looks = 0;
    loop {
        os.step();
        let seen = word.load(Ordering::Relaxed);
        let now_ns = os.now_ns();
        looks += 1;
        if looks > LOOKS && now_ns.saturating_sub(begun_ns) > GIVE_UP_NS {
            return Err(NeverFree);
        }
        if seen & !WAITERS != owner {
            (owner, owner_since_ns) = (seen & !WAITERS, now_ns);
        }
        let keeps_it = now_ns.saturating_sub(owner_since_ns) >= TAKE_OVER_NS
            && !os.makes(Mistake::LockDiesWithOwner);
        if seen == 0 || keeps_it {
            os.step();
            if word
                .compare_exchange(seen, mine, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return Ok(held(mine, seen != 0));
            }
            continue;
        }
        // Others may have been told of this owner's end by us alone.
        mine |= WAITERS;
        os.step();
        let marked = seen & WAITERS != 0
            || word
                .compare_exchange(seen, seen | WAITERS, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        let until_ns = owner_since_ns.saturating_add(TAKE_OVER_NS);
        if marked && os.wait(word, seen | WAITERS, until_ns) == Waited::Refused {
            return Err(NeverFree);
        }
    }
}

impl<O: Os> Held<'_, O> {
    /// Whether nobody has taken it over.
    pub fn is_mine(&self) -> bool {
        self.os.step();
        self.word.load(Ordering::Acquire) & !WAITERS == self.mine
    }
}

impl<O: Os> Drop for Held<'_, O> {
    fn drop(&mut self) {
        loop {
            self.os.step();
            let seen = self.word.load(Ordering::Relaxed);
            if seen & !WAITERS != self.mine {
                return;
            }
            if self
                .word
                .compare_exchange(seen, 0, Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                if seen & WAITERS != 0 {
                    self.os.wake(self.word);
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::Clock;
    use crate::os::{Fate, Who};

    #[test]
    fn whoever_waits_is_woken_and_nobody_where_nobody_waits() {
        let (clock, word) = (Clock::default(), AtomicU32::new(0));
        drop(take(&word, &clock, 1).unwrap());
        assert_eq!((clock.woken.get(), word.load(Ordering::Relaxed)), (0, 0));
        let held = take(&word, &clock, 2).unwrap();
        word.fetch_or(WAITERS, Ordering::Relaxed);
        assert!(held.is_mine());
        drop(held);
        assert_eq!((clock.woken.get(), word.load(Ordering::Relaxed)), (1, 0));
    }

    #[test]
    fn an_owner_that_keeps_it_loses_it_and_finds_that_out() {
        let (clock, word) = (Clock::default(), AtomicU32::new(0));
        let first = take(&word, &clock, 1).unwrap();
        let second = take(&word, &clock, 2).unwrap();
        assert!(second.was_taken_over && second.is_mine() && !first.is_mine());
        assert!(clock.now_ns() >= TAKE_OVER_NS && clock.now_ns() < 2 * TAKE_OVER_NS);
        drop(first);
        assert!(second.is_mine(), "the former owner frees nothing");
        drop(second);
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }

    /// Other programs have the CPU for half a second whenever somebody waits.
    #[test]
    fn a_lock_is_waited_for_on_a_machine_that_is_too_busy() {
        struct Busy<'a>(Clock, &'a AtomicU32);
        impl Os for Busy<'_> {
            fn now_ns(&self) -> u64 {
                self.0.now_ns()
            }
            fn cpu_ns(&self) -> u64 {
                0
            }
            fn wait(&self, _word: &AtomicU32, _expected: u32, _until_ns: u64) -> Waited {
                self.0.now_ns.set(self.now_ns() + 500_000_000);
                // Its owner has given it back meanwhile, and another one has taken it; the fourth time nobody has.
                let taken = self.1.fetch_add(2, Ordering::Relaxed);
                if taken > 8 {
                    self.1.store(0, Ordering::Relaxed);
                }
                Waited::Over
            }
            fn wake(&self, word: &AtomicU32) -> bool {
                self.0.wake(word)
            }
            fn fate(&self, who: &Who) -> Fate {
                self.0.fate(who)
            }
        }
        let word = AtomicU32::new(4);
        let busy = Busy(Clock::default(), &word);
        assert!(take(&word, &busy, 1).is_ok_and(|held| !held.was_taken_over));
    }

    /// Somebody else writes another owner there whenever it is looked at.
    #[test]
    fn a_lock_that_changes_hands_for_ever_is_given_up() {
        struct Vandal<'a>(Clock, &'a AtomicU32);
        impl Os for Vandal<'_> {
            fn now_ns(&self) -> u64 {
                self.0.now_ns()
            }
            fn cpu_ns(&self) -> u64 {
                0
            }
            fn wait(&self, word: &AtomicU32, expected: u32, _until_ns: u64) -> Waited {
                self.1.fetch_add(2, Ordering::Relaxed);
                self.0.wait(word, expected, self.now_ns() + 1_000_000)
            }
            fn wake(&self, word: &AtomicU32) -> bool {
                self.0.wake(word)
            }
            fn fate(&self, who: &Who) -> Fate {
                self.0.fate(who)
            }
        }
        let word = AtomicU32::new(4);
        let vandal = Vandal(Clock::default(), &word);
        assert_eq!(take(&word, &vandal, 1).err(), Some(NeverFree));
        assert!(vandal.now_ns() <= GIVE_UP_NS + TAKE_OVER_NS);
    }
}
