// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stock scheduling class, for all CPUs: who waits where, when slices end, who moves.
//!
//! Rule     A tree of queues for each CPU (fair_tree.rs). A waking task goes to an idle CPU near its previous one, else to
//!          that; a CPU without work takes some from the one that has most, and every some ticks from one that has more
//!          by weight, if that makes the two more alike. An idle CPU is told when somebody begins to wait. Slices last
//!          0.7 ms * (1 + log2 of the CPUs, at most 3), or what a task has asked for: on 7.2 a timer ends them (HRTICK),
//!          on 6.18 the tick does.
//! Source   Linux' scheduler as documented (sched-eevdf, sysctl_sched_base_slice, SCHED_TUNABLESCALING_LOG), and what
//!          was measured in guests.
//! Limits   No utilisation, no wake affinity to the waker; what groups and queues weigh is not averaged over time.

use std::cmp::Reverse;

use super::{
    fair_queue::Entity,
    fair_tree::FairTree,
    runtime_ns, tell_idle,
    weights::{of_cgroup, of_nice, Shares},
};
use crate::{
    error::Error,
    ffi::{SCX_DEQ_SLEEP, SCX_ENQ_WAKEUP, SCX_KICK_PREEMPT, SCX_WAKE_FORK, SCX_WAKE_SYNC},
    kernel::{Kernel, SLICE_INFINITE},
    scheduler::Scheduler,
    setup::{Cpu, Kernel as Version},
    trace::TaskId,
};

/// The kernel's base slice on one CPU.
const BASE_SLICE_NS: u64 = 700_000;
/// More CPUs than this do not lengthen slices further.
const SCALING_CPUS_MAX: u32 = 8;
/// Ticks from one look at other CPUs' queues to the next.
const BALANCE_TICKS: u64 = 4;
/// What the kernel assumes where the scenario has no ticks.
const TICK_NS: u64 = 4_000_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Eevdf {
    /// None: the kernel's.
    slice_ns: Option<u64>,
    /// Of tasks that ask for none.
    base_slice_ns: u64,
    tick_ns: u64,
    /// Whether slices end by a timer, not only by the tick.
    is_sharp: bool,
    queues: Vec<FairTree>,
    shares: Shares,
    tasks: Vec<Known>,
    cpus: Vec<Local>,
}

/// What is known of a task.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Whose queue has it.
    cpu: Cpu,
    /// Its CPU time when it was last charged.
    charged_ns: u64,
}

/// What is known of a CPU.
#[derive(Debug, Clone, Copy, Default)]
struct Local {
    /// It was told to choose again; else its task gave up the CPU by itself.
    was_kicked: bool,
    balance_at_ns: u64,
}

impl Eevdf {
    /// With the kernel's slices, or others.
    pub fn new(slice_ns: Option<u64>) -> Self {
        Self {
            slice_ns,
            ..Self::default()
        }
    }

    fn queue(&mut self, cpu: Cpu) -> &mut FairTree {
        &mut self.queues[cpu as usize]
    }

    /// Charges the running task of a queue; whether its slice has ended.
    fn charge(&mut self, k: &Kernel, cpu: Cpu) -> bool {
        let Some(task) = self.queues[cpu as usize].current() else {
            return false;
        };
        let runtime_ns = runtime_ns(k, task, cpu);
        let known = &mut self.tasks[task as usize];
        let ran_ns = runtime_ns.saturating_sub(known.charged_ns);
        known.charged_ns = known.charged_ns.max(runtime_ns);
        self.queue(cpu).charge(ran_ns)
    }

    /// What the groups weigh on a CPU, from these upwards to the root.
    fn weigh(&mut self, k: &Kernel, cpu: Cpu, groups: &[usize]) {
        if k.cgroups.len() == 1 {
            return;
        }
        self.charge(k, cpu);
        for group in groups {
            let weight = self.queues[cpu as usize].weight(*group);
            self.shares.set_queue(*group, cpu, weight);
            let share = self.shares.share(*group, cpu);
            if weight > 0 {
                self.queue(cpu).set_group_weight(*group, share);
            }
        }
    }

    /// After a task has come, gone, or been given another weight.
    fn weigh_above(&mut self, k: &Kernel, task: TaskId) {
        let cpu = self.tasks[task as usize].cpu;
        let groups = self.queues[cpu as usize].groups_above(task);
        self.weigh(k, cpu, &groups);
    }

    /// What other CPUs have changed since.
    fn weigh_all(&mut self, k: &Kernel, cpu: Cpu) {
        let groups: Vec<usize> = (0..k.cgroups.len()).rev().collect();
        self.weigh(k, cpu, &groups);
    }

    fn slice_of(&self, k: &Kernel, task: TaskId) -> u64 {
        let asked_ns = k.tasks[task as usize].asked_slice_ns;
        asked_ns.unwrap_or(self.base_slice_ns)
    }

