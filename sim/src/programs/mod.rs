// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs, as what they do next each time that they get the CPU.

mod client;
mod hostile;
mod locks;
mod player;
mod script;
mod shared;
mod steps;
mod words;

pub(crate) use locks::Wanted;
pub(crate) use shared::{release, Shared};

use crate::ffi::{cpumask, SCX_WAKE_TTWU};
use crate::kernel::{Errand, Kernel, NEVER_NS};
use crate::random::Random;
use crate::rates::RateRequest;
use crate::setup::{Cpu, Policy, Program, Setup, TaskIndex};
use crate::trace::{TaskId, What};

/// Of programs that do not ask for sharp timers (PR_SET_TIMERSLACK).
const SLACK_NS: u64 = 50_000;
/// A step that takes no time takes this much, so that no program stops the clock.
const STEP_NS: u64 = 50;
/// A hog looks up this often.
const HOG_PIECE_NS: u64 = 1_000_000_000;

/// What a program does next.
pub(crate) enum Do {
    Work(u64),
    /// Until this time; NEVER_NS: until somebody wakes it.
    Sleep(u64),
    Yield,
    /// Gives back its memory for so long; nothing but [`Do::Exit`] may follow.
    ExitAfter(u64),
    Exit,
    /// Nothing that takes time: asks again.
    Again,
    /// Wakes them, and what the kernel is told of that: SCX_WAKE_SYNC, if it is as into a pipe or a socket.
    Wake(Vec<TaskId>, u32),
    Lock(Wanted),
    /// Gives the lock back, sleeps until the condition is signalled, takes the lock.
    Await {
        condition: u32,
        lock: u32,
    },
    Join(usize),
    Leave,
    Rate(RateRequest),
    Nice(i32),
    Slice(Option<u64>),
    Policy(Policy),
    Affinity(cpumask),
    MigrateDisable,
    MigrateEnable,
    Cgroup(usize),
    Exec,
    Fork(TaskIndex),
}

pub(crate) trait Behaviour {
    fn next(&mut self, at: &mut At<'_>) -> Do;
}

/// Where a program is when it decides what to do.
pub(crate) struct At<'a> {
    pub k: &'a mut Kernel,
    pub task: TaskId,
    pub random: &'a mut Random,
    /// Inside a poll that gave the CPU up.
    in_poll: &'a mut bool,
}

impl At<'_> {
    pub fn now_ns(&self) -> u64 {
        self.k.now_ns
    }

    pub fn served(&mut self, due_ns: u64) {
        let task = self.task;
        self.k.emit(What::Served { task, due_ns });
    }
}

pub(crate) struct Running {
    behaviour: Box<dyn Behaviour>,
    random: Random,
    in_poll: bool,
}

struct Hog;

impl Behaviour for Hog {
    fn next(&mut self, _: &mut At<'_>) -> Do {
        Do::Work(HOG_PIECE_NS)
    }
}

/// A task's program before its first step.
pub(crate) fn begin(setup: &Setup, index: TaskIndex, task: TaskId) -> Running {
    let behaviour: Box<dyn Behaviour> = match &setup.tasks[index].program {
        Program::Steps(steps) => Box::new(steps::Steps::new(steps)),
        Program::Player(player) => Box::new(player::Playing::new(player)),
        Program::Hog => Box::new(Hog),
        Program::MuteLiar { domain } => Box::new(hostile::MuteLiar::new(*domain)),
        Program::PoliteLiar { domain, work_ns } => {
            Box::new(hostile::PoliteLiar::new(*domain, *work_ns))
        }
        Program::Script { domain, bytes } => Box::new(script::Script::new(*domain, bytes)),
        Program::Garbage { domain, work_ns } => Box::new(hostile::Garbage::new(*domain, *work_ns)),
    };
    Running {
        behaviour,
        random: Random::derived(setup.seed, 0x1000 + u64::from(task)),
        in_poll: false,
    }
}

pub(crate) fn slack_ns(program: &Program) -> u64 {
    match program {
        Program::Steps(_) | Program::Hog => SLACK_NS,
        _ => 0,
    }
}

impl Kernel {
    /// The current task's program goes on.
    pub(crate) fn program_step(&mut self, cpu: Cpu, task: TaskId) {
        let index = task as usize;
        let Some(mut running) = self.tasks[index].program.take() else {
            return self.exit(cpu, task);
        };
        if self.tasks[index].killed {
            return self.exit(cpu, task);
        }
        if !self.has_waited(cpu, task) {
            self.tasks[index].program = Some(running);
            return;
        }
        let Running {
            behaviour,
            random,
            in_poll,
        } = &mut *running;
        let mut at = At {
            k: self,
            task,
            random,
            in_poll,
        };
        at.end_poll();
        let next = behaviour.next(&mut at);
        self.tasks[index].program = Some(running);
        self.carry_out(cpu, task, next);
    }

    fn carry_out(&mut self, cpu: Cpu, task: TaskId, next: Do) {
        let index = task as usize;
        match next {
            Do::Work(ns) => self.tasks[index].work_left_ns = ns.max(1),
            Do::Again => self.spend(STEP_NS),
            Do::ExitAfter(ns) => self.exit_after(task, ns),
            Do::Exit => self.exit(cpu, task),
            Do::Sleep(UNTIL_WOKEN) => self.block(cpu, task),
            Do::Sleep(until_ns) => {
                self.spend(self.costs.syscall_ns);
                if until_ns > self.now_ns {
                    self.sleep_until(cpu, task, until_ns);
                }
            }
            Do::Lock(wanted) => self.take_lock(cpu, task, wanted),
            Do::Await { condition, lock } => self.await_condition(cpu, task, condition, lock),
            Do::Yield => self.sched_yield(cpu, task),
            Do::Join(domain) => {
                let domain = domain as u32;
                self.ask_daemon(cpu, task, Errand::Join { task, domain });
            }
            Do::Rate(request) => {
                self.tasks[index].asks = Some(request);
                self.ask_daemon(cpu, task, Errand::Rate { task });
            }
            Do::Leave => self.ask_daemon(cpu, task, Errand::Leave { task }),
            other => {
                self.spend(self.costs.syscall_ns);
                self.carry_out_call(task, other);
            }
        }
    }

    fn carry_out_call(&mut self, task: TaskId, call: Do) {
        match call {
            Do::Wake(tasks, how) => {
                for other in tasks {
                    self.wake(other, u64::from(SCX_WAKE_TTWU | how));
                }
            }
            Do::Nice(nice) => self.set_nice(task, nice),
            Do::Slice(slice_ns) => self.set_asked_slice(task, slice_ns),
            Do::Policy(policy) => self.set_policy(task, policy),
            Do::Affinity(mask) => self.set_affinity(task, mask),
            Do::MigrateDisable => self.migrate_disable(task),
            Do::MigrateEnable => self.migrate_enable(task),
            Do::Cgroup(cgroup) => self.move_to_cgroup(task, cgroup),
            Do::Exec => self.exec(task),
            Do::Fork(index) => self.start(index, Some(task)),
            _ => unreachable!("carried out before"),
        }
    }

    fn sched_yield(&mut self, cpu: Cpu, task: TaskId) {
        self.spend(self.costs.syscall_ns);
        self.rq_lock(cpu);
        if !self.tasks[task as usize].is_realtime() {
            self.tasks[task as usize].c.scx.slice = 0;
        }
        self.tasks[task as usize].left_as_yield = true;
        self.rq_unlock(cpu);
        self.schedule(cpu, false);
    }
}

/// For `Do::Sleep`: no timer.
pub(crate) const UNTIL_WOKEN: u64 = NEVER_NS;
