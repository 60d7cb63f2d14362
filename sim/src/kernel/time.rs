// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passing time, waiting, and locks: where other CPUs may go first.

use super::{Happening, Irq, Kernel};
use crate::setup::Cpu;
use crate::trace::{TaskId, What};

/// What an operation costs that other CPUs can see.
const SYNC_NS: u64 = 20;
/// A look at a lock that somebody else holds; the delay doubles up to the maximum.
const SPIN_NS: u64 = 40;
const SPIN_DOUBLINGS_MAX: u32 = 6;
/// A CPU that waits this long waits for ever.
const DEADLOCK_NS: u64 = 300_000_000;
/// The longest pause that a fault makes: a virtual CPU that its host stops.
const PAUSE_MAX_NS: u64 = 60_000;
const PAUSE_LONG_MAX_NS: u64 = 4_000_000;

impl Kernel {
    /// The CPU is busy in the kernel for so long.
    pub(crate) fn spend(&mut self, ns: u64) {
        let until_ns = self.now_ns + ns;
        if !self.concurrent {
            self.now_ns = until_ns;
            return;
        }
        // Whoever never leaves the kernel must not carry the clock past the end.
        let is_first = self.queue.next_at_ns().is_none_or(|at_ns| at_ns > until_ns);
        if self.violation.is_none() && is_first && until_ns <= self.end_ns {
            self.now_ns = until_ns;
            return;
        }
        let cpu = self.this_cpu;
        self.queue.plan(until_ns, Happening::Resume(cpu));
        self.suspend();
    }

    /// Something follows that other CPUs can see.
    pub(crate) fn sync(&mut self) {
        if !self.concurrent {
            return;
        }
        self.cpus[self.this_cpu as usize].spins = 0;
        let mut ns = SYNC_NS;
        if self.random.chance(self.faults.pause) {
            let max_ns = if self.random.chance(0.05) {
                PAUSE_LONG_MAX_NS
            } else {
                PAUSE_MAX_NS
            };
            // Short ones are as likely as long ones: races are lost by all sorts of times.
            let max_ns = (max_ns as f64).powf(self.random.unit()) as u64;
            ns += self.random.between(0, max_ns + 1);
        }
        self.spend(ns);
    }

    /// One turn of a loop that waits for another CPU.
    pub(crate) fn spin(&mut self) {
        if !self.concurrent {
            self.violate("deadlock", "the only CPU waits for another one".to_owned());
            return;
        }
        let now_ns = self.now_ns;
        let cpu = self.this_cpu;
        let state = &mut self.cpus[cpu as usize];
        if state.spins == 0 {
            state.spinning_since_ns = now_ns;
        }
        let delay_ns = SPIN_NS << state.spins.min(SPIN_DOUBLINGS_MAX);
        state.spins += 1;
        if now_ns - state.spinning_since_ns > DEADLOCK_NS {
            self.violate("deadlock", format!("CPU {cpu} waits for a lock in vain"));
        }
        self.spend(delay_ns);
    }

    pub(crate) fn rq_lock(&mut self, cpu: Cpu) {
        self.sync();
        let this = self.this_cpu;
        while let Some(holder) = self.cpus[cpu as usize].lock {
            if holder == this {
                self.violate("model", format!("CPU {this} takes the lock of {cpu} twice"));
                return;
            }
            self.spin();
            if !self.concurrent {
                return;
            }
        }
        self.cpus[this as usize].spins = 0;
        self.cpus[cpu as usize].lock = Some(this);
    }

    pub(crate) fn rq_unlock(&mut self, cpu: Cpu) {
        self.cpus[cpu as usize].lock = None;
    }

    /// synchronize_rcu: whatever other CPUs were doing in the kernel, they have done it.
    pub(crate) fn synchronize(&mut self) {
        let this = self.this_cpu as usize;
        let before: Vec<u64> = self.cpus.iter().map(|cpu| cpu.pauses).collect();
        self.cpus[this].synchronizes = true;
        for (other, pauses) in before.into_iter().enumerate() {
            while self.concurrent && other != this && self.is_inside(other, pauses) {
                self.spin();
            }
        }
        self.cpus[this].synchronizes = false;
        self.cpus[this].spins = 0;
    }

    fn is_inside(&self, cpu: usize, before: u64) -> bool {
        let cpu = &self.cpus[cpu];
        cpu.in_kernel && !cpu.synchronizes && cpu.pauses == before && self.violation.is_none()
    }

    /// Serialises what changes a task: waking, and changing where it may run.
    pub(crate) fn pi_lock(&mut self, task: TaskId) {
        self.sync();
        while self.tasks[task as usize].pi_lock.is_some() {
            self.spin();
            if !self.concurrent {
                return;
            }
        }
        self.cpus[self.this_cpu as usize].spins = 0;
        self.tasks[task as usize].pi_lock = Some(self.this_cpu);
    }

    pub(crate) fn pi_unlock(&mut self, task: TaskId) {
        self.tasks[task as usize].pi_lock = None;
    }

    /// Locks the run queue that the task is on, whichever that is.
    pub(crate) fn task_rq_lock(&mut self, task: TaskId) -> Cpu {
        self.pi_lock(task);
        loop {
            let cpu = self.tasks[task as usize].cpu;
            self.rq_lock(cpu);
            if self.tasks[task as usize].cpu == cpu && !self.tasks[task as usize].is_migrating {
                return cpu;
            }
            self.rq_unlock(cpu);
            self.spin();
        }
    }

    pub(crate) fn task_rq_unlock(&mut self, task: TaskId, cpu: Cpu) {
        self.rq_unlock(cpu);
        self.pi_unlock(task);
    }

    /// Plans an interrupt; it waits while the CPU is in the kernel.
    pub(crate) fn interrupt_at(&mut self, cpu: Cpu, at_ns: u64, irq: Irq) {
        self.queue.plan(at_ns, Happening::Interrupt(cpu, irq));
    }

    /// By how much a timer is late, besides what it always is.
    pub(crate) fn timer_fault_ns(&mut self) -> u64 {
        if !self.random.chance(self.faults.timer_late) {
            return 0;
        }
        self.emit(What::Fault("timer"));
        self.random.between(0, 3_000_000)
    }

    /// A BPF timer is started: what it was started for before is void.
    pub fn start_timer(&mut self, number: u32, at_ns: u64) {
        let index = number as usize;
        if self.timer_generations.len() <= index {
            self.timer_generations.resize(index + 1, 0);
        }
        self.timer_generations[index] = self.timer_generations[index].wrapping_add(1);
        let generation = self.timer_generations[index];
        let late_ns = self.costs.timer_late_ns + self.timer_fault_ns();
        let at_ns = at_ns.max(self.now_ns).saturating_add(late_ns);
        if at_ns <= self.end_ns {
            let cpu = self.this_cpu;
            self.interrupt_at(cpu, at_ns, Irq::BpfTimer { number, generation });
        }
    }

    pub(crate) fn resched(&mut self, cpu: Cpu) {
        let state = &mut self.cpus[cpu as usize];
        if state.need_resched || !state.online {
            return;
        }
        state.need_resched = true;
        if cpu != self.this_cpu {
            let at_ns = self.now_ns + self.costs.ipi_ns;
            self.interrupt_at(cpu, at_ns, Irq::Resched);
        }
    }
}
