// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who holds a runnable task: the scheduler, a queue of the kernel, or the CPU that runs it. As in ext.c:
//! enqueue_task_scx, do_enqueue_task, dequeue_task_scx, ops_dequeue, dispatch_enqueue, dispatch_dequeue.

use super::{Custody, Dsq, Kernel, NEVER_NS, SLICE_DEFAULT_NS};
use crate::ffi::{
    SCX_DEQ_SLEEP, SCX_DSQ_GLOBAL, SCX_DSQ_LOCAL, SCX_ENQ_HEAD, SCX_ENQ_MIGRATED, SCX_ENQ_PREEMPT,
    SCX_ENQ_RESTORE, SCX_TASK_QUEUED,
};
use crate::setup::Cpu;
use crate::trace::{TaskId, What};

pub(crate) const DSQ_LOCAL_ON: u64 = 1 << 62;

impl Kernel {
    /// With the lock of the task's run queue held.
    pub(crate) fn enqueue_task(&mut self, task: TaskId, flags: u64) {
        let index = task as usize;
        let cpu = self.tasks[index].cpu;
        let mut sticky = self.tasks[index].sticky_cpu.take();
        self.tasks[index].on_rq = true;
        if self.tasks[index].is_realtime() {
            self.cpus[cpu as usize].rq.nr_running += 1;
            if self.cpus[cpu as usize].current != Some(task) {
                self.queue_above(cpu, task, false);
            }
            return;
        }
        if flags & SCX_ENQ_RESTORE != 0 && self.cpus[cpu as usize].current == Some(task) {
            sticky = Some(cpu);
        }
        if self.tasks[index].is_queued() {
            return;
        }
        self.tasks[index].c.scx.flags |= SCX_TASK_QUEUED;
        self.cpus[cpu as usize].rq.nr_running += 1;
        self.cpus[cpu as usize].rq.scx.nr_running += 1;
        self.begin_waiting(task);
        self.do_enqueue(task, flags, sticky);
    }

    /// Into the queue of the classes above: by class, and in its own first or last.
    pub(crate) fn queue_above(&mut self, cpu: Cpu, task: TaskId, first: bool) {
        let rank = self.tasks[task as usize].rank();
        let tasks = &self.tasks;
        let goes_before = |other: &TaskId| {
            let other = tasks[*other as usize].rank();
            other > rank || (!first && other == rank)
        };
        let queue = &mut self.cpus[cpu as usize].realtime;
        let at = queue.iter().take_while(|it| goes_before(it)).count();
        queue.insert(at, task);
    }

    /// A task that waits is counted from when it began to.
    pub(crate) fn begin_waiting(&mut self, task: TaskId) {
        let now_ns = self.now_ns;
        let is_current = self.cpus[self.tasks[task as usize].cpu as usize].current == Some(task);
        let task = &mut self.tasks[task as usize];
        if task.waits_since_ns == NEVER_NS && !(is_current && task.on_cpu) {
            task.waits_since_ns = now_ns;
        }
    }

    pub(crate) fn do_enqueue(&mut self, task: TaskId, flags: u64, sticky: Option<Cpu>) {
        let index = task as usize;
        let cpu = self.tasks[index].cpu;
        if sticky == Some(cpu) {
            return self.dispatch_enqueue(Dsq::Local(cpu), task, flags);
        }
        let scheduler = self.scheduler();
        let ends = self.tasks[index].c.flags & crate::ffi::PF_EXITING != 0;
        // SAFETY: the scheduler lives as long as the kernel.
        if !self.cpus[cpu as usize].online || (ends && unsafe { !(*scheduler).takes_ending() }) {
            // From another CPU's queue, maybe: nobody has told the scheduler that it is there no more.
            self.tasks[index].was_overtaken = true;
            self.tasks[index].c.scx.slice = SLICE_DEFAULT_NS;
            return self.dispatch_enqueue(Dsq::Local(cpu), task, flags);
        }
        if self.bypass {
            self.tasks[index].c.scx.slice = SLICE_DEFAULT_NS;
            return self.dispatch_enqueue(Dsq::Local(cpu), task, flags);
        }
        if let Some((dsq, direct_flags)) = self.tasks[index].direct.take() {
            return self.direct_dispatch(task, dsq, direct_flags | flags);
        }
        let state = &mut self.cpus[cpu as usize];
        state.enqueue_number += 1;
        let number = state.enqueue_number;
        self.tasks[index].custody = Custody::Queueing(number);
        self.tasks[index].was_overtaken = false;
        let this = self.this_cpu as usize;
        self.cpus[this].direct_task = Some(task);
        // SAFETY: the scheduler lives as long as the kernel.
        unsafe { (*scheduler).enqueue(self, task, flags) };
        self.cpus[this].direct_task = None;
        if let Some((dsq, direct_flags)) = self.tasks[index].direct.take() {
            return self.direct_dispatch(task, dsq, direct_flags | flags);
        }
        self.tasks[index].custody = Custody::Scheduler(number);
    }

