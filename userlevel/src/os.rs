// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host needs from the machine below it. The model has another one, in which members are stopped and killed.

use std::sync::atomic::AtomicU32;

/// No such time.
pub const NEVER: u64 = u64::MAX;

/// Who has a seat.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Who {
    pub pid: u32,
    pub tid: u32,
    /// When its process was started, in the kernel's ticks; 0: unknown.
    pub started: u64,
    /// The namespace that `pid` and `tid` are of; 0: unknown.
    pub pid_space: u64,
}

/// Whether a thread can poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// As far as anybody can see.
    Alive,
    Gone,
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// It was woken, its time has come, or the word was another one already.
    Over,
    /// A signal handler has run.
    Interrupted,
    /// There is no waiting: the kernel refuses to, by a filter of system calls, say; or this is a child by now, which does not
    /// have the memory.
    Refused,
}

/// Mistakes that a model plants, to see that its rules find them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// Nobody looks whether those that have a turn poll.
    NobodyWatches,
    /// A member that does not poll is waited for.
    NobodyIsSkipped,
    /// The lock stays with its owner.
    LockDiesWithOwner,
    /// A member that gets a turn is not woken.
    NobodyIsWoken,
}

pub trait Os {
    /// CLOCK_MONOTONIC.
    fn now_ns(&self) -> u64;
    /// CPU time of the calling thread.
    fn cpu_ns(&self) -> u64;
    /// Sleeps while `word` is `expected`, until then at most.
    fn wait(&self, word: &AtomicU32, expected: u32, until_ns: u64) -> Waited;
    /// Whether the calling thread is to take the CPU from nobody when it is woken: its waker is about to sleep.
    fn be_patient(&self, _is_patient: bool) {}
    /// Wakes one that waits on the word; false: nobody does.
    fn wake(&self, word: &AtomicU32) -> bool;
    fn fate(&self, who: &Who) -> Fate;
    /// Before each access to shared memory: where a model may let others go first.
    #[inline(always)]
    fn step(&self) {}
    /// Whether this mistake is to be made. Never, but in a model.
    #[inline(always)]
    fn makes(&self, _mistake: Mistake) -> bool {
        false
    }
}

#[cfg(test)]
pub mod fake {
    use super::*;
    use std::cell::Cell;

    /// A machine of one thread: time passes where it waits or as the test says; what it wakes is counted.
    #[derive(Default)]
    pub struct Clock {
        pub now_ns: Cell<u64>,
        pub woken: Cell<u32>,
    }

    impl Os for Clock {
        fn now_ns(&self) -> u64 {
            self.now_ns.get()
        }
        fn cpu_ns(&self) -> u64 {
            0
        }
        fn wait(&self, _word: &AtomicU32, _expected: u32, until_ns: u64) -> Waited {
            self.now_ns.set(until_ns.max(self.now_ns.get() + 1));
            Waited::Over
        }
        fn wake(&self, _word: &AtomicU32) -> bool {
            self.woken.set(self.woken.get() + 1);
            true
        }
        fn fate(&self, _who: &Who) -> Fate {
            Fate::Alive
        }
    }
}
