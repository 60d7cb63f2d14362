// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sleeping task becomes runnable. As in core.c and ext.c: try_to_wake_up, select_task_rq_scx, ttwu_do_activate,
//! wake_up_new_task.

use super::{Irq, Kernel, Life};
use crate::ffi::{
    SCX_ENQ_CPU_SELECTED, SCX_ENQ_INITIAL, SCX_ENQ_NOCLOCK, SCX_ENQ_WAKEUP, SCX_WAKE_FORK,
};
use crate::setup::Cpu;
use crate::trace::{TaskId, What};

impl Kernel {
    /// From an interrupt, or from the program that runs on this CPU.
    pub(crate) fn wake(&mut self, task: TaskId, wake_flags: u64) {
        self.pi_lock(task);
        self.wake_locked(task, wake_flags);
        self.pi_unlock(task);
        self.spend(self.costs.wake_ns);
    }

    fn wake_locked(&mut self, task: TaskId, wake_flags: u64) {
        let index = task as usize;
        if self.tasks[index].life != Life::Sleeping {
            return;
        }
        if self.tasks[index].on_rq {
            let cpu = self.tasks[index].cpu;
            self.rq_lock(cpu);
            let still = self.tasks[index].on_rq;
            if still {
                self.come_to_life(task);
            }
            self.rq_unlock(cpu);
            if still {
                return;
            }
        }
        while self.tasks[index].on_cpu && self.concurrent {
            self.spin();
        }
        self.come_to_life(task);
        let cpu = self.select_cpu(task, wake_flags);
        self.set_task_cpu(task, cpu);
        self.rq_lock(cpu);
        self.activate_woken(task, cpu);
        self.rq_unlock(cpu);
    }

    fn come_to_life(&mut self, task: TaskId) {
        let state = &mut self.tasks[task as usize];
        state.life = Life::Runnable;
        state.sleep_generation = state.sleep_generation.wrapping_add(1);
    }

    fn activate_woken(&mut self, task: TaskId, cpu: Cpu) {
        self.emit(What::Woken { task, on: cpu });
        self.enqueue_task(
            task,
            SCX_ENQ_WAKEUP | SCX_ENQ_NOCLOCK | SCX_ENQ_CPU_SELECTED,
        );
        self.wakeup_preempt(cpu, task);
    }

    /// What runs on the CPU makes way if it is of a lower class.
    pub(crate) fn wakeup_preempt(&mut self, cpu: Cpu, task: TaskId) {
        let is_above = match self.cpus[cpu as usize].current {
            None => true,
            Some(current) => self.tasks[task as usize].rank() > self.tasks[current as usize].rank(),
        };
        if is_above {
            self.resched(cpu);
        }
    }

    fn select_cpu(&mut self, task: TaskId, wake_flags: u64) -> Cpu {
        let index = task as usize;
        let prev_cpu = self.tasks[index].cpu;
        let is_pinned =
            self.tasks[index].c.nr_cpus_allowed == 1 || self.tasks[index].c.migration_disabled != 0;
        let mut cpu = if is_pinned || self.bypass {
            prev_cpu
        } else if self.tasks[index].is_realtime() {
            self.select_for_realtime(task)
        } else {
            let this = self.this_cpu as usize;
            self.cpus[this].direct_task = Some(task);
            let scheduler = self.scheduler();
            // SAFETY: the scheduler lives as long as the kernel.
            let cpu = unsafe { (*scheduler).select_cpu(self, task, prev_cpu, wake_flags) };
            self.cpus[this].direct_task = None;
            if cpu as usize >= self.cpus.len() {
                self.eject(format!("select_cpu chose CPU {cpu}, which does not exist"));
                prev_cpu
            } else {
                cpu
            }
        };
        let state = &self.tasks[index];
        let is_allowed = if state.c.migration_disabled != 0 {
            cpu == prev_cpu
        } else {
            state.allowed.has(cpu) && self.online.has(cpu)
        };
        if !is_allowed {
            cpu = self.fallback_cpu(task);
        }
        cpu
    }

