// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks whose owners inherit from who waits for them. As in futex/pi.c and locking/rtmutex.c: futex_lock_pi,
//! try_to_take_rt_mutex, task_blocks_on_rt_mutex, rt_mutex_adjust_prio_chain, exit_pi_state_list.
//!
//! Who has to wait is known by `task_struct.pi_blocked_on` until it has the lock, or runs again without it. An unlock
//! leaves the lock without an owner, and wakes the first waiter, which takes it when it runs. A task that comes meanwhile may
//! take it only if it is of a higher class. While who is of a higher class waits, the owner is of that class.
//!
//! Left out: requeueing from conditions (FUTEX_CMP_REQUEUE_PI, which glibc does not use), the order by nice and
//! real-time priorities, of which there is one each, and adaptive spinning.

use super::{Kernel, Life};
use crate::ffi::{rb_node, rt_mutex_base, task_struct};
use crate::setup::Policy;
use crate::trace::TaskId;

/// RT_MUTEX_HAS_WAITERS, in the owner's address.
const HAS_WAITERS: usize = 1;

/// What comes of an attempt to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locking {
    Taken,
    /// Waits, until somebody wakes it to try again.
    Waits,
    /// EDEADLK: the owner waits, perhaps by way of others, for who asks.
    Refused,
}

#[derive(Default)]
pub(crate) struct RtMutex {
    /// What the scheduler sees; waiters point to it.
    c: Box<rt_mutex_base>,
    /// None while there are waiters: the first of them is about to take it.
    owner: Option<TaskId>,
    /// First come, first.
    waiters: Vec<TaskId>,
}

impl Kernel {
    fn rt_mutex(&mut self, lock: u32) -> &mut RtMutex {
        self.rt_mutexes.entry(lock).or_default()
    }

    /// Also for who was woken, to try again.
    pub(crate) fn rt_mutex_lock(&mut self, lock: u32, task: TaskId) -> Locking {
        let first = self.first_waiter(lock);
        let owner = self.rt_mutex(lock).owner;
        let may_take = |first: TaskId| first == task || self.rank(task) > self.rank(first);
        if owner.is_none() && first.is_none_or(may_take) {
            self.stop_waiting(task);
            self.rt_mutex(lock).owner = Some(task);
            self.publish(lock);
            return Locking::Taken;
        }
        if self.tasks[task as usize].blocked_on.is_some() {
            return Locking::Waits;
        }
        if self.leads_to(lock, task) {
            return Locking::Refused;
        }
        self.rt_mutex(lock).waiters.push(task);
        self.publish(lock);
        let base: *mut rt_mutex_base = &mut *self.rt_mutex(lock).c;
        let state = &mut self.tasks[task as usize];
        state.blocked_on = Some(lock);
        state.waiter.task = &mut *state.c;
        state.waiter.lock = base;
        state.c.pi_blocked_on = &mut *state.waiter;
        Locking::Waits
    }

    /// The task waits for it since just now, and is asleep already.
    pub(crate) fn rt_mutex_blocks(&mut self, lock: u32, task: TaskId) {
        if self.first_waiter(lock) == Some(task) {
            self.inherit_along(lock);
        }
    }

    /// Who is to be woken. None: nobody waits, or the lock is not the task's.
    pub(crate) fn rt_mutex_unlock(&mut self, lock: u32, task: TaskId) -> Option<TaskId> {
        if self.rt_mutex(lock).owner != Some(task) {
            return None;
        }
        self.rt_mutex(lock).owner = None;
        self.publish(lock);
        self.publish_first(task);
        let first = self.first_waiter(lock);
        if first.is_some() {
            self.inherit(task);
        }
        first
    }

    /// The task does not wait any more, whatever it has waited for. Who is to be woken, as it would have been now.
    pub(crate) fn rt_mutex_give_up(&mut self, task: TaskId) -> Option<TaskId> {
        let lock = self.tasks[task as usize].blocked_on?;
        let was_first = self.first_waiter(lock) == Some(task);
        self.stop_waiting(task);
        if !was_first {
            return None;
        }
        if self.rt_mutex(lock).owner.is_none() {
            return self.first_waiter(lock);
        }
        self.inherit_along(lock);
        None
    }

    /// A task ends: those that it leaves locks to are to be woken (FUTEX_OWNER_DIED).
    pub(crate) fn rt_mutex_exit(&mut self, task: TaskId) -> Vec<TaskId> {
        let mut woken: Vec<TaskId> = self.rt_mutex_give_up(task).into_iter().collect();
        let owned = |mutex: &RtMutex| mutex.owner == Some(task);
        let locks: Vec<u32> = self
            .rt_mutexes
            .iter()
            .filter(|it| owned(it.1))
            .map(|it| *it.0)
            .collect();
        for lock in locks {
            woken.extend(self.rt_mutex_unlock(lock, task));
        }
        woken
    }

