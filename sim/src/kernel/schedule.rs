// SPDX-License-Identifier: MIT OR Apache-2.0
//! One task makes way for the next. As in core.c and ext.c: __schedule, pick_next_task, put_prev_task_scx,
//! set_next_task_scx, update_curr_scx, switch_class.

use super::{Dsq, Irq, Kernel, Life, NEVER_NS, SLICE_DEFAULT_NS, SLICE_INFINITE};
use crate::ffi::{SCX_DEQ_SLEEP, SCX_ENQ_HEAD, SCX_ENQ_LAST};
use crate::setup::{Cpu, Kernel as Version};
use crate::trace::{Left, TaskId, What};

impl Kernel {
    /// Charges the current task with the time since this was last done.
    pub(crate) fn update_current(&mut self, cpu: Cpu) {
        let now_ns = self.now_ns;
        let state = &mut self.cpus[cpu as usize];
        let Some(task) = state.current else {
            return;
        };
        let ran_ns = now_ns - std::mem::replace(&mut state.exec_start_ns, now_ns);
        self.charge_limits(task, ran_ns);
        let task = &mut self.tasks[task as usize].c;
        task.se.sum_exec_runtime += ran_ns;
        if task.scx.slice != SLICE_INFINITE {
            task.scx.slice = task.scx.slice.saturating_sub(ran_ns);
        }
    }

    /// `preempted`: the current task did not ask for it.
    pub(crate) fn schedule(&mut self, cpu: Cpu, preempted: bool) {
        let index = cpu as usize;
        if let Some(task) = self.cpus[index].current {
            self.pin_where_migration_is_disabled(cpu, task);
        }
        self.spend(self.costs.schedule_ns);
        self.rq_lock(cpu);
        self.cpus[index].need_resched = false;
        let prev = self.cpus[index].current;
        let mut left = Left::Preempted;
        if let Some(task) = prev {
            let state = &mut self.tasks[task as usize];
            if std::mem::take(&mut state.left_as_yield) {
                left = Left::Yielded;
            }
            let stays = matches!(state.life, Life::Runnable);
            if !preempted && !stays {
                left = if state.life == Life::Ending {
                    Left::Ended
                } else {
                    Left::Slept
                };
                self.deactivate(task, u64::from(SCX_DEQ_SLEEP));
                self.rest_group_rate(task);
            }
        }
        let next = self.pick_next(cpu, prev);
        if next != prev {
            self.switch(cpu, prev, next, left);
        } else if next.is_none() {
            self.idle.set(cpu);
        }
        self.rq_unlock(cpu);
        if let Some(task) = prev {
            if left == Left::Ended {
                self.bury(task);
            }
        }
    }

    fn pick_next(&mut self, cpu: Cpu, prev: Option<TaskId>) -> Option<TaskId> {
        let index = cpu as usize;
        self.cpus[index].keep = false;
        self.cpus[index].asked_ns = 0;
        let prev_is_realtime = prev.is_some_and(|task| self.tasks[task as usize].is_realtime());
        let prev_goes_on = prev_is_realtime && prev.is_some_and(|it| self.tasks[it as usize].on_rq);
        let rank = |task: TaskId| self.tasks[task as usize].rank();
        let first = self.cpus[index].realtime.front().copied();
        let stays =
            prev.filter(|task| prev_goes_on && first.is_none_or(|it| rank(it) <= rank(*task)));
        let realtime = stays.or(first);
        // 6.18 asks the scheduler first, and then may find that a higher class has something.
        let asks = match self.version {
            Version::V6_18 => realtime.is_none() || !prev_is_realtime,
            Version::V7_2 => realtime.is_none(),
        };
        if asks {
            self.balance(cpu, prev);
        } else if prev.is_some() {
            self.update_current(cpu);
        }
        // The run queue's lock may have been let go of meanwhile.
        let realtime = realtime.or_else(|| self.cpus[index].realtime.front().copied());
        let next = match realtime {
            Some(task) => Some(task),
            None if self.cpus[index].keep => prev,
            None => self.cpus[index].local.front().copied(),
        };
        if let Some(task) = next {
            let task = &mut self.tasks[task as usize];
            if task.c.scx.slice == 0 {
                task.c.scx.slice = SLICE_DEFAULT_NS;
            }
        }
        if next != prev {
            if let Some(prev) = prev {
                self.put_prev(cpu, prev, next);
            }
            if let Some(next) = next {
                self.set_next(cpu, next);
            }
        }
        self.cpus[index].asked_ns = 0;
        next
    }

    pub(crate) fn put_prev(&mut self, cpu: Cpu, prev: TaskId, next: Option<TaskId>) {
        let state = &mut self.cpus[cpu as usize];
        state.exec_start_ns = self.now_ns.min(state.exec_start_ns + state.asked_ns);
        self.update_current(cpu);
        let next_is_realtime = next.is_some_and(|task| self.tasks[task as usize].is_realtime());
        if self.tasks[prev as usize].is_realtime() {
            if self.tasks[prev as usize].on_rq {
                self.queue_above(cpu, prev, true);
            }
            return;
        }
        if self.tasks[prev as usize].is_queued() {
            self.tasks[prev as usize].waits_since_ns = self.now_ns;
            if self.tasks[prev as usize].c.scx.slice > 0 && !self.bypass {
                self.dispatch_enqueue(Dsq::Local(cpu), prev, SCX_ENQ_HEAD);
            } else {
                let is_last = next.is_none();
                self.do_enqueue(prev, if is_last { SCX_ENQ_LAST } else { 0 }, None);
            }
        }
        if next_is_realtime && self.attached && !self.cpus[cpu as usize].released {
            self.cpus[cpu as usize].released = true;
            let scheduler = self.scheduler();
            // SAFETY: the scheduler lives as long as the kernel.
            unsafe { (*scheduler).cpu_release(self, cpu) };
        }
    }

