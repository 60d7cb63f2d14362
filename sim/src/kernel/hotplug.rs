// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that come and go. As in core.c and ext.c: sched_cpu_deactivate, balance_push, sched_cpu_activate.

use super::{Kernel, Life, Task};
use crate::setup::Cpu;
use crate::trace::{TaskId, What};

impl Kernel {
    /// cpu_hotplug_lock: CPUs come and go one at a time. A task that waits for it sleeps, and nobody waits for that one.
    pub(crate) fn with_cpus_locked(&mut self, work: impl FnOnce(&mut Self)) {
        let this = self.this_cpu as usize;
        self.cpus[this].synchronizes = true;
        while self.concurrent && std::mem::replace(&mut self.cpus_locked, true) {
            self.spin();
        }
        self.cpus[this].synchronizes = false;
        self.cpus[this].spins = 0;
        work(self);
        self.cpus_locked = false;
    }

    pub(crate) fn cpu_offline(&mut self, cpu: Cpu) {
        // A task that has disabled migration there is waited for; here the CPU stays instead.
        let is_needed = |task: &Task| {
            task.cpu == cpu && task.c.migration_disabled != 0 && task.life != Life::Dead
        };
        if !self.online.has(cpu) || self.online.count() == 1 || self.tasks.iter().any(is_needed) {
            return;
        }
        self.emit_of(cpu, What::CpuOnline(false));
        self.online.clear(cpu);
        // A task that has chosen this CPU has come here.
        self.synchronize();
        if self.attached {
            let scheduler = self.scheduler();
            // SAFETY: the scheduler lives as long as the kernel.
            unsafe { (*scheduler).cpu_offline(self, cpu) };
        }
        self.push_all(cpu);
        self.rq_lock(cpu);
        self.cpus[cpu as usize].online = false;
        self.cpus[cpu as usize].need_resched = false;
        self.idle.clear(cpu);
        self.rq_unlock(cpu);
        // Whoever came while the others were pushed.
        self.push_all(cpu);
    }

    /// Everybody who waits or runs on the CPU goes elsewhere; those pinned to it lose that.
    fn push_all(&mut self, cpu: Cpu) {
        let there: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|task| task.cpu == cpu && task.on_rq)
            .map(|task| task.id)
            .collect();
        for task in there {
            if self.tasks[task as usize].c.migration_disabled == 0 {
                self.move_away(cpu, task);
            }
        }
    }

    pub(crate) fn cpu_online(&mut self, cpu: Cpu) {
        if self.online.has(cpu) {
            return;
        }
        self.emit_of(cpu, What::CpuOnline(true));
        self.online.set(cpu);
        self.rq_lock(cpu);
        self.cpus[cpu as usize].online = true;
        self.cpus[cpu as usize].need_resched = false;
        if self.cpus[cpu as usize].current.is_none() {
            self.cpus[cpu as usize].idle_since_ns = self.now_ns;
            self.idle.set(cpu);
        }
        self.rq_unlock(cpu);
        if self.attached {
            let scheduler = self.scheduler();
            // SAFETY: the scheduler lives as long as the kernel.
            unsafe { (*scheduler).cpu_online(self, cpu) };
        }
        self.resched(cpu);
    }
}