    /// rt_mutex_adjust_prio_chain: the lock's owner is of the class of the highest that waits for it, and so on.
    pub(crate) fn inherit_along(&mut self, lock: u32) {
        let mut owner = self.rt_mutex(lock).owner;
        while let Some(task) = owner {
            if !self.inherit(task) {
                return;
            }
            let next = self.tasks[task as usize].blocked_on;
            owner = next.and_then(|lock| self.rt_mutex(lock).owner);
        }
    }

    /// rt_mutex_adjust_prio. Whether the task is of another class now.
    pub(crate) fn inherit(&mut self, task: TaskId) -> bool {
        let top: *mut task_struct = match self.first_waiter_of(task) {
            Some(waiter) => &mut *self.tasks[waiter as usize].c,
            None => std::ptr::null_mut(),
        };
        self.tasks[task as usize].c.pi_top_task = top;
        let is_there = !matches!(self.tasks[task as usize].life, Life::Dead | Life::Ending);
        let policy = self.inherited_policy(task);
        if !is_there || policy == self.tasks[task as usize].policy {
            return false;
        }
        self.change_policy(task);
        if let Some(lock) = self.tasks[task as usize].blocked_on {
            self.publish(lock);
        }
        true
    }

    /// The highest of its own and those of who waits for it.
    pub(crate) fn inherited_policy(&self, task: TaskId) -> Policy {
        let own = self.tasks[task as usize].own_policy;
        let first = self.first_waiter_of(task);
        first.map_or(own, |first| own.max(self.tasks[first as usize].policy))
    }

    fn rank(&self, task: TaskId) -> u32 {
        self.tasks[task as usize].rank()
    }

    fn first_waiter(&self, lock: u32) -> Option<TaskId> {
        self.first_of(self.rt_mutexes.get(&lock)?.waiters.iter())
    }

    /// Of those that wait for any lock that the task has.
    fn first_waiter_of(&self, task: TaskId) -> Option<TaskId> {
        let owned = self.rt_mutexes.values().filter(|it| it.owner == Some(task));
        self.first_of(owned.flat_map(|it| it.waiters.iter()))
    }

    fn first_of<'a>(&self, waiters: impl Iterator<Item = &'a TaskId>) -> Option<TaskId> {
        let rank = |task: &&TaskId| std::cmp::Reverse(self.rank(**task));
        waiters.min_by_key(rank).copied()
    }

    fn leads_to(&self, lock: u32, task: TaskId) -> bool {
        let mut lock = Some(lock);
        while let Some(owner) = lock.and_then(|lock| self.rt_mutexes.get(&lock)?.owner) {
            if owner == task {
                return true;
            }
            lock = self.tasks[owner as usize].blocked_on;
        }
        false
    }

    fn stop_waiting(&mut self, task: TaskId) -> Option<u32> {
        let state = &mut self.tasks[task as usize];
        let lock = state.blocked_on.take()?;
        state.c.pi_blocked_on = std::ptr::null_mut();
        // It is on the stack of who waits, and gone then.
        state.waiter.lock = std::ptr::null_mut();
        self.rt_mutex(lock).waiters.retain(|it| *it != task);
        self.publish(lock);
        Some(lock)
    }

    /// For the scheduler to see: the owner, and who is first.
    fn publish(&mut self, lock: u32) {
        let owner = self.rt_mutex(lock).owner;
        let first = self.first_waiter(lock);
        let c: *mut task_struct = match owner {
            Some(task) => &mut *self.tasks[task as usize].c,
            None => std::ptr::null_mut(),
        };
        let leftmost: *mut rb_node = match first {
            Some(task) => &mut self.tasks[task as usize].waiter.tree.entry,
            None => std::ptr::null_mut(),
        };
        let bits = if first.is_some() { HAS_WAITERS } else { 0 };
        let mutex = self.rt_mutex(lock);
        mutex.c.owner = c.map_addr(|address| address | bits);
        mutex.c.waiters.rb_leftmost = leftmost;
        if let Some(owner) = owner {
            self.publish_first(owner);
        }
    }

    fn publish_first(&mut self, owner: TaskId) {
        let leftmost: *mut rb_node = match self.first_waiter_of(owner) {
            Some(task) => &mut self.tasks[task as usize].waiter.pi_tree.entry,
            None => std::ptr::null_mut(),
        };
        self.tasks[owner as usize].c.pi_waiters.rb_leftmost = leftmost;
    }
}