    pub(crate) fn set_next(&mut self, cpu: Cpu, next: TaskId) {
        if self.tasks[next as usize].is_realtime() {
            self.cpus[cpu as usize].realtime.retain(|it| *it != next);
        } else if self.tasks[next as usize].is_queued() {
            if self.tasks[next as usize].dsq.is_none() {
                self.take_custody(next, 0);
            }
            self.dispatch_dequeue(next);
        }
        let state = &mut self.cpus[cpu as usize];
        // The run queue's clock stands while the scheduler chooses: the next task is charged for it. Only long choices count.
        state.exec_start_ns = self.now_ns - state.asked_ns;
        self.end_waiting(next);
    }

    fn end_waiting(&mut self, task: TaskId) {
        let now_ns = self.now_ns;
        let task = &mut self.tasks[task as usize];
        if task.waits_since_ns != NEVER_NS {
            task.wait_max_ns = task.wait_max_ns.max(now_ns - task.waits_since_ns);
            task.waits_since_ns = NEVER_NS;
        }
    }

    fn switch(&mut self, cpu: Cpu, prev: Option<TaskId>, next: Option<TaskId>, left: Left) {
        let index = cpu as usize;
        self.switches += 1;
        if let Some(task) = prev {
            self.tasks[task as usize].on_cpu = false;
        } else {
            self.idle_ns += self.now_ns - self.cpus[index].idle_since_ns;
            self.cpus[index].released = false;
        }
        self.set_current(cpu, next);
        match next {
            None => {
                self.idle.set(cpu);
                self.cpus[index].idle_since_ns = self.now_ns;
            }
            Some(task) => {
                self.idle.clear(cpu);
                self.check_runs(cpu, task);
                if !self.online.has(cpu) {
                    // balance_push: a CPU that goes offline sends away whatever it gets.
                    self.cpus[index].pending.push_back(Irq::MoveAway(task));
                }
                let task = &mut self.tasks[task as usize];
                task.on_cpu = true;
                task.switches += 1;
                self.arm_tick(cpu);
            }
        }
        self.emit_reasons(cpu, next);
        self.emit(What::Switch {
            prev: prev.map(|task| (task, left)),
            next,
        });
        self.spend(self.costs.switch_ns);
    }

    /// Why the scheduler chose, and whom it has demoted since the last switch, as programs that look on see it.
    fn emit_reasons(&mut self, cpu: Cpu, next: Option<TaskId>) {
        if !self.observed {
            return;
        }
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        let (chosen, demoted) = unsafe { ((*scheduler).chosen(cpu), (*scheduler).demoted(cpu)) };
        let seen = self.cpus[cpu as usize]
            .demotions_seen
            .replace(demoted.count);
        if seen.is_some_and(|seen| seen != demoted.count) {
            if let Some(task) = self.task_of_number(demoted.pid) {
                let (why, late_us) = (demoted.why, demoted.late_us);
                self.emit(What::Demoted { task, why, late_us });
            }
        }
        let reason = chosen.reason;
        match next {
            Some(task) if reason != 0 && self.tasks[task as usize].c.pid == chosen.pid => {
                self.emit(What::Picked { task, reason });
            }
            _ => {}
        }
    }

    /// What has become of roles' intervals since the last time.
    pub(crate) fn emit_intervals(&mut self) {
        if !self.observed || self.setup.groups.is_empty() {
            return;
        }
        let scheduler = self.scheduler();
        for cpu in 0..self.machine.cpus() {
            let seen = self.cpus[cpu as usize].intervals_seen;
            // SAFETY: the scheduler lives as long as the kernel.
            let told = unsafe { (*scheduler).told(cpu, seen) };
            self.cpus[cpu as usize].intervals_seen = told.count;
            if told.lost > 0 {
                self.emit_of(cpu, What::IntervalsLost(told.lost));
            }
            for (pid, interval) in told.intervals {
                let task = self.task_of_number(pid);
                self.emit_of(cpu, What::Interval { task, interval });
            }
        }
    }

    /// The task with a number of the scheduler's.
    fn task_of_number(&self, pid: i32) -> Option<TaskId> {
        let index = usize::try_from(pid - 1).ok()?;
        self.numbers.get(index).copied().flatten()
    }

    pub(crate) fn set_current(&mut self, cpu: Cpu, task: Option<TaskId>) {
        let curr: *const crate::ffi::task_struct = match task {
            Some(task) => &*self.tasks[task as usize].c,
            None => std::ptr::null(),
        };
        let state = &mut self.cpus[cpu as usize];
        state.current = task;
        state.rq.curr = curr;
    }

    /// The rule that is checked on every switch: a task runs on one CPU, and on one that it may use.
    fn check_runs(&mut self, cpu: Cpu, task: TaskId) {
        let state = &self.tasks[task as usize];
        if state.on_cpu {
            let name = self.task_name(task);
            self.violate(
                "two-places",
                format!("{name} runs on two CPUs, one is {cpu}"),
            );
        } else if state.cpu != cpu {
            let (name, home) = (self.task_name(task), state.cpu);
            self.violate(
                "model",
                format!("{name} runs on CPU {cpu}, its queue is that of {home}"),
            );
        } else if !state.allowed.has(cpu) && state.c.migration_disabled == 0 && self.online.has(cpu)
        {
            let usable = state.allowed.and(&self.online);
            if !usable.is_empty() {
                let name = self.task_name(task);
                self.violate("forbidden-cpu", format!("{name} runs on CPU {cpu}"));
            }
        }
    }
}