    /// Takes what is known of the task to another CPU's queue.
    fn move_to(&mut self, k: &Kernel, task: TaskId, cpu: Cpu) {
        let from = self.tasks[task as usize].cpu;
        if from == cpu {
            return;
        }
        if let Some(entity) = self.queue(from).fetch(task) {
            let group = k.tasks[task as usize].cgroup;
            self.queue(cpu).bring(task, group, entity);
        }
        self.tasks[task as usize].cpu = cpu;
    }

    /// The CPU is to choose again.
    fn resched(&mut self, k: &mut Kernel, cpu: Cpu) {
        self.cpus[cpu as usize].was_kicked = true;
        k.kick(cpu, u64::from(SCX_KICK_PREEMPT));
    }

    /// Sees to it that the running task's slice will end, if anybody waits.
    fn arm(&mut self, k: &mut Kernel, cpu: Cpu) {
        let queue = &self.queues[cpu as usize];
        if self.is_sharp && queue.current().is_some() && queue.runnable() > 1 {
            let at_ns = k.now_ns() + queue.slice_left_ns();
            k.start_timer(cpu, at_ns);
        }
    }

    /// What ran on the CPU is charged, and forgotten if it has gone.
    fn settle(&mut self, k: &Kernel, cpu: Cpu, prev: Option<TaskId>) {
        let ended = self.charge(k, cpu);
        let was_kicked = std::mem::take(&mut self.cpus[cpu as usize].was_kicked);
        let queue = &mut self.queues[cpu as usize];
        let Some(task) = queue.current() else {
            return;
        };
        if !k.is_queued(task) {
            queue.dequeue(task, false);
        } else if Some(task) != prev {
            queue.put_back();
        } else if !ended && !was_kicked {
            queue.yield_current();
        }
    }

    /// Takes a waiting task from the CPU that has most, and one for this CPU; where this one has work, too, only if the two
    /// then have more alike.
    fn pull(&mut self, k: &Kernel, cpu: Cpu, is_idle: bool) {
        let own = self.queues[cpu as usize].weight(0);
        let others = (0..self.queues.len() as Cpu).filter(|other| *other != cpu);
        let mut fuller: Vec<(u64, Cpu)> = others
            .map(|other| (self.queues[other as usize].weight(0), other))
            .filter(|(weight, _)| is_idle || *weight > own)
            .collect();
        fuller.sort_by_key(|(weight, _)| Reverse(*weight));
        let task = fuller.into_iter().find_map(|(weight, other)| {
            let queue = &self.queues[other as usize];
            let fits = |task: &TaskId| {
                let moved = if is_idle {
                    0.0
                } else {
                    queue.weight_at_root(*task)
                };
                2.0 * moved <= weight.saturating_sub(own) as f64
                    && k.is_queued(*task)
                    && k.may_run_on(*task, cpu)
            };
            let task = queue.waiting().find(fits);
            task
        });
        if let Some(task) = task {
            let groups = self.queues[self.tasks[task as usize].cpu as usize].groups_above(task);
            let from = self.tasks[task as usize].cpu;
            self.move_to(k, task, cpu);
            self.weigh(k, from, &groups);
            self.queue(cpu).enqueue(task);
            self.weigh_above(k, task);
        }
    }

    fn balance(&mut self, k: &Kernel, cpu: Cpu) {
        if self.queues.len() == 1 {
            return;
        }
        let (now_ns, own) = (k.now_ns(), self.queues[cpu as usize].runnable());
        if own == 0 {
            self.pull(k, cpu, true);
        } else if now_ns >= self.cpus[cpu as usize].balance_at_ns {
            self.cpus[cpu as usize].balance_at_ns = now_ns + BALANCE_TICKS * self.tick_ns;
            self.pull(k, cpu, false);
        }
    }

    /// The CPU with the fewest tasks, for a new one.
    fn emptiest(&self, k: &Kernel, task: TaskId, otherwise: Cpu) -> Cpu {
        let usable = (0..self.queues.len() as Cpu)
            .filter(|cpu| k.may_run_on(task, *cpu) && k.online.has(*cpu));
        usable
            .min_by_key(|cpu| self.queues[*cpu as usize].runnable())
            .unwrap_or(otherwise)
    }
}

