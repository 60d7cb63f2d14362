// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler leaves, because its daemon has died, and comes back. As in ext.c: scx_disable_workfn, scx_bypass,
//! scx_enable_workfn.

use super::{Irq, Kernel, Life, NEVER_NS};
use crate::setup::Policy;
use crate::trace::{TaskId, What};

impl Kernel {
    /// Everybody is under the stock scheduler, which is no part of this model: each CPU runs what it has, in turns.
    pub(crate) fn daemon_dies(&mut self, back_after_ns: Option<u64>) {
        if !self.attached {
            return;
        }
        self.emit(What::Fault("daemon"));
        // Tasks that come from now on are not the scheduler's; those that are just coming are waited for.
        self.attached = false;
        self.bypass = true;
        self.bypassed_at_ns = NEVER_NS;
        self.synchronize();
        self.disable_all();
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        unsafe { (*scheduler).detach(self) };
        self.stop_timers();
        if let Some(after_ns) = back_after_ns {
            let this = self.this_cpu;
            self.interrupt_at(this, self.now_ns + after_ns, Irq::DaemonReturns);
        }
    }

    pub(crate) fn daemon_returns(&mut self) {
        if self.attached {
            return;
        }
        let scheduler = self.scheduler();
        // Nobody becomes the scheduler's before all are ready. Nobody else needs it meanwhile; they may be late for what
        // they do.
        let concurrent = std::mem::replace(&mut self.concurrent, false);
        // SAFETY: the scheduler lives as long as the kernel.
        self.attached = unsafe { (*scheduler).begin(self) }.is_ok();
        let tasks = match self.attached {
            true => self.living(),
            false => Vec::new(),
        };
        let mut tasks = tasks.into_iter();
        // SAFETY: as above.
        let unready = tasks.find(|task| !unsafe { (*scheduler).init_task(self, *task) });
        self.concurrent = concurrent;
        if let Some(task) = unready {
            return self.give_up(task);
        }
        if !self.attached {
            // What it has begun to set up goes with it.
            return self.stop_timers();
        }
        for task in self.living() {
            // A task that has ended since then is not met any more.
            let state = &self.tasks[task as usize];
            let is_there = !matches!(state.life, Life::Dead | Life::Ending);
            if is_there && state.policy == Policy::Normal && !state.enabled {
                self.change_task(task, |k| k.enable(task));
            }
        }
        self.bypass = false;
        for task in self.living() {
            // A task that waits in a queue of the kernel's goes to the scheduler's.
            self.change_task(task, |_| ());
        }
        // Until now nobody has promised anything.
        for task in &mut self.tasks {
            task.allowed_since_ns = self.now_ns;
        }
        self.bypassed_at_ns = self.now_ns;
        for cpu in self.online.iter().collect::<Vec<_>>() {
            self.resched(cpu);
        }
    }

    /// No memory for `task`: those before it are taken back, and the scheduler does not come.
    fn give_up(&mut self, task: TaskId) {
        self.attached = false;
        let scheduler = self.scheduler();
        for before in self.living().into_iter().filter(|it| *it < task) {
            // SAFETY: the scheduler lives as long as the kernel.
            unsafe { (*scheduler).exit_task(self, before) };
        }
        self.synchronize();
        // SAFETY: as above.
        unsafe { (*scheduler).detach(self) };
        self.stop_timers();
    }

    /// A scheduler that goes takes its timers along.
    fn stop_timers(&mut self) {
        for generation in &mut self.timer_generations {
            *generation = generation.wrapping_add(1);
        }
    }

    fn disable_all(&mut self) {
        let scheduler = self.scheduler();
        for task in self.living() {
            self.change_task(task, |k| k.disable(task));
            // SAFETY: the scheduler lives as long as the kernel.
            unsafe { (*scheduler).exit_task(self, task) };
        }
    }

    fn living(&self) -> Vec<TaskId> {
        let tasks = self.tasks.iter().filter(|task| task.life != Life::Dead);
        tasks.map(|task| task.id).collect()
    }

    /// The scheduler forgets a task.
    pub(crate) fn exit_task(&mut self, task: TaskId) {
        if self.attached {
            let scheduler = self.scheduler();
            // SAFETY: the scheduler lives as long as the kernel.
            unsafe { (*scheduler).exit_task(self, task) };
        }
    }

    pub(crate) fn dump_state(&mut self) {
        if self.attached {
            let scheduler = self.scheduler();
            // SAFETY: the scheduler lives as long as the kernel. Nobody reads it here.
            unsafe { (*scheduler).dump(self) };
        }
    }

    /// A thread that executes a program becomes its process' only one, with its number.
    pub(crate) fn exec(&mut self, task: TaskId) {
        self.spend(self.costs.syscall_ns);
        let old = self.tasks[task as usize].c.pid;
        self.numbers[old as usize - 1] = None;
        self.numbers.push(Some(task));
        let c = &mut self.tasks[task as usize].c;
        c.pid = self.numbers.len() as i32;
        c.tgid = c.pid;
    }
}
