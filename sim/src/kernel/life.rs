// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks from fork to burial. As in core.c and ext.c: scx_fork, scx_enable_task, wake_up_new_task, do_exit,
//! scx_disable_and_exit_task; and what the daemon does for them.

use super::{Custody, Errand, Irq, Kernel, Life, NEVER_NS};
use crate::ffi::{cpumask, task_struct, EXIT_ZOMBIE, PF_EXITING};
use crate::programs;
use crate::rates::RateRequest;
use crate::setup::{ActionKind, Policy, TaskIndex};
use crate::trace::{TaskId, What};

/// How long the daemon takes for what it is asked, and to notice that a program has gone.
const DAEMON_NS: u64 = 60_000;
const DAEMON_NOTICES_NS: u64 = 700_000;

impl Kernel {
    /// `maker`: who forks it; none: somebody who is no part of the run.
    pub(crate) fn start(&mut self, index: TaskIndex, maker: Option<TaskId>) {
        self.spend(self.costs.syscall_ns);
        if let Some(task) = self.create(index, maker) {
            self.wake_new(task);
        }
    }

    /// A task exists and is known to the scheduler, but has not run yet. None: no memory.
    pub(crate) fn create(&mut self, index: TaskIndex, maker: Option<TaskId>) -> Option<TaskId> {
        let setup = std::rc::Rc::clone(&self.setup);
        let plan = &setup.tasks[index];
        let id = self.tasks.len() as TaskId;
        let everywhere = cpumask::of(0..self.machine.cpus());
        let allowed = match &plan.affinity {
            Some(cpus) => cpumask::of(cpus.iter().copied()).and(&everywhere),
            None => everywhere,
        };
        self.numbers.push(Some(id));
        let number = self.numbers.len() as i32;
        let mut c = Box::new(task_struct {
            pid: number,
            tgid: number,
            sim_task: id,
            real_parent: maker.map_or(std::ptr::null_mut(), |maker| {
                std::ptr::from_mut(&mut *self.tasks[maker as usize].c)
            }),
            nr_cpus_allowed: allowed.count() as i32,
            cpus_mask: allowed,
            static_prio: 120 + plan.nice,
            sched_task_group: &mut *self.cgroups[plan.cgroup].group,
            ..task_struct::default()
        });
        c.cpus_ptr = &c.cpus_mask;
        let cpu = if allowed.has(self.this_cpu) {
            self.this_cpu
        } else {
            allowed.first().unwrap_or(0)
        };
        self.tasks.push(super::Task {
            id,
            of: index,
            name: plan.name.clone(),
            c,
            policy: plan.policy,
            own_policy: plan.policy,
            life: Life::New,
            cpu,
            allowed,
            on_rq: false,
            on_cpu: false,
            is_migrating: false,
            enabled: false,
            custody: Custody::None,
            dsq: None,
            direct: None,
            sticky_cpu: None,
            holding_cpu: None,
            pi_lock: None,
            program: Some(Box::new(programs::begin(&setup, index, id))),
            work_left_ns: 0,
            sleep_generation: 0,
            asked_slice_ns: plan.slice_ns,
            slack_ns: programs::slack_ns(&plan.program),
            cgroup: plan.cgroup,
            waits_since_ns: NEVER_NS,
            wait_max_ns: 0,
            ran_before_ns: 0,
            allowed_since_ns: self.now_ns,
            changed_since_ns: self.now_ns,
            was_overtaken: false,
            switches: 0,
            left_as_yield: false,
            killed: false,
            was_refused: false,
            plays: None,
            wants: None,
            blocked_on: None,
            waiter: Box::default(),
            asks: None,
        });
        self.emit(What::Created {
            task: id,
            of: index,
        });
        if !self.attached {
            return Some(id);
        }
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        if !unsafe { (*scheduler).init_task(self, id) } {
            self.tasks[id as usize].life = Life::Dead;
            self.tasks[id as usize].program = None;
            return None;
        }
        if plan.policy == Policy::Normal && self.attached {
            let cpu = self.task_rq_lock(id);
            self.enable(id);
            self.task_rq_unlock(id, cpu);
        }
        if self.attached {
            // SAFETY: the scheduler lives as long as the kernel.
            self.as_daemon(|k| unsafe { (*scheduler).begin_task(k, id) });
        }
        Some(id)
    }

    /// The scheduler becomes responsible for the task.
    pub(crate) fn enable(&mut self, task: TaskId) {
        self.tasks[task as usize].enabled = true;
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        unsafe { (*scheduler).enable(self, task) };
        self.tell_weight(task);
    }

    pub(crate) fn disable(&mut self, task: TaskId) {
        if !std::mem::take(&mut self.tasks[task as usize].enabled) {
            return;
        }
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        unsafe { (*scheduler).disable(self, task) };
        self.tasks[task as usize].c.scx.dsq_vtime = 0;
    }

    /// The current task calls exit, and first gives back its memory for so long.
    pub(crate) fn exit_after(&mut self, task: TaskId, work_ns: u64) {
        let state = &mut self.tasks[task as usize];
        state.c.flags |= PF_EXITING;
        state.work_left_ns = work_ns.max(1);
    }

    /// The current task ends.
    pub(crate) fn exit(&mut self, cpu: u32, task: TaskId) {
        self.spend(self.costs.syscall_ns);
        programs::release(self, task);
        let state = &mut self.tasks[task as usize];
        state.c.flags |= PF_EXITING;
        state.c.exit_state = EXIT_ZOMBIE as i32;
        state.life = Life::Ending;
        state.sleep_generation = state.sleep_generation.wrapping_add(1);
        state.program = None;
        self.schedule(cpu, false);
    }