    fn direct_dispatch(&mut self, task: TaskId, dsq: u64, flags: u64) {
        let cpu = self.tasks[task as usize].cpu;
        let dsq = match dsq {
            dsq if dsq == SCX_DSQ_LOCAL as u64 => Dsq::Local(cpu),
            dsq if dsq == SCX_DSQ_GLOBAL as u64 => Dsq::Global,
            other => {
                self.eject(format!("invalid DSQ id {other:#x} in a direct dispatch"));
                Dsq::Global
            }
        };
        self.begin_run(task);
        self.dispatch_enqueue(dsq, task, flags);
        self.tasks[task as usize].custody = Custody::None;
    }

    pub(crate) fn dispatch_enqueue(&mut self, dsq: Dsq, task: TaskId, flags: u64) {
        if let Some(already) = self.tasks[task as usize].dsq {
            let name = self.task_name(task);
            self.violate(
                "two-places",
                format!("{name} is put into {dsq:?} while it is in {already:?}"),
            );
            return;
        }
        self.tasks[task as usize].dsq = Some(dsq);
        let at_head = flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT) != 0;
        let queue = match dsq {
            Dsq::Local(cpu) => &mut self.cpus[cpu as usize].local,
            Dsq::Global => &mut self.global,
        };
        if at_head {
            queue.push_front(task);
        } else {
            queue.push_back(task);
        }
        if let Dsq::Local(cpu) = dsq {
            self.after_local(cpu, task, flags);
        }
    }

    /// A task in a CPU's local queue: what runs there may have to go.
    fn after_local(&mut self, cpu: Cpu, task: TaskId, flags: u64) {
        if self.cpus[cpu as usize].in_balance {
            return;
        }
        match self.cpus[cpu as usize].current {
            None => self.resched(cpu),
            Some(current) if current != task && !self.tasks[current as usize].is_realtime() => {
                if flags & SCX_ENQ_PREEMPT != 0 {
                    self.tasks[current as usize].c.scx.slice = 0;
                    self.resched(cpu);
                }
            }
            Some(_) => {}
        }
    }

    pub(crate) fn dispatch_dequeue(&mut self, task: TaskId) {
        let state = &mut self.tasks[task as usize];
        match state.dsq.take() {
            // Somebody is moving it: he finds out that he is too late.
            None => state.holding_cpu = None,
            Some(Dsq::Local(cpu)) => self.cpus[cpu as usize].local.retain(|it| *it != task),
            Some(Dsq::Global) => self.global.retain(|it| *it != task),
        }
    }

    /// The scheduler does not hold the task any more; if somebody is just taking it over, that is waited for.
    pub(crate) fn take_custody(&mut self, task: TaskId, flags: u64) {
        self.sync();
        match self.tasks[task as usize].custody {
            Custody::None => {}
            Custody::Queueing(_) => {
                let name = self.task_name(task);
                self.violate("model", format!("{name} is dequeued while it is enqueued"));
            }
            Custody::Scheduler(_) => {
                let scheduler = self.scheduler();
                // SAFETY: the scheduler lives as long as the kernel.
                unsafe { (*scheduler).dequeue(self, task, flags) };
                if self.tasks[task as usize].custody == Custody::Dispatching {
                    self.wait_while_dispatching(task);
                } else {
                    self.tasks[task as usize].custody = Custody::None;
                }
            }
            Custody::Dispatching => self.wait_while_dispatching(task),
        }
    }

    pub(crate) fn wait_while_dispatching(&mut self, task: TaskId) {
        while self.tasks[task as usize].custody == Custody::Dispatching && self.concurrent {
            self.spin();
        }
    }

    /// With the lock of the task's run queue held.
    pub(crate) fn dequeue_task(&mut self, task: TaskId, flags: u64) {
        let index = task as usize;
        let cpu = self.tasks[index].cpu as usize;
        if self.tasks[index].is_realtime() {
            self.cpus[cpu].rq.nr_running -= 1;
            self.cpus[cpu].realtime.retain(|it| *it != task);
            return;
        }
        if !self.tasks[index].is_queued() {
            return;
        }
        self.take_custody(task, flags);
        if !self.tasks[index].is_migrating && self.tasks[index].enabled {
            let scheduler = self.scheduler();
            // SAFETY: the scheduler lives as long as the kernel.
            unsafe { (*scheduler).quiescent(self, task, flags) };
        }
        self.tasks[index].c.scx.flags &= !SCX_TASK_QUEUED;
        self.cpus[cpu].rq.nr_running -= 1;
        self.cpus[cpu].rq.scx.nr_running -= 1;
        self.dispatch_dequeue(task);
        if flags & u64::from(SCX_DEQ_SLEEP) != 0 {
            self.tasks[index].waits_since_ns = NEVER_NS;
        }
    }

    /// Off the run queue: it sleeps, ends, or moves.
    pub(crate) fn deactivate(&mut self, task: TaskId, flags: u64) {
        self.dequeue_task(task, flags);
        self.tasks[task as usize].on_rq = false;
    }

    /// scx_bpf_dsq_insert.
    pub fn insert(&mut self, task: TaskId, dsq: u64, slice_ns: u64, flags: u64) {
        let this = self.this_cpu as usize;
        let slice_ns = slice_ns.max(1);
        if self.cpus[this].direct_task.is_some() {
            return self.insert_directly(task, dsq, slice_ns, flags);
        }
        if !self.cpus[this].in_dispatch {
            return self.eject("dsq_insert outside of enqueue, select_cpu and dispatch".to_owned());
        }
        self.tasks[task as usize].c.scx.slice = slice_ns;
        let custody = self.tasks[task as usize].custody;
        let queued_as = match custody {
            Custody::Queueing(number) | Custody::Scheduler(number) => Some(number),
            Custody::None | Custody::Dispatching => None,
        };
        self.cpus[this].dispatched.push(super::Dispatched {
            task,
            queued_as,
            was_queueing: matches!(custody, Custody::Queueing(_)),
            dsq,
            flags,
        });
    }

    fn insert_directly(&mut self, task: TaskId, dsq: u64, slice_ns: u64, flags: u64) {
        let expected = self.cpus[self.this_cpu as usize].direct_task;
        if expected != Some(task) {
            let name = self.task_name(task);
            return self.eject(format!("{name} is inserted while {expected:?} is enqueued"));
        }
        if self.tasks[task as usize].direct.is_some() {
            let name = self.task_name(task);
            return self.eject(format!("{name} is inserted twice"));
        }
        self.tasks[task as usize].c.scx.slice = slice_ns;
        self.tasks[task as usize].direct = Some((dsq, flags));
    }

    /// For models of other schedulers: into the local queue of the CPU that the callback is about.
    pub fn insert_local(&mut self, task: TaskId, slice_ns: u64, flags: u64) {
        self.insert(task, SCX_DSQ_LOCAL as u64, slice_ns, flags);
    }

    /// The kernel would throw the scheduler out.
    pub fn eject(&mut self, why: String) {
        self.violate("ejected", why);
    }

    /// Moves a task that does not run to another run queue, whose lock is then held instead.
    pub(crate) fn move_queued(&mut self, task: TaskId, from: Cpu, to: Cpu) {
        self.tasks[task as usize].is_migrating = true;
        self.deactivate(task, 0);
        self.set_task_cpu(task, to);
        self.rq_unlock(from);
        self.rq_lock(to);
        self.tasks[task as usize].is_migrating = false;
        self.enqueue_task(task, SCX_ENQ_MIGRATED);
        self.wakeup_preempt(to, task);
    }

    pub(crate) fn set_task_cpu(&mut self, task: TaskId, to: Cpu) {
        let from = std::mem::replace(&mut self.tasks[task as usize].cpu, to);
        if from != to {
            self.emit(What::Migrated { task, from, to });
            if self.costs.cold_ns > 0 && self.tasks[task as usize].work_left_ns > 0 {
                self.tasks[task as usize].work_left_ns += self.costs.cold_ns;
            }
        }
    }
}
