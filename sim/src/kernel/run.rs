// SPDX-License-Identifier: MIT OR Apache-2.0
//! From an empty machine to a run's outcome.

use super::idle::Topology;
use super::limit::Budget;
use super::path::Fibre;
use super::queue::Queue;
use super::{Cgroup, CpuState, Happening, Irq, Kernel, Life, NEVER_NS};
use crate::consort::user::Users;
use crate::error::Error;
use crate::ffi::{self, cpumask, task_struct, SCX_DEQ_SAVE};
use crate::groups::RoleTotal;
use crate::programs::Shared;
use crate::random::Random;
use crate::scheduler::Scheduler;
use crate::setup::{Cpu, Setup};
use crate::trace::{Observer, Outcome, TaskId, TaskTotal};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The scheduler's cgroup ids begin here: 1 is the root's in Linux.
const ROOT_CGROUP_ID: u64 = 1;
/// Programs start one after the other, as a shell starts them.
const START_GAP_NS: u64 = 10_000;

impl Kernel {
    pub(crate) fn new(
        setup: &Setup,
        scheduler: Box<dyn Scheduler>,
        observer: &mut dyn Observer,
    ) -> Result<Box<Self>, Error> {
        let cpus = setup.machine.cpus();
        let online = cpumask::of(setup.machine.online());
        let observed = !observer.is_deaf();
        // SAFETY: only the lifetime changes; `run` outlives the kernel, and no run outlives its observer.
        let observer = unsafe {
            std::mem::transmute::<*mut (dyn Observer + '_), *mut (dyn Observer + 'static)>(observer)
        };
        let mut kernel = Box::new(Self {
            now_ns: 0,
            this_cpu: 0,
            version: setup.machine.kernel,
            costs: setup.costs,
            faults: setup.faults,
            memory_failed: false,
            concurrent: cpus > 1,
            daemon_works: false,
            cpus_locked: false,
            machine: setup.machine.clone(),
            topology: Topology::new(&setup.machine),
            users: Users::new(&setup.users),
            setup: Rc::new(setup.clone()),
            end_ns: setup.duration_ns,
            queue: Queue::default(),
            cpus: (0..cpus)
                .map(|cpu| CpuState::new(cpu, online.has(cpu)))
                .collect(),
            tasks: Vec::new(),
            cgroups: Vec::new(),
            idle: online,
            online,
            global: std::collections::VecDeque::new(),
            shared: Shared::default(),
            rt_mutexes: BTreeMap::new(),
            random: Random::derived(setup.seed, 1),
            scheduler,
            observer,
            observed,
            timer_generations: Vec::new(),
            violation: None,
            decisions: 0,
            switches: 0,
            idle_ns: 0,
            bypass: false,
            bypassed_at_ns: 0,
            attached: true,
            ended_at_ns: Vec::new(),
            numbers: Vec::new(),
            stopping: false,
            checked_at_ns: 0,
            group_rates: super::group_rate::held(setup),
            idle_task: Box::new(task_struct::default()),
            single: (0..cpus).map(|cpu| cpumask::of([cpu])).collect(),
            dump: Vec::new(),
        });
        kernel.make_cgroups();
        if kernel.concurrent {
            for cpu in 0..cpus {
                let fibre = Fibre::new(cpu).map_err(|source| Error::System {
                    doing: format!("make a stack for CPU {cpu}"),
                    source,
                })?;
                kernel.cpus[cpu as usize].fibre = Some(fibre);
            }
        }
        Ok(kernel)
    }

    fn make_cgroups(&mut self) {
        let setup = Rc::clone(&self.setup);
        for (index, plan) in setup.cgroups.iter().enumerate() {
            let mut node = Box::new(ffi::kernfs_node {
                id: ROOT_CGROUP_ID + index as u64,
            });
            let mut c = Box::new(ffi::cgroup::default());
            let mut group = Box::new(ffi::task_group::default());
            c.kn = &mut *node;
            c.self_.cgroup = &mut *c;
            if let Some(parent) = plan.parent {
                let parent = &mut self.cgroups[parent];
                c.level = parent.c.level + 1;
                c.self_.parent = &mut parent.c.self_;
            }
            group.css.cgroup = &mut *c;
            self.cgroups.push(Cgroup {
                c,
                _node: node,
                group,
                weight: plan.weight,
                budget: plan.max.map(|max| Budget::new(max, 0)),
                changed_ns: 0,
                online: false,
            });
        }
    }

