// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is changed about a task while it lives: nice value, affinity, class, cgroup, migration. As in core.c: a change takes
//! the task off its queue, changes it, and puts it back (DEQUEUE_SAVE, ENQUEUE_RESTORE).

use super::{Dsq, Irq, Kernel, Life};
use crate::ffi::{cpumask, SCX_DEQ_SAVE, SCX_ENQ_HEAD, SCX_ENQ_NOCLOCK, SCX_ENQ_RESTORE};
use crate::setup::{Cpu, Policy};
use crate::trace::{TaskId, What};

const MIGRATION_DISABLED_MAX: u16 = 1_000;

impl Kernel {
    /// Calls `change` with the task off its queue and the run queue locked.
    pub(crate) fn change_task(&mut self, task: TaskId, change: impl FnOnce(&mut Self)) {
        let cpu = self.task_rq_lock(task);
        self.change_locked(task, cpu, change);
        self.task_rq_unlock(task, cpu);
    }

    fn change_locked(&mut self, task: TaskId, cpu: Cpu, change: impl FnOnce(&mut Self)) {
        let queued = self.tasks[task as usize].on_rq;
        self.tasks[task as usize].changed_since_ns = self.now_ns;
        let running = self.cpus[cpu as usize].current == Some(task);
        if queued {
            self.dequeue_task(task, u64::from(SCX_DEQ_SAVE));
        }
        if running {
            self.update_current(cpu);
        }
        change(self);
        if queued {
            self.enqueue_task(task, SCX_ENQ_RESTORE | SCX_ENQ_NOCLOCK);
        }
        if running {
            // The kernel's clock stands still meanwhile; here the callbacks have taken time.
            self.update_current(cpu);
            self.set_next(cpu, task);
        }
    }

    pub(crate) fn set_nice(&mut self, task: TaskId, nice: i32) {
        if self.tasks[task as usize].life == Life::Dead {
            return;
        }
        self.change_task(task, |k| {
            k.tasks[task as usize].c.static_prio = 120 + nice.clamp(-20, 19);
            if k.tasks[task as usize].enabled {
                k.tell_weight(task);
            }
        });
    }

    /// sched_setattr: the runtime of an ordinary task is the slice that it asks for.
    pub(crate) fn set_asked_slice(&mut self, task: TaskId, slice_ns: Option<u64>) {
        self.change_task(task, |k| {
            k.tasks[task as usize].asked_slice_ns = slice_ns;
            if k.tasks[task as usize].enabled {
                k.tell_weight(task);
            }
        });
    }

    pub(crate) fn tell_weight(&mut self, task: TaskId) {
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        unsafe { (*scheduler).set_weight(self, task) };
    }

    pub(crate) fn move_to_cgroup(&mut self, task: TaskId, cgroup: usize) {
        let from = self.tasks[task as usize].cgroup;
        if from == cgroup
            || !self.cgroups[cgroup].online
            || matches!(self.tasks[task as usize].life, Life::Dead | Life::Ending)
        {
            return;
        }
        self.change_task(task, |k| {
            let group: *mut crate::ffi::task_group = &mut *k.cgroups[cgroup].group;
            k.tasks[task as usize].cgroup = cgroup;
            if k.is_limited(from) {
                k.tasks[task as usize].allowed_since_ns = k.now_ns;
            }
            k.tasks[task as usize].c.sched_task_group = group;
            if k.tasks[task as usize].enabled {
                let scheduler = k.scheduler();
                // SAFETY: the scheduler lives as long as the kernel.
                unsafe { (*scheduler).cgroup_move(k, task, from, cgroup) };
            }
        });
        let cpu = self.tasks[task as usize].cpu;
        if self.cpus[cpu as usize].current == Some(task) {
            self.resched(cpu);
        }
    }

    pub(crate) fn set_cgroup_weight(&mut self, cgroup: usize, weight: u32) {
        self.cgroups[cgroup].weight = weight;
        if !self.attached {
            return;
        }
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        unsafe { (*scheduler).cgroup_set_weight(self, cgroup, weight) };
    }

