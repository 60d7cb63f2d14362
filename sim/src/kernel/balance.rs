// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU asks the scheduler for work. As in ext.c: balance_one, flush_dispatch_buf, finish_dispatch,
//! dispatch_to_local_dsq, task_can_run_on_remote_rq.

use super::custody::DSQ_LOCAL_ON;
use super::{Custody, Dispatched, Dsq, Kernel};
use crate::ffi::{SCX_DSQ_GLOBAL, SCX_DSQ_LOCAL, SCX_ENQ_MIGRATED};
use crate::setup::Cpu;
use crate::trace::TaskId;

/// How often dispatch is called before the CPU looks at something else first (SCX_DSP_MAX_LOOPS).
const DISPATCH_TURNS_MAX: u32 = 32;

impl Kernel {
    /// Whether there is something for the CPU to run; `keep` says if it is the task that runs already.
    pub(crate) fn balance(&mut self, cpu: Cpu, prev: Option<TaskId>) -> bool {
        let index = cpu as usize;
        self.cpus[index].in_balance = true;
        self.cpus[index].keep = false;
        let found = self.balance_one(cpu, prev);
        self.cpus[index].in_balance = false;
        found
    }

    fn balance_one(&mut self, cpu: Cpu, prev: Option<TaskId>) -> bool {
        let index = cpu as usize;
        let prev = prev.filter(|task| !self.tasks[*task as usize].is_realtime());
        let prev_queued = prev.filter(|task| self.tasks[*task as usize].is_queued());
        self.cpus[index].released = false;
        if prev.is_some() {
            self.update_current(cpu);
        }
        if self.may_keep(prev_queued) {
            self.cpus[index].keep = true;
            return true;
        }
        if !self.cpus[index].local.is_empty() || self.consume_global(cpu) {
            return true;
        }
        if self.cpus[index].online && !self.bypass {
            for turn in 0.. {
                if turn == DISPATCH_TURNS_MAX {
                    let this = self.this_cpu;
                    self.kick(this, 0);
                    break;
                }
                let dispatched = self.dispatch(cpu, prev);
                if self.may_keep(prev_queued) {
                    self.cpus[index].keep = true;
                    return true;
                }
                if !self.cpus[index].local.is_empty() || self.consume_global(cpu) {
                    return true;
                }
                if !dispatched || self.violation.is_some() {
                    break;
                }
            }
        }
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        let takes_last = unsafe { (*scheduler).takes_last() } && self.attached && !self.bypass;
        if !takes_last && prev_queued.is_some_and(|task| self.tasks[task as usize].is_queued()) {
            self.cpus[index].keep = true;
            return true;
        }
        false
    }

    fn may_keep(&self, prev_queued: Option<TaskId>) -> bool {
        prev_queued.is_some_and(|task| {
            let task = &self.tasks[task as usize];
            task.is_queued() && task.c.scx.slice > 0
        })
    }

    /// One call of the scheduler's dispatch; whether it gave something.
    fn dispatch(&mut self, cpu: Cpu, prev: Option<TaskId>) -> bool {
        let index = cpu as usize;
        self.decisions += 1;
        self.cpus[index].in_dispatch = true;
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        let demotions = unsafe { (*scheduler).demoted(cpu).count };
        // SAFETY: as above.
        unsafe { (*scheduler).dispatch(self, cpu, prev) };
        self.check_demotion(cpu, prev, demotions);
        self.cpus[index].in_dispatch = false;
        let dispatched = std::mem::take(&mut self.cpus[index].dispatched);
        for one in &dispatched {
            self.finish_dispatch(cpu, *one);
        }
        let any = !dispatched.is_empty();
        let mut buffer = dispatched;
        buffer.clear();
        self.cpus[index].dispatched = buffer;
        any
    }

