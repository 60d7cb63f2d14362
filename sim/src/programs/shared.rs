// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs share: locks, conditions, barriers. Futexes in reality; who waits sleeps.

use super::Do;
use crate::kernel::Kernel;
use crate::trace::TaskId;
use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
struct Lock {
    owner: Option<TaskId>,
    waiters: VecDeque<TaskId>,
}

#[derive(Default)]
pub(crate) struct Shared {
    locks: BTreeMap<u32, Lock>,
    /// With each waiter the lock that it wants back.
    conditions: BTreeMap<u32, VecDeque<(TaskId, u32)>>,
    barriers: BTreeMap<u32, Vec<TaskId>>,
    /// Sleeping until somebody resumes them.
    suspended: Vec<TaskId>,
    /// The latest multiple of each timer.
    timers: BTreeMap<u32, u64>,
}

impl Shared {
    /// True: the lock is the task's. False: it waits, and has the lock when it is woken.
    pub fn lock(&mut self, lock: u32, task: TaskId) -> bool {
        let lock = self.locks.entry(lock).or_default();
        if lock.owner.is_none() {
            lock.owner = Some(task);
            return true;
        }
        lock.waiters.push_back(task);
        false
    }

    /// Whoever is to be woken has the lock now.
    pub fn unlock(&mut self, lock: u32, task: TaskId) -> Option<TaskId> {
        let lock = self.locks.entry(lock).or_default();
        if lock.owner != Some(task) {
            return None;
        }
        lock.owner = lock.waiters.pop_front();
        lock.owner
    }

    /// Waits for the condition; the lock's next owner is to be woken.
    pub fn wait(&mut self, condition: u32, lock: u32, task: TaskId) -> Option<TaskId> {
        let waiters = self.conditions.entry(condition).or_default();
        waiters.push_back((task, lock));
        self.unlock(lock, task)
    }

    /// Of at most `count` waiters, those that have got their locks.
    pub fn signal(&mut self, condition: u32, count: usize) -> Vec<TaskId> {
        let waiters = self.conditions.entry(condition).or_default();
        let count = count.min(waiters.len());
        let woken: Vec<_> = waiters.drain(..count).collect();
        woken
            .into_iter()
            .filter(|(task, lock)| self.lock(*lock, *task))
            .map(|(task, _)| task)
            .collect()
    }

    /// None: the task waits. Else all others that were waiting.
    pub fn barrier(&mut self, barrier: u32, tasks: u32, task: TaskId) -> Option<Vec<TaskId>> {
        let waiting = self.barriers.entry(barrier).or_default();
        if waiting.len() as u32 + 1 >= tasks {
            return Some(std::mem::take(waiting));
        }
        waiting.push(task);
        None
    }

    /// The timer's next multiple. One that was missed is due at once, and others are counted from it, or from where
    /// it should have been.
    pub fn next_of_timer(
        &mut self,
        timer: u32,
        period_ns: u64,
        absolute: bool,
        now_ns: u64,
    ) -> u64 {
        let at_ns = self.timers.entry(timer).or_insert(now_ns);
        *at_ns += period_ns;
        if *at_ns < now_ns && !absolute {
            *at_ns = now_ns;
        }
        *at_ns
    }

    pub fn suspend(&mut self, task: TaskId) {
        self.suspended.push(task);
    }

    pub fn resume(&mut self, is_wanted: impl Fn(TaskId) -> bool) -> Vec<TaskId> {
        let (woken, stay) = self.suspended.iter().partition(|task| is_wanted(**task));
        self.suspended = stay;
        woken
    }

    fn forget(&mut self, task: TaskId) -> Vec<TaskId> {
        self.suspended.retain(|it| *it != task);
        for waiting in self.barriers.values_mut() {
            waiting.retain(|it| *it != task);
        }
        for waiting in self.conditions.values_mut() {
            waiting.retain(|(it, _)| *it != task);
        }
        let mut woken = Vec::new();
        for lock in self.locks.values_mut() {
            lock.waiters.retain(|it| *it != task);
            if lock.owner == Some(task) {
                lock.owner = lock.waiters.pop_front();
                woken.extend(lock.owner);
            }
        }
        woken
    }
}

/// A task ends: what it holds goes to the next (robust futexes).
pub(crate) fn release(k: &mut Kernel, task: TaskId) {
    for next in k.shared.forget(task) {
        k.wake(next, 0);
    }
}

/// Wakes those of a list, if there are any.
pub(crate) fn wake(tasks: Vec<TaskId>) -> Do {
    if tasks.is_empty() {
        Do::Again
    } else {
        Do::Wake(tasks)
    }
}