impl Scheduler for Eevdf {
    fn name(&self) -> &'static str {
        "eevdf"
    }

    fn begin(&mut self, k: &mut Kernel) -> Result<(), Error> {
        let (cpus, online) = (k.machine.cpus(), k.machine.online().count() as u32);
        let scaling = 1 + online.min(SCALING_CPUS_MAX).ilog2();
        self.base_slice_ns = self.slice_ns.unwrap_or(BASE_SLICE_NS * u64::from(scaling));
        self.tick_ns = match k.costs.tick_period_ns {
            0 => TICK_NS,
            period_ns => period_ns,
        };
        self.is_sharp = k.version == Version::V7_2;
        let plans = &k.setup.cgroups;
        let groups: Vec<_> = plans
            .iter()
            .map(|group| (group.parent, of_cgroup(group.weight)))
            .collect();
        self.queues = (0..cpus)
            .map(|_| FairTree::new(&groups, self.base_slice_ns, self.tick_ns))
            .collect();
        self.cpus = vec![Local::default(); cpus as usize];
        self.shares = Shares::new(plans.iter().map(|group| group.weight), cpus);
        Ok(())
    }

    fn init_task(&mut self, k: &mut Kernel, task: TaskId) -> bool {
        let (index, cpu) = (task as usize, k.cpu_of(task));
        if index >= self.tasks.len() {
            self.tasks.resize(index + 1, Known::default());
        }
        self.tasks[index] = Known { cpu, charged_ns: 0 };
        let entity = Entity::new(of_nice(k.nice(task)), self.slice_of(k, task));
        let group = k.tasks[index].cgroup;
        self.queue(cpu).bring(task, group, entity);
        true
    }

    fn exit_task(&mut self, k: &mut Kernel, task: TaskId) {
        self.disable(k, task);
        let cpu = self.tasks[task as usize].cpu;
        self.queue(cpu).fetch(task);
    }

    fn enable(&mut self, k: &mut Kernel, task: TaskId) {
        self.tasks[task as usize].charged_ns = k.runtime_ns(task);
    }

    fn disable(&mut self, k: &mut Kernel, task: TaskId) {
        let cpu = self.tasks[task as usize].cpu;
        self.queue(cpu).dequeue(task, false);
        self.weigh_above(k, task);
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev_cpu: Cpu, wake_flags: u64) -> Cpu {
        // Its own choice looks for an idle CPU also where the waker is about to sleep.
        let asked = wake_flags & !u64::from(SCX_WAKE_SYNC);
        let (cpu, is_idle) = k.select_cpu_dfl(task, prev_cpu, asked);
        if !is_idle && wake_flags & u64::from(SCX_WAKE_FORK) != 0 {
            return self.emptiest(k, task, cpu);
        }
        cpu
    }

    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, flags: u64) {
        let cpu = k.cpu_of(task);
        self.move_to(k, task, cpu);
        self.charge(k, cpu);
        if self.queues[cpu as usize].current() == Some(task) {
            return self.queue(cpu).put_back();
        }
        self.queue(cpu).enqueue(task);
        self.weigh_above(k, task);
        let wakes = flags & SCX_ENQ_WAKEUP != 0;
        if wakes && self.queues[cpu as usize].preempts(task) {
            self.resched(k, cpu);
            return;
        }
        self.arm(k, cpu);
        if self.queues[cpu as usize].runnable() > 1 || k.current(cpu).is_some() {
            tell_idle(k, task);
        }
    }

    fn quiescent(&mut self, k: &mut Kernel, task: TaskId, flags: u64) {
        let cpu = self.tasks[task as usize].cpu;
        if self.queues[cpu as usize].current() == Some(task) {
            self.charge(k, cpu);
        }
        let sleeps = flags & u64::from(SCX_DEQ_SLEEP) != 0;
        self.queue(cpu).dequeue(task, sleeps);
        self.weigh_above(k, task);
    }

    fn dispatch(&mut self, k: &mut Kernel, cpu: Cpu, prev: Option<TaskId>) {
        self.settle(k, cpu, prev);
        self.weigh_all(k, cpu);
        self.balance(k, cpu);
        let Some(task) = self.queue(cpu).pick() else {
            return;
        };
        if Some(task) == prev {
            // The kernel starts its timer where tasks change: a task that goes on does so until the tick.
            k.set_slice(task, SLICE_INFINITE);
        } else {
            self.tasks[task as usize].charged_ns = k.runtime_ns(task);
            k.insert_local(task, SLICE_INFINITE, 0);
            self.arm(k, cpu);
        }
    }

    fn tick(&mut self, k: &mut Kernel, cpu: Cpu, _task: TaskId) {
        self.charge(k, cpu);
        self.weigh_all(k, cpu);
        if self.queues[cpu as usize].is_unprotected() {
            self.resched(k, cpu);
        }
    }

    /// The kernel does not look whether the slice has ended: it chooses again.
    fn timer(&mut self, k: &mut Kernel, number: u32) {
        if self.queues[number as usize].runnable() > 1 {
            self.resched(k, number);
        }
    }

    fn set_weight(&mut self, k: &mut Kernel, task: TaskId) {
        let cpu = self.tasks[task as usize].cpu;
        let (weight, slice_ns) = (of_nice(k.nice(task)), self.slice_of(k, task));
        self.queue(cpu).set_weight(task, weight);
        self.queue(cpu).set_slice(task, slice_ns);
        self.weigh_above(k, task);
    }

    fn cgroup_move(&mut self, k: &mut Kernel, task: TaskId, _from: usize, to: usize) {
        let cpu = self.tasks[task as usize].cpu;
        let groups = self.queues[cpu as usize].groups_above(task);
        if let Some(entity) = self.queue(cpu).fetch(task) {
            self.queue(cpu).bring(task, to, entity);
        }
        self.weigh(k, cpu, &groups);
    }

    fn cgroup_set_weight(&mut self, k: &mut Kernel, cgroup: usize, weight: u32) {
        self.shares.set_group(cgroup, weight);
        for cpu in 0..self.queues.len() as Cpu {
            self.weigh(k, cpu, &[cgroup]);
        }
    }
}