    pub(crate) fn run(&mut self) -> Result<Outcome, Error> {
        let scheduler = self.scheduler();
        self.concurrent = false;
        // SAFETY: the scheduler lives as long as the kernel.
        let began = unsafe { (*scheduler).begin(self) };
        self.concurrent = self.cpus.len() > 1;
        began?;
        self.now_ns = 0;
        self.plan();
        while self.violation.is_none() {
            if self
                .queue
                .next_at_ns()
                .is_none_or(|at_ns| at_ns > self.end_ns)
            {
                break;
            }
            let Some((at_ns, what)) = self.queue.pop() else {
                break;
            };
            self.now_ns = self.now_ns.max(at_ns);
            self.happen(what);
            self.emit_intervals();
            self.check_step();
        }
        self.now_ns = self.now_ns.max(self.end_ns);
        // What the kernel needs to unload the scheduler is no part of the run.
        let ended_ns = self.now_ns;
        let totals = self.totals();
        self.check_shares();
        let mut roles = Vec::new();
        if self.violation.is_none() {
            self.end_paths();
        }
        if self.violation.is_none() {
            roles = self.role_totals();
            self.emit_intervals();
            self.unload();
        }
        Ok(self.outcome(totals, roles, ended_ns))
    }

    fn plan(&mut self) {
        let setup = Rc::clone(&self.setup);
        for (index, task) in setup.tasks.iter().enumerate() {
            if let Some(start_ns) = task.start_ns {
                let at_ns = start_ns + index as u64 * START_GAP_NS;
                let cpu = index as Cpu % self.machine.cpus();
                self.interrupt_at(cpu, at_ns, Irq::Start(index));
            }
        }
        for (index, action) in setup.actions.iter().enumerate() {
            self.interrupt_at(0, action.at_ns, Irq::Action(index));
        }
    }

    /// Every CPU ends what it does in the kernel.
    fn end_paths(&mut self) {
        self.stopping = true;
        while self.cpus.iter().any(|cpu| cpu.in_kernel) && self.violation.is_none() {
            let Some((at_ns, what)) = self.queue.pop() else {
                self.violate("deadlock", "CPUs wait for each other".to_owned());
                return;
            };
            if matches!(what, Happening::Resume(_)) {
                self.now_ns = self.now_ns.max(at_ns);
                self.happen(what);
            }
        }
        self.concurrent = false;
    }

    /// Gives every task back as the kernel does when a scheduler leaves it.
    fn unload(&mut self) {
        self.bypass = true;
        for index in 0..self.tasks.len() {
            let task = index as TaskId;
            if self.tasks[index].life == Life::Dead {
                continue;
            }
            self.this_cpu = self.tasks[index].cpu;
            if self.tasks[index].on_rq {
                self.dequeue_task(task, u64::from(SCX_DEQ_SAVE));
            }
            self.disable(task);
            self.exit_task(task);
            self.tasks[index].life = Life::Dead;
        }
        if !self.attached {
            return;
        }
        let scheduler = self.scheduler();
        // SAFETY: as above.
        if let Some(violation) = unsafe { (*scheduler).end(self) } {
            self.violation.get_or_insert(violation);
        }
    }

    /// What every task has had until now, the present run included.
    fn totals(&mut self) -> Vec<TaskTotal> {
        for cpu in 0..self.cpus.len() {
            self.update_current(cpu as Cpu);
            if self.cpus[cpu].current.is_none() && self.cpus[cpu].online {
                self.idle_ns += self.now_ns.saturating_sub(self.cpus[cpu].idle_since_ns);
            }
        }
        let now_ns = self.now_ns;
        let total = |task: &super::Task| TaskTotal {
            name: task.name.clone(),
            of: task.of,
            run_ns: task.c.se.sum_exec_runtime,
            switches: task.switches,
            wait_max_ns: if task.waits_since_ns == NEVER_NS {
                task.wait_max_ns
            } else {
                task.wait_max_ns.max(now_ns - task.waits_since_ns)
            },
            ended: matches!(task.life, Life::Dead | Life::Ending),
        };
        self.tasks.iter().map(total).collect()
    }

    /// What became of roles' intervals.
    fn role_totals(&mut self) -> Vec<RoleTotal> {
        if !self.attached || self.setup.groups.is_empty() {
            return Vec::new();
        }
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        unsafe { (*scheduler).role_totals(self) }
    }

    fn outcome(&mut self, tasks: Vec<TaskTotal>, roles: Vec<RoleTotal>, end_ns: u64) -> Outcome {
        let mut violation = self.violation.take();
        if let Some(violation) = &mut violation {
            let scheduler = self.scheduler();
            // SAFETY: the scheduler lives as long as the kernel.
            violation.state = unsafe { (*scheduler).dump(self) };
        }
        Outcome {
            end_ns,
            tasks,
            decisions: self.decisions,
            switches: self.switches,
            idle_ns: self.idle_ns,
            counters: self.scheduler.counters(),
            roles,
            fluid_lag: None,
            fluid_given_ns: Vec::new(),
            violation,
        }
    }
}