    /// Between the scheduler's class and a higher one.
    pub(crate) fn set_policy(&mut self, task: TaskId, policy: Policy) {
        self.tasks[task as usize].own_policy = policy;
        if !self.inherit(task) {
            return;
        }
        if let Some(lock) = self.tasks[task as usize].blocked_on {
            self.inherit_along(lock);
        }
    }

    /// rt_mutex_setprio, and what sched_setscheduler does.
    pub(crate) fn change_policy(&mut self, task: TaskId) {
        self.change_task(task, |k| {
            let policy = k.inherited_policy(task);
            if policy == k.tasks[task as usize].policy {
                return;
            }
            if policy != Policy::Normal {
                k.disable(task);
            }
            k.tasks[task as usize].policy = policy;
            if policy == Policy::Normal && k.attached {
                k.enable(task);
            }
        });
        let cpu = self.tasks[task as usize].cpu;
        self.resched(cpu);
    }

    pub(crate) fn set_affinity(&mut self, task: TaskId, mask: cpumask) {
        let mask = mask.and(&cpumask::of(0..self.machine.cpus()));
        if mask.and(&self.online).is_empty() || self.tasks[task as usize].life == Life::Dead {
            return; // EINVAL, ESRCH
        }
        let cpu = self.task_rq_lock(task);
        self.change_locked(task, cpu, |k| k.set_mask(task, mask));
        self.leave_forbidden_cpu(task, cpu);
    }

    pub(crate) fn set_mask(&mut self, task: TaskId, mask: cpumask) {
        let now_ns = self.now_ns;
        let state = &mut self.tasks[task as usize];
        state.allowed = mask;
        state.allowed_since_ns = now_ns;
        state.c.cpus_mask = mask;
        state.c.nr_cpus_allowed = mask.count() as i32;
    }

    /// Ends with both locks free. A task that runs where it may not is moved by the CPU itself, one that waits by us.
    fn leave_forbidden_cpu(&mut self, task: TaskId, cpu: Cpu) {
        let state = &self.tasks[task as usize];
        if state.allowed.has(cpu) {
            return self.task_rq_unlock(task, cpu);
        }
        if self.cpus[cpu as usize].current == Some(task) {
            // Where its migration is disabled, maybe by a callback that runs now: the stopper looks at that.
            self.task_rq_unlock(task, cpu);
            let at_ns = self.now_ns + self.costs.ipi_ns;
            return self.interrupt_at(cpu, at_ns, Irq::MoveAway(task));
        }
        if state.c.migration_disabled != 0 {
            return self.task_rq_unlock(task, cpu);
        }
        if state.on_rq {
            let to = self.fallback_cpu(task);
            self.move_queued(task, cpu, to);
            return self.task_rq_unlock(task, to);
        }
        self.task_rq_unlock(task, cpu);
    }

    /// The stopper of this CPU pushes a task to where it may run.
    pub(crate) fn move_away(&mut self, cpu: Cpu, task: TaskId) {
        self.spend(self.costs.interrupt_ns);
        self.pi_lock(task);
        self.rq_lock(cpu);
        let state = &self.tasks[task as usize];
        let must = state.cpu == cpu
            && state.on_rq
            && (!state.allowed.has(cpu) || !self.online.has(cpu))
            && state.c.migration_disabled == 0;
        if !must || state.life == Life::Ending {
            return self.task_rq_unlock(task, cpu);
        }
        if self.cpus[cpu as usize].current == Some(task) {
            self.stop_current(cpu, task);
        }
        let to = self.fallback_cpu(task);
        if to == cpu {
            return self.task_rq_unlock(task, cpu);
        }
        self.move_queued(task, cpu, to);
        self.task_rq_unlock(task, to);
    }

