// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kicks: what a callback asks for is done once interrupts are possible again. As in ext.c: scx_bpf_kick_cpu,
//! kick_cpus_irq_workfn.

use super::Kernel;
use crate::ffi::{SCX_KICK_IDLE, SCX_KICK_PREEMPT};
use crate::setup::Cpu;

impl Kernel {
    /// scx_bpf_kick_cpu.
    pub fn kick(&mut self, cpu: Cpu, flags: u64) {
        if cpu as usize >= self.cpus.len() {
            return self.eject(format!("kick of CPU {cpu}, which does not exist"));
        }
        // Whether a kick for idle CPUs helps is seen at once only where the run queue's lock is free.
        let is_useless = flags & u64::from(SCX_KICK_IDLE) != 0
            && self.cpus[cpu as usize].lock.is_none()
            && !self.kick_if_idle_helps(cpu);
        if self.bypass || is_useless {
            return;
        }
        self.cpus[self.this_cpu as usize].kicks.push((cpu, flags));
    }

    /// A CPU that runs something, and is not just choosing, needs no kick for idle ones.
    fn kick_if_idle_helps(&self, cpu: Cpu) -> bool {
        let state = &self.cpus[cpu as usize];
        state.current.is_none() || state.in_balance
    }

    /// Everything that was asked for on this CPU, once it may be interrupted.
    pub(crate) fn kick_work(&mut self, this: Cpu) {
        let kicks = std::mem::take(&mut self.cpus[this as usize].kicks);
        for (cpu, flags) in kicks {
            self.rq_lock(cpu);
            self.kick_one(this, cpu, flags);
            self.rq_unlock(cpu);
        }
    }

    fn kick_one(&mut self, this: Cpu, cpu: Cpu, flags: u64) {
        if !self.cpus[cpu as usize].online && cpu != this {
            return;
        }
        if flags & u64::from(SCX_KICK_IDLE) != 0 {
            if self.kick_if_idle_helps(cpu) {
                self.resched(cpu);
            }
            return;
        }
        if let Some(current) = self.cpus[cpu as usize].current {
            let current = &mut self.tasks[current as usize];
            if flags & u64::from(SCX_KICK_PREEMPT) != 0 && !current.is_realtime() {
                current.c.scx.slice = 0;
            }
        }
        self.resched(cpu);
    }
}