    /// What is left of a task that has ended.
    pub(crate) fn bury(&mut self, task: TaskId) {
        let cpu = self.task_rq_lock(task);
        self.disable(task);
        self.task_rq_unlock(task, cpu);
        self.exit_task(task);
        self.tasks[task as usize].life = Life::Dead;
        self.ended_at_ns.push(self.now_ns);
        self.emit(What::Ended { task });
        let at_ns = self.now_ns + DAEMON_NOTICES_NS;
        let this = self.this_cpu;
        self.interrupt_at(this, at_ns, Irq::Daemon(Errand::Bury { task }));
    }

    /// The daemon is asked; the task sleeps until it has answered.
    pub(crate) fn ask_daemon(&mut self, cpu: u32, task: TaskId, errand: Errand) {
        let at_ns = self.now_ns + DAEMON_NS;
        self.interrupt_at(cpu, at_ns, Irq::Daemon(errand));
        self.block(cpu, task);
    }

    /// The daemon is one thread, which does one thing after the other, wherever it is asked.
    pub(crate) fn as_daemon(&mut self, work: impl FnOnce(&mut Self)) {
        while self.concurrent && std::mem::replace(&mut self.daemon_works, true) {
            self.spin();
        }
        let this = self.this_cpu;
        self.cpus[this as usize].spins = 0;
        work(self);
        self.daemon_works = false;
    }

    pub(crate) fn run_errand(&mut self, errand: Errand) {
        self.spend(self.costs.interrupt_ns);
        if !self.attached {
            return match errand {
                Errand::Join { task, .. } | Errand::Leave { task } | Errand::Rate { task } => {
                    self.wake(task, 0)
                }
                Errand::Bury { .. } => {}
            };
        }
        let scheduler = self.scheduler();
        // SAFETY: the scheduler lives as long as the kernel.
        let scheduler = unsafe { &mut *scheduler };
        match errand {
            Errand::Join { task, domain } => {
                let domain = domain as usize;
                let joined = scheduler.join(self, task, domain);
                if joined {
                    self.emit(What::Membership {
                        task,
                        domain,
                        joined: true,
                    });
                }
                self.wake(task, 0);
            }
            Errand::Leave { task } => {
                if let Some(domain) = scheduler.leave(self, task) {
                    self.emit(What::Membership {
                        task,
                        domain,
                        joined: false,
                    });
                }
                self.wake(task, 0);
            }
            Errand::Rate { task } => {
                if let Some(request) = self.tasks[task as usize].asks.take() {
                    let is_reservation = matches!(request, RateRequest::Reserve(_));
                    if let Err(text) = scheduler.ask_rate(self, task, request) {
                        self.emit(What::Refused {
                            task,
                            text,
                            is_reservation,
                        });
                    }
                }
                self.wake(task, 0);
            }
            Errand::Bury { task } => scheduler.forget_client(self, task),
        }
    }

    /// Something from outside.
    pub(crate) fn act(&mut self, index: usize) {
        let setup = std::rc::Rc::clone(&self.setup);
        self.spend(self.costs.syscall_ns);
        match &setup.actions[index].what {
            ActionKind::CpuOffline(cpu) => self.with_cpus_locked(|k| k.cpu_offline(*cpu)),
            ActionKind::CpuOnline(cpu) => self.with_cpus_locked(|k| k.cpu_online(*cpu)),
            ActionKind::Nice { task, nice } => self.each_of(*task, |k, id| k.set_nice(id, *nice)),
            ActionKind::Affinity { task, cpus } => {
                let mask = cpumask::of(cpus.iter().copied());
                self.each_of(*task, |k, id| k.set_affinity(id, mask));
            }
            ActionKind::MoveToCgroup { task, cgroup } => {
                self.each_of(*task, |k, id| k.move_to_cgroup(id, *cgroup));
            }
            ActionKind::CgroupWeight { cgroup, weight } => {
                self.set_cgroup_weight(*cgroup, *weight);
            }
            ActionKind::CgroupMax { cgroup, max } => self.set_cgroup_limit(*cgroup, *max),
            ActionKind::Kill { task } => self.each_of(*task, |k, id| k.kill(id)),
            ActionKind::DaemonDies { back_after_ns } => self.daemon_dies(*back_after_ns),
            ActionKind::Dump => self.dump_state(),
            ActionKind::Call(call) => {
                let scheduler = self.scheduler();
                if self.attached {
                    // SAFETY: the scheduler lives as long as the kernel.
                    self.as_daemon(|k| unsafe { (*scheduler).call(k, call) });
                }
            }
            ActionKind::Tunables(tunables) => {
                let scheduler = self.scheduler();
                // SAFETY: the scheduler lives as long as the kernel.
                unsafe { (*scheduler).set_tunables(*tunables) };
            }
        }
    }

    /// Living instances of a task of the setup.
    fn each_of(&mut self, index: TaskIndex, mut change: impl FnMut(&mut Self, TaskId)) {
        let ids: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|task| task.of == index && !matches!(task.life, Life::Dead | Life::Ending))
            .map(|task| task.id)
            .collect();
        for id in ids {
            change(self, id);
        }
    }

    /// The task exits the next time that it gets to run its program.
    fn kill(&mut self, task: TaskId) {
        let state = &mut self.tasks[task as usize];
        state.killed = true;
        state.work_left_ns = 0;
        let cpu = state.cpu;
        if state.life == Life::Sleeping {
            self.wake(task, 0);
        } else if self.cpus[cpu as usize].current == Some(task) && cpu != self.this_cpu {
            self.resched(cpu);
        }
    }
}
