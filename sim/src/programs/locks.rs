// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks of programs. Where nobody is in the way, no scheduler is asked; a task that has to wait sleeps.
//!
//! Most are ordinary futexes: who unlocks gives the lock to the first that waits. Those of `Setup::pi_locks` are the
//! kernel's, see `kernel/rt_mutex.rs`. Both are robust: a task that waits for one that ends has the lock.

use super::STEP_NS;
use crate::kernel::{Kernel, Life, Locking, NEVER_NS};
use crate::setup::Cpu;
use crate::trace::TaskId;
use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
struct Lock {
    owner: Option<TaskId>,
    waiters: VecDeque<TaskId>,
}

/// The ordinary ones.
#[derive(Default)]
pub(crate) struct Locks(BTreeMap<u32, Lock>);

impl Locks {
    /// A waiter has the lock when it is woken, unless that is for another reason.
    fn lock(&mut self, lock: u32, task: TaskId) -> Locking {
        let lock = self.0.entry(lock).or_default();
        if lock.owner.is_none() {
            lock.owner = Some(task);
            return Locking::Taken;
        }
        lock.waiters.push_back(task);
        Locking::Waits
    }

    /// The task that is to be woken has the lock now.
    fn unlock(&mut self, lock: u32, task: TaskId) -> Option<TaskId> {
        let lock = self.0.entry(lock).or_default();
        if lock.owner != Some(task) {
            return None;
        }
        lock.owner = lock.waiters.pop_front();
        lock.owner
    }

    fn waits(&self, lock: u32, task: TaskId) -> bool {
        let waiters = self.0.get(&lock).map(|lock| &lock.waiters);
        waiters.is_some_and(|waiters| waiters.contains(&task))
    }

    fn give_up(&mut self, lock: u32, task: TaskId) {
        let waiters = self.0.get_mut(&lock).map(|lock| &mut lock.waiters);
        if let Some(waiters) = waiters {
            waiters.retain(|it| *it != task);
        }
    }

    fn forget(&mut self, task: TaskId) -> Vec<TaskId> {
        let mut woken = Vec::new();
        for lock in self.0.values_mut() {
            lock.waiters.retain(|it| *it != task);
            if lock.owner == Some(task) {
                lock.owner = lock.waiters.pop_front();
                woken.extend(lock.owner);
            }
        }
        woken
    }
}

/// What a task waits for, and until when.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub lock: u32,
    pub until_ns: u64,
}

impl Kernel {
    fn inherits(&self, lock: u32) -> bool {
        self.setup.pi_locks.contains(&lock)
    }

    /// The current task asks for a lock. After a refusal, or where the time is over, it goes on without.
    pub(super) fn take_lock(&mut self, cpu: Cpu, task: TaskId, wanted: Wanted) {
        let is_pi = self.inherits(wanted.lock);
        let locking = match is_pi {
            true => self.rt_mutex_lock(wanted.lock, task),
            false => self.shared.locks.lock(wanted.lock, task),
        };
        match locking {
            Locking::Taken => self.spend(STEP_NS),
            Locking::Refused => self.spend(self.costs.syscall_ns),
            Locking::Waits => self.wait_for(cpu, task, wanted),
        }
    }

    /// A task that has waited for a lock runs again. False: it goes on waiting.
    pub(super) fn has_waited(&mut self, cpu: Cpu, task: TaskId) -> bool {
        let Some(wanted) = self.tasks[task as usize].wants.take() else {
            return true;
        };
        let is_pi = self.inherits(wanted.lock);
        let waits = match is_pi {
            true => self.rt_mutex_lock(wanted.lock, task) == Locking::Waits,
            false => self.shared.locks.waits(wanted.lock, task),
        };
        if waits && wanted.until_ns > self.now_ns {
            self.wait_for(cpu, task, wanted);
            return false;
        }
        if waits && is_pi {
            // It would have taken a lock that nobody has: nobody else is to be woken.
            self.rt_mutex_give_up(task);
        } else if waits {
            self.shared.locks.give_up(wanted.lock, task);
        }
        true
    }

    /// Sleeps before anything takes time: whoever unlocks meanwhile must find it asleep.
    fn wait_for(&mut self, cpu: Cpu, task: TaskId, wanted: Wanted) {
        let state = &mut self.tasks[task as usize];
        state.wants = Some(wanted);
        state.life = Life::Sleeping;
        if wanted.until_ns != NEVER_NS {
            self.wake_at(cpu, task, wanted.until_ns);
        }
        if self.inherits(wanted.lock) {
            self.rt_mutex_blocks(wanted.lock, task);
        }
        self.fall_asleep(cpu);
    }

    /// pthread_cond_wait.
    pub(super) fn await_condition(&mut self, cpu: Cpu, task: TaskId, condition: u32, lock: u32) {
        self.shared.wait(condition, lock, task);
        self.tasks[task as usize].life = Life::Sleeping;
        if let Some(next) = self.give_lock(lock, task) {
            self.wake_later(next);
        }
        self.fall_asleep(cpu);
    }

    /// Of at most `count` that wait for a condition, those that are to be woken.
    pub(super) fn signal(&mut self, condition: u32, count: usize) -> Vec<TaskId> {
        let waiters = self.shared.waiters(condition, count);
        let woken = waiters
            .into_iter()
            .filter(|(task, lock)| self.want_back(*lock, *task));
        woken.map(|(task, _)| task).collect()
    }

    /// Who is to be woken: it has the lock, or the right to take it.
    pub(super) fn give_lock(&mut self, lock: u32, task: TaskId) -> Option<TaskId> {
        match self.inherits(lock) {
            true => self.rt_mutex_unlock(lock, task),
            false => self.shared.locks.unlock(lock, task),
        }
    }

    /// Of who has waited for a condition. True: it is to be woken.
    fn want_back(&mut self, lock: u32, task: TaskId) -> bool {
        if !self.inherits(lock) {
            return self.shared.locks.lock(lock, task) == Locking::Taken;
        }
        let until_ns = NEVER_NS;
        self.tasks[task as usize].wants = Some(Wanted { lock, until_ns });
        true
    }

    /// A task ends.
    pub(super) fn release_locks(&mut self, task: TaskId) {
        for next in self.shared.locks.forget(task) {
            self.wake(next, 0);
        }
        for next in self.rt_mutex_exit(task) {
            self.wake(next, 0);
        }
    }
}