    /// The stopper's class is above all others.
    fn stop_current(&mut self, cpu: Cpu, task: TaskId) {
        self.update_current(cpu);
        let was_realtime = self.tasks[task as usize].is_realtime();
        if was_realtime {
            self.queue_above(cpu, task, true);
        } else if self.tasks[task as usize].is_queued() {
            self.tasks[task as usize].waits_since_ns = self.now_ns;
            if self.tasks[task as usize].c.scx.slice > 0 {
                self.dispatch_enqueue(Dsq::Local(cpu), task, SCX_ENQ_HEAD);
            } else {
                self.do_enqueue(task, 0, None);
            }
        }
        self.tasks[task as usize].on_cpu = false;
        self.set_current(cpu, None);
        self.cpus[cpu as usize].idle_since_ns = self.now_ns;
        self.cpus[cpu as usize].need_resched = true;
        // A CPU that goes offline is emptied by another one.
        let switch = What::Switch {
            prev: Some((task, crate::trace::Left::Preempted)),
            next: None,
        };
        self.emit_of(cpu, switch);
        if !was_realtime && self.attached && !self.cpus[cpu as usize].released {
            self.cpus[cpu as usize].released = true;
            let scheduler = self.scheduler();
            // SAFETY: the scheduler lives as long as the kernel.
            unsafe { (*scheduler).cpu_release(self, cpu) };
        }
    }

    /// scx_bpf_reenqueue_local: what waits in this CPU's local queue goes back to the scheduler.
    pub fn reenqueue_local(&mut self) -> u32 {
        let cpu = self.this_cpu;
        let waiting: Vec<TaskId> = self.cpus[cpu as usize].local.iter().copied().collect();
        let mut count = 0;
        for task in waiting {
            let state = &self.tasks[task as usize];
            let is_leaving = !state.allowed.has(cpu) && state.c.migration_disabled == 0;
            if is_leaving {
                continue;
            }
            self.dispatch_dequeue(task);
            self.do_enqueue(task, crate::ffi::SCX_ENQ_REENQ, None);
            count += 1;
        }
        count
    }

    /// Programs may do this again and again; the kernel's own code nests a few deep.
    pub(crate) fn migrate_disable(&mut self, task: TaskId) {
        let disabled = &mut self.tasks[task as usize].c.migration_disabled;
        if *disabled < MIGRATION_DISABLED_MAX {
            *disabled += 1;
        }
    }

    pub(crate) fn migrate_enable(&mut self, task: TaskId) {
        let index = task as usize;
        if self.tasks[index].c.migration_disabled == 0 {
            return;
        }
        if self.tasks[index].c.migration_disabled > 1 {
            self.tasks[index].c.migration_disabled -= 1;
            return;
        }
        if self.is_pinned(task) {
            // The mask that was set aside holds again, as by a change of affinity.
            let cpu = self.task_rq_lock(task);
            self.change_locked(task, cpu, |k| k.point_to_own_mask(task));
            self.task_rq_unlock(task, cpu);
        }
        self.tasks[index].c.migration_disabled = 0;
        self.tasks[index].allowed_since_ns = self.now_ns;
        let cpu = self.tasks[index].cpu;
        if !self.tasks[index].allowed.has(cpu) || !self.online.has(cpu) {
            self.interrupt_at(cpu, self.now_ns, Irq::MoveAway(task));
        }
    }

    fn is_pinned(&self, task: TaskId) -> bool {
        let c = &self.tasks[task as usize].c;
        !std::ptr::eq(c.cpus_ptr, &c.cpus_mask)
    }

    pub(crate) fn point_to_own_mask(&mut self, task: TaskId) {
        let c = &mut self.tasks[task as usize].c;
        c.cpus_ptr = &c.cpus_mask;
    }

    /// migrate_disable_switch: a task that is about to leave the CPU with migration disabled keeps only this one.
    pub(crate) fn pin_where_migration_is_disabled(&mut self, cpu: Cpu, task: TaskId) {
        let state = &self.tasks[task as usize];
        if state.c.migration_disabled == 0 || self.is_pinned(task) {
            return;
        }
        let mask: *const cpumask = &self.single[cpu as usize];
        let locked = self.task_rq_lock(task);
        self.change_locked(task, locked, |k| k.tasks[task as usize].c.cpus_ptr = mask);
        self.task_rq_unlock(task, locked);
    }
}
