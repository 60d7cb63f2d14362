// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs are idle, and the kernel's own choice among them. As in ext_idle.c: scx_select_cpu_dfl, scx_pick_idle_cpu.

use super::Kernel;
use crate::ffi::{cpumask, SCX_WAKE_SYNC};
use crate::setup::Cpu;
use crate::trace::TaskId;

impl Kernel {
    pub(crate) fn usable(&self, task: TaskId) -> cpumask {
        let state = &self.tasks[task as usize];
        if state.c.migration_disabled > 1 || self.is_pinned_by_migration(task) {
            return cpumask::of([state.cpu]);
        }
        state.allowed
    }

    /// The callback that runs disables migration of the current task itself: that does not count.
    fn is_pinned_by_migration(&self, task: TaskId) -> bool {
        let state = &self.tasks[task as usize];
        let by_callback = u16::from(self.current(self.this_cpu) == Some(task));
        state.c.migration_disabled > by_callback
    }

    fn claim(&mut self, cpu: Cpu) -> bool {
        let was_idle = self.idle.has(cpu);
        self.idle.clear(cpu);
        was_idle
    }

    fn core_is_idle(&self, cpu: Cpu) -> bool {
        let cores = &self.machine.core_of;
        (0..self.machine.cpus())
            .filter(|other| cores[*other as usize] == cores[cpu as usize])
            .all(|other| self.idle.has(other))
    }

    /// The first idle CPU among `among`, as a whole core if asked for; it is claimed.
    fn pick_in(&mut self, among: &cpumask, whole_core: bool) -> Option<Cpu> {
        let candidates = self.idle.and(among);
        let found = candidates
            .iter()
            .find(|cpu| !whole_core || self.core_is_idle(*cpu))?;
        self.claim(found);
        Some(found)
    }

    /// scx_bpf_select_cpu_dfl: the CPU, and whether it was idle and is claimed.
    pub fn select_cpu_dfl(&mut self, task: TaskId, prev_cpu: Cpu, wake_flags: u64) -> (Cpu, bool) {
        let allowed = self.usable(task);
        if wake_flags & u64::from(SCX_WAKE_SYNC) != 0 {
            let this = self.this_cpu;
            if self.machine.llc_of[this as usize] == self.machine.llc_of[prev_cpu as usize]
                && allowed.has(prev_cpu)
                && self.claim(prev_cpu)
            {
                return (prev_cpu, true);
            }
            if self.cpus[this as usize].local.is_empty() && allowed.has(this) {
                return (this, true);
            }
        }
        let llc = self.machine.llc_of[prev_cpu as usize];
        let near = cpumask::of(
            allowed
                .iter()
                .filter(|cpu| self.machine.llc_of.get(*cpu as usize) == Some(&llc)),
        );
        let has_smt = self
            .machine
            .core_of
            .windows(2)
            .any(|pair| pair[0] == pair[1]);
        for whole_core in [true, false] {
            if whole_core && !has_smt {
                continue;
            }
            if allowed.has(prev_cpu)
                && self.idle.has(prev_cpu)
                && (!whole_core || self.core_is_idle(prev_cpu))
            {
                self.claim(prev_cpu);
                return (prev_cpu, true);
            }
            let found = self
                .pick_in(&near, whole_core)
                .or_else(|| self.pick_in(&allowed, whole_core));
            if let Some(cpu) = found {
                return (cpu, true);
            }
        }
        (prev_cpu, false)
    }

    /// scx_bpf_pick_idle_cpu.
    pub fn pick_idle_cpu(&mut self, among: &cpumask) -> Option<Cpu> {
        self.pick_in(among, true)
            .or_else(|| self.pick_in(among, false))
    }

    /// scx_bpf_pick_idle_cpu for the CPUs where a task may run.
    pub fn pick_idle_cpu_for(&mut self, task: TaskId) -> Option<Cpu> {
        let among = self.usable(task);
        self.pick_idle_cpu(&among)
    }
}