    fn select_for_realtime(&mut self, task: TaskId) -> Cpu {
        let state = &self.tasks[task as usize];
        let usable = state.allowed.and(&self.online);
        let is_free = |cpu: &Cpu| {
            let current = self.cpus[*cpu as usize].current;
            current.is_none_or(|current| !self.tasks[current as usize].is_realtime())
        };
        let free = usable.iter().find(is_free);
        free.unwrap_or(state.cpu)
    }

    /// Where the task may run and somebody is at home. If that is nowhere, it may run everywhere from now on.
    pub(crate) fn fallback_cpu(&mut self, task: TaskId) -> Cpu {
        if self.tasks[task as usize]
            .allowed
            .and(&self.online)
            .is_empty()
        {
            let everywhere = crate::ffi::cpumask::of(0..self.machine.cpus());
            self.set_mask(task, everywhere);
        }
        let usable = self.tasks[task as usize].allowed.and(&self.online);
        let cpus: Vec<Cpu> = usable.iter().collect();
        let at = self.random.between(0, cpus.len() as u64) as usize;
        cpus.get(at).copied().unwrap_or(0)
    }

    /// A task runs for the first time.
    pub(crate) fn wake_new(&mut self, task: TaskId) {
        self.pi_lock(task);
        self.tasks[task as usize].life = Life::Runnable;
        let cpu = self.select_cpu(task, u64::from(SCX_WAKE_FORK));
        self.set_task_cpu(task, cpu);
        self.rq_lock(cpu);
        self.emit(What::Woken { task, on: cpu });
        self.enqueue_task(task, SCX_ENQ_NOCLOCK | SCX_ENQ_INITIAL);
        self.wakeup_preempt(cpu, task);
        self.rq_unlock(cpu);
        self.pi_unlock(task);
        self.spend(self.costs.wake_ns);
    }

    /// Wakes a task as soon as the present step is over.
    pub(crate) fn wake_later(&mut self, task: TaskId) {
        let cpu = self.this_cpu;
        let generation = self.tasks[task as usize].sleep_generation;
        let at_ns = self.now_ns;
        self.interrupt_at(cpu, at_ns, Irq::Wake { task, generation });
    }

    /// The current task sleeps until it is woken; its waker may do so at once.
    pub(crate) fn block(&mut self, cpu: Cpu, task: TaskId) {
        self.tasks[task as usize].life = Life::Sleeping;
        self.fall_asleep(cpu);
    }

    /// The current task is to sleep, unless somebody wakes it before it does.
    pub(crate) fn fall_asleep(&mut self, cpu: Cpu) {
        self.spend(self.costs.syscall_ns);
        self.schedule(cpu, false);
    }

    /// The current task sleeps until `at_ns`, or until it is woken.
    pub(crate) fn sleep_until(&mut self, cpu: Cpu, task: TaskId, at_ns: u64) {
        self.tasks[task as usize].life = Life::Sleeping;
        self.wake_at(cpu, task, at_ns);
        self.schedule(cpu, false);
    }

    /// Starts the sleeping task's timer.
    pub(crate) fn wake_at(&mut self, cpu: Cpu, task: TaskId, at_ns: u64) {
        let late_ns = self.costs.timer_late_ns + self.tasks[task as usize].slack_ns;
        let late_ns = late_ns + self.timer_fault_ns();
        let state = &mut self.tasks[task as usize];
        state.sleep_generation = state.sleep_generation.wrapping_add(1);
        let generation = state.sleep_generation;
        let at_ns = at_ns.max(self.now_ns).saturating_add(late_ns);
        if at_ns <= self.end_ns {
            self.interrupt_at(cpu, at_ns, Irq::Wake { task, generation });
        }
    }
}
