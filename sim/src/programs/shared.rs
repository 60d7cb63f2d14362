// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs share: conditions, barriers, timers. Futexes in reality; a task that waits sleeps.

use super::locks::Locks;
use super::Do;
use crate::ffi::SCX_WAKE_SYNC;
use crate::kernel::Kernel;
use crate::trace::TaskId;
use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
pub(crate) struct Shared {
    pub locks: Locks,
    /// With each waiter the lock that it wants back.
    conditions: BTreeMap<u32, VecDeque<(TaskId, u32)>>,
    barriers: BTreeMap<u32, Vec<TaskId>>,
    /// Sleeping until somebody resumes them.
    suspended: Vec<TaskId>,
    /// The latest multiple of each timer.
    timers: BTreeMap<u32, u64>,
    queues: BTreeMap<u32, Queue>,
}

/// A bounded queue between tasks.
#[derive(Default)]
struct Queue {
    level: u32,
    /// Who put the last item into it.
    producer: Option<TaskId>,
    putters: Vec<TaskId>,
    takers: Vec<TaskId>,
}

/// What came of putting an item into a queue, or taking one.
pub(crate) struct Passed {
    pub level: u32,
    pub producer: Option<TaskId>,
    /// Who waited for that.
    pub woken: Vec<TaskId>,
}

impl Shared {
    /// The task waits for the condition, and then for the lock.
    pub fn wait(&mut self, condition: u32, lock: u32, task: TaskId) {
        let waiters = self.conditions.entry(condition).or_default();
        waiters.push_back((task, lock));
    }

    /// At most `count` of those that wait do not any more: with each the lock that it wants back.
    pub fn waiters(&mut self, condition: u32, count: usize) -> Vec<(TaskId, u32)> {
        let waiters = self.conditions.entry(condition).or_default();
        let count = count.min(waiters.len());
        waiters.drain(..count).collect()
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

    /// None: it is full, and the task waits.
    pub fn put(&mut self, queue: u32, capacity: u32, task: TaskId) -> Option<Passed> {
        let queue = self.queues.entry(queue).or_default();
        queue.producer = Some(task);
        if queue.level >= capacity {
            queue.putters.push(task);
            return None;
        }
        queue.level += 1;
        Some(Passed {
            level: queue.level,
            producer: queue.producer,
            woken: std::mem::take(&mut queue.takers),
        })
    }

    /// None: it is empty, and the task waits.
    pub fn take(&mut self, queue: u32, task: TaskId) -> Option<Passed> {
        let queue = self.queues.entry(queue).or_default();
        if queue.level == 0 {
            queue.takers.push(task);
            return None;
        }
        queue.level -= 1;
        Some(Passed {
            level: queue.level,
            producer: queue.producer,
            woken: std::mem::take(&mut queue.putters),
        })
    }

    fn forget(&mut self, task: TaskId) {
        for queue in self.queues.values_mut() {
            queue.putters.retain(|it| *it != task);
            queue.takers.retain(|it| *it != task);
        }
        self.suspended.retain(|it| *it != task);
        for waiting in self.barriers.values_mut() {
            waiting.retain(|it| *it != task);
        }
        for waiting in self.conditions.values_mut() {
            waiting.retain(|(it, _)| *it != task);
        }
    }
}

/// A task ends.
pub(crate) fn release(k: &mut Kernel, task: TaskId) {
    k.shared.forget(task);
    k.release_locks(task);
}

/// Wakes those of a list, if there are any.
pub(crate) fn wake(tasks: Vec<TaskId>) -> Do {
    wake_as(tasks, 0)
}

/// The same of those to whom something is passed on: whoever does that is likely to wait itself next.
pub(crate) fn pass(tasks: Vec<TaskId>) -> Do {
    wake_as(tasks, SCX_WAKE_SYNC)
}

fn wake_as(tasks: Vec<TaskId>, how: u32) -> Do {
    if tasks.is_empty() {
        Do::Again
    } else {
        Do::Wake(tasks, how)
    }
}