    fn finish_dispatch(&mut self, cpu: Cpu, one: Dispatched) {
        let index = one.task as usize;
        loop {
            self.sync();
            match self.tasks[index].custody {
                // Somebody else has got it already.
                Custody::None | Custody::Dispatching => return,
                // It has been taken away and given to the scheduler again since.
                Custody::Scheduler(number) if Some(number) != one.queued_as => return,
                Custody::Scheduler(_) => break,
                Custody::Queueing(_) => {
                    self.spin();
                    if !self.concurrent {
                        return;
                    }
                }
            }
        }
        self.tasks[index].custody = Custody::Dispatching;
        self.tasks[index].was_overtaken = one.was_queueing;
        self.begin_run(one.task);
        match one.dsq {
            dsq if dsq == SCX_DSQ_LOCAL as u64 => self.hand_to_local(cpu, cpu, one.task, one.flags),
            dsq if dsq & DSQ_LOCAL_ON == DSQ_LOCAL_ON => {
                let to = (dsq & u64::from(u32::MAX)) as Cpu;
                self.hand_to_local(cpu, to, one.task, one.flags);
            }
            dsq if dsq == SCX_DSQ_GLOBAL as u64 => {
                self.dispatch_enqueue(Dsq::Global, one.task, one.flags);
                self.tasks[index].custody = Custody::None;
            }
            dsq => self.eject(format!("invalid DSQ id {dsq:#x}")),
        }
    }

    /// `cpu` is where we are, with its lock held.
    fn hand_to_local(&mut self, cpu: Cpu, to: Cpu, task: TaskId, flags: u64) {
        let index = task as usize;
        let from = self.tasks[index].cpu;
        if from == to && from == cpu {
            self.dispatch_enqueue(Dsq::Local(to), task, flags);
            self.tasks[index].custody = Custody::None;
            return;
        }
        if from != to && !self.can_run_on_remote(task, to, true) {
            self.dispatch_enqueue(Dsq::Global, task, flags);
            self.tasks[index].custody = Custody::None;
            return;
        }
        self.tasks[index].holding_cpu = Some(cpu);
        self.tasks[index].custody = Custody::None;
        let mut locked = cpu;
        if locked != from {
            self.rq_unlock(locked);
            self.rq_lock(from);
            locked = from;
        }
        if self.tasks[index].holding_cpu == Some(cpu) && self.tasks[index].cpu == from {
            self.tasks[index].holding_cpu = None;
            if from == to {
                self.dispatch_enqueue(Dsq::Local(to), task, flags);
            } else {
                self.move_to_local(task, from, to, flags);
                locked = to;
            }
            if self.cpus[to as usize].current.is_none() && to != cpu {
                self.resched(to);
            }
        }
        if locked != cpu {
            self.rq_unlock(locked);
            self.rq_lock(cpu);
        }
    }

    /// Leaves with the lock of `to` held instead of that of `from`.
    fn move_to_local(&mut self, task: TaskId, from: Cpu, to: Cpu, flags: u64) {
        self.tasks[task as usize].is_migrating = true;
        self.deactivate(task, 0);
        self.set_task_cpu(task, to);
        self.tasks[task as usize].sticky_cpu = Some(to);
        self.rq_unlock(from);
        self.rq_lock(to);
        self.tasks[task as usize].is_migrating = false;
        self.enqueue_task(task, flags | SCX_ENQ_MIGRATED);
    }

    fn can_run_on_remote(&mut self, task: TaskId, cpu: Cpu, enforce: bool) -> bool {
        let state = &self.tasks[task as usize];
        let name = &state.name;
        let why = if state.c.migration_disabled != 0 {
            format!(
                "local queue of CPU {cpu}: cannot move migration disabled {name} ({task}) from CPU {}",
                state.cpu
            )
        } else if !state.allowed.has(cpu) {
            format!("local queue of CPU {cpu}: not allowed for {name} ({task})")
        } else {
            return self.cpus[cpu as usize].online;
        };
        if enforce {
            self.eject(why);
        }
        false
    }

    /// Takes the first task of the global queue that may run here.
    fn consume_global(&mut self, cpu: Cpu) -> bool {
        let candidates: Vec<TaskId> = self.global.iter().copied().collect();
        for task in candidates {
            let from = self.tasks[task as usize].cpu;
            if from == cpu {
                self.dispatch_dequeue(task);
                self.dispatch_enqueue(Dsq::Local(cpu), task, 0);
                return true;
            }
            if self.can_run_on_remote(task, cpu, false) {
                self.dispatch_dequeue(task);
                self.tasks[task as usize].holding_cpu = Some(cpu);
                self.rq_unlock(cpu);
                self.rq_lock(from);
                let still = self.tasks[task as usize].holding_cpu.take() == Some(cpu)
                    && self.tasks[task as usize].cpu == from;
                if !still {
                    self.rq_unlock(from);
                    self.rq_lock(cpu);
                    continue;
                }
                self.move_to_local(task, from, cpu, 0);
                return true;
            }
        }
        false
    }
}
