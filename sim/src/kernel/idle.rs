// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs are idle, and the kernel's own choice among them. As in ext_idle.c: scx_select_cpu_dfl, scx_pick_idle_cpu.

use super::Kernel;
use crate::ffi::{cpumask, SCX_WAKE_SYNC};
use crate::setup::Cpu;
use crate::setup::Machine;
use crate::trace::TaskId;

/// The machine, seen from its cores and caches.
pub(crate) struct Topology {
    cpus_of_core: Vec<Vec<Cpu>>,
    cpus_of_llc: Vec<cpumask>,
    has_smt: bool,
}

impl Topology {
    pub fn new(machine: &Machine) -> Self {
        let count = |of: &[u32]| of.iter().max().map_or(0, |last| *last as usize + 1);
        let mut cpus_of_core = vec![Vec::new(); count(&machine.core_of)];
        let mut cpus_of_llc = vec![cpumask::default(); count(&machine.llc_of)];
        for cpu in 0..machine.cpus() {
            cpus_of_core[machine.core_of[cpu as usize] as usize].push(cpu);
            cpus_of_llc[machine.llc_of[cpu as usize] as usize].set(cpu);
        }
        let has_smt = cpus_of_core.iter().any(|cpus| cpus.len() > 1);
        Self {
            cpus_of_core,
            cpus_of_llc,
            has_smt,
        }
    }
}

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
        let core = self.machine.core_of[cpu as usize];
        let siblings = &self.topology.cpus_of_core[core as usize];
        siblings.iter().all(|other| self.idle.has(*other))
    }

    /// The first idle CPU among `among`, as a whole core if asked for; it is claimed.
    fn pick_in(&mut self, among: &cpumask, whole_core: bool) -> Option<Cpu> {
        if self.idle.is_empty() {
            return None;
        }
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
            if self.cpus[this as usize].local.is_empty()
                && !self.idle.is_empty()
                && allowed.has(this)
            {
                return (this, true);
            }
        }
        let llc = self.machine.llc_of[prev_cpu as usize];
        let near = allowed.and(&self.topology.cpus_of_llc[llc as usize]);
        for whole_core in [true, false] {
            if whole_core && !self.topology.has_smt {
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
