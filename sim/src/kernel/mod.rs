// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model of the kernel as a scheduler sees it: the sched_ext core, and what lies around it.
//!
//! Each file models one part, and follows kernel/sched/ext.c and core.c in names and order. A CPU is either in a
//! program or on a *path* through the kernel, with interrupts off. On a machine of several CPUs each path runs on a
//! stack of its own (see `path`), and others may go first wherever time passes.

mod attach;
mod balance;
mod change;
mod check;
mod contract;
mod custody;
mod group_rate;
mod hotplug;
mod idle;
mod kick;
mod life;
mod limit;
mod mask;
mod path;
mod queue;
mod reserved;
mod rt_mutex;
mod run;
mod schedule;
mod shares;
mod time;
mod wake;

use crate::ffi;
use crate::programs::{Running as RunningProgram, Shared, Wanted};
use crate::random::Random;
use crate::rates::RateRequest;
use crate::scheduler::Scheduler;
use crate::setup::{Costs, Cpu, Faults, Kernel as Version, Policy, TaskIndex};
use crate::trace::{Event, Observer, TaskId, Violation, What};
use path::Fibre;
use queue::Queue;
use std::collections::{BTreeMap, VecDeque};

pub(crate) use queue::Happening;
pub(crate) use rt_mutex::Locking;
pub(crate) use shares::{root_weight, weight_of};

/// A slice that never ends.
pub const SLICE_INFINITE: u64 = u64::MAX;
/// What the kernel gives a task that has none.
pub const SLICE_DEFAULT_NS: u64 = 20_000_000;
pub const NEVER_NS: u64 = u64::MAX;

/// Who holds a task for the time being (ops_state in ext.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Custody {
    None,
    /// Being given to the scheduler; the number tells one enqueueing from the next.
    Queueing(u64),
    Scheduler(u64),
    /// Being taken over from the scheduler.
    Dispatching,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dsq {
    Local(Cpu),
    Global,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Made, not yet woken for the first time.
    New,
    Runnable,
    Sleeping,
    /// Has called exit; may still be on its CPU.
    Ending,
    Dead,
}

/// What reaches a CPU from outside its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Irq {
    /// A sleep's timer; void if the sleep is not that one any more.
    Wake {
        task: TaskId,
        generation: u32,
    },
    /// A BPF timer of this number; void if it was started again.
    BpfTimer {
        number: u32,
        generation: u32,
    },
    Resched,
    Tick,
    /// Of `Setup::actions`.
    Action(usize),
    /// The daemon does what a task asked for.
    Daemon(Errand),
    /// A task of `Setup::tasks` is started.
    Start(TaskIndex),
    /// The task may not run on this CPU any more.
    MoveAway(TaskId),
    /// The daemon is started again.
    DaemonReturns,
}

/// What the daemon does for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    Join {
        task: TaskId,
        /// Of `Setup::domains`; small, as what is queued should be.
        domain: u32,
    },
    Leave {
        task: TaskId,
    },
    /// What [`Task::asks`] says.
    Rate {
        task: TaskId,
    },
    /// A program has gone.
    Bury {
        task: TaskId,
    },
}

pub(crate) struct Task {
    pub id: TaskId,
    pub of: TaskIndex,
    pub name: String,
    /// What the scheduler sees; it keeps pointers to it.
    pub c: Box<ffi::task_struct>,
    /// By which it is scheduled: its own, or a higher one of who waits for it.
    pub policy: Policy,
    pub own_policy: Policy,
    pub life: Life,
    pub cpu: Cpu,
    /// Where it may run, apart from what disabled migration says.
    pub allowed: ffi::cpumask,
    pub on_rq: bool,
    pub on_cpu: bool,
    pub is_migrating: bool,
    pub enabled: bool,
    pub custody: Custody,
    pub dsq: Option<Dsq>,
    /// Where it was put from within select_cpu or enqueue, with which flags.
    pub direct: Option<(u64, u64)>,
    pub sticky_cpu: Option<Cpu>,
    pub holding_cpu: Option<Cpu>,
    pub pi_lock: Option<Cpu>,
    pub program: Option<Box<RunningProgram>>,
    /// CPU time that the present piece of work still needs.
    pub work_left_ns: u64,
    pub sleep_generation: u32,
    /// What it has asked the stock scheduler for (sched_setattr's runtime); none: nothing.
    pub asked_slice_ns: Option<u64>,
    /// Timers of tasks that did not ask for sharp ones may be this late.
    pub slack_ns: u64,
    pub cgroup: usize,
    /// Since when it has been waiting for a CPU; NEVER_NS: it does not.
    pub waits_since_ns: u64,
    pub wait_max_ns: u64,
    /// What it had run for when the scheduler chose it last.
    pub ran_before_ns: u64,
    /// Since when it may run where it may run now.
    pub allowed_since_ns: u64,
    /// Since when nothing about it has been changed from outside.
    pub changed_since_ns: u64,
    /// Another CPU has dispatched it while it was being enqueued, or the kernel keeps it without asking: the scheduler
    /// may take it for waiting.
    pub was_overtaken: bool,
    pub switches: u64,
    pub left_as_yield: bool,
    pub killed: bool,
    /// What it was to have reserved from its beginning was not granted.
    pub was_refused: bool,
    /// The number of the group in which it has a role.
    pub plays: Option<usize>,
    /// The lock that its program waits for.
    pub wants: Option<Wanted>,
    /// The lock with inheritance that it waits for, and what the scheduler sees of that.
    pub blocked_on: Option<u32>,
    pub waiter: Box<ffi::rt_mutex_waiter>,
    /// Of the daemon, while it waits for that.
    pub asks: Option<RateRequest>,
}

impl Task {
    pub fn is_queued(&self) -> bool {
        self.c.scx.flags & ffi::SCX_TASK_QUEUED != 0
    }

    /// Of a class above the scheduler's.
    pub fn is_realtime(&self) -> bool {
        self.policy != Policy::Normal
    }

    /// Classes, from the scheduler's upwards.
    pub fn rank(&self) -> u32 {
        self.policy as u32
    }
}

/// What was given to scx_bpf_dsq_insert in a dispatch, to be looked at after it.
#[derive(Clone, Copy)]
pub(crate) struct Dispatched {
    task: TaskId,
    queued_as: Option<u64>,
    /// It was still being given to the scheduler.
    was_queueing: bool,
    dsq: u64,
    flags: u64,
}

pub(crate) struct CpuState {
    pub current: Option<TaskId>,
    pub local: VecDeque<TaskId>,
    pub realtime: VecDeque<TaskId>,
    pub lock: Option<Cpu>,
    /// How many tasks are on the run queue, for the scheduler to look at.
    pub rq: Box<ffi::rq>,
    pub online: bool,
    pub need_resched: bool,
    pub in_balance: bool,
    pub keep: bool,
    pub released: bool,
    /// Inside dispatch: what was inserted.
    pub dispatched: Vec<Dispatched>,
    pub in_dispatch: bool,
    /// Inside select_cpu or enqueue: the task that may be put somewhere directly.
    pub direct_task: Option<TaskId>,
    /// The kernel's numbers of two CPUs are the same by chance only, after they have run for long.
    pub enqueue_number: u64,
    pub kicks: Vec<(Cpu, u64)>,
    pub exec_start_ns: u64,
    /// What functions of users' own have taken since the scheduler was last asked for a task.
    pub asked_ns: u64,
    pub pending: VecDeque<Irq>,
    pub in_kernel: bool,
    /// When the program got the CPU to work on its present piece.
    pub working_since_ns: u64,
    pub generation: u32,
    pub tick_armed: bool,
    pub spins: u32,
    pub spinning_since_ns: u64,
    pub idle_since_ns: u64,
    /// Of those that the scheduler has counted here; none: nobody has looked yet.
    pub demotions_seen: Option<u32>,
    /// Of the intervals that the scheduler has found something about here.
    pub intervals_seen: u64,
    /// How often it has been where nobody waits for it: between two things that it does in the kernel.
    pub pauses: u64,
    /// Waits for the others to be there, and is itself as good as there.
    pub synchronizes: bool,
    pub fibre: Option<Fibre>,
}

impl CpuState {
    fn new(number: Cpu, online: bool) -> Self {
        Self {
            current: None,
            local: VecDeque::new(),
            realtime: VecDeque::new(),
            lock: None,
            rq: Box::new(ffi::rq {
                idle: std::ptr::dangling(),
                ..Default::default()
            }),
            online,
            need_resched: false,
            in_balance: false,
            keep: false,
            released: false,
            dispatched: Vec::new(),
            in_dispatch: false,
            direct_task: None,
            enqueue_number: u64::from(number) << 40,
            kicks: Vec::new(),
            exec_start_ns: 0,
            asked_ns: 0,
            pending: VecDeque::new(),
            in_kernel: false,
            working_since_ns: 0,
            generation: 0,
            tick_armed: false,
            spins: 0,
            spinning_since_ns: 0,
            idle_since_ns: 0,
            demotions_seen: None,
            intervals_seen: 0,
            pauses: 0,
            synchronizes: false,
            fibre: None,
        }
    }
}

/// A cgroup as the scheduler sees it; the structs point to each other.
pub(crate) struct Cgroup {
    pub c: Box<ffi::cgroup>,
    /// What `c` points to.
    _node: Box<ffi::kernfs_node>,
    pub group: Box<ffi::task_group>,
    pub weight: u32,
    pub budget: Option<limit::Budget>,
    /// When its limit last changed; 0: never.
    pub changed_ns: u64,
    pub online: bool,
}

pub struct Kernel {
    pub(crate) now_ns: u64,
    pub(crate) this_cpu: Cpu,
    pub(crate) version: Version,
    pub(crate) costs: Costs,
    pub(crate) faults: Faults,
    /// The scheduler has been refused memory.
    pub(crate) memory_failed: bool,
    pub(crate) concurrent: bool,
    /// The daemon does something on one of several CPUs.
    pub(crate) daemon_works: bool,
    /// A CPU comes or goes, or nobody may.
    pub(crate) cpus_locked: bool,
    pub(crate) machine: crate::setup::Machine,
    pub(crate) topology: idle::Topology,
    pub(crate) setup: std::rc::Rc<crate::setup::Setup>,
    /// What answers at numbers of users' own functions.
    pub(crate) users: crate::consort::user::Users,
    pub(crate) end_ns: u64,
    pub(crate) queue: Queue,
    pub(crate) cpus: Vec<CpuState>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) cgroups: Vec<Cgroup>,
    pub(crate) idle: ffi::cpumask,
    pub(crate) online: ffi::cpumask,
    pub(crate) global: VecDeque<TaskId>,
    pub(crate) shared: Shared,
    pub(crate) rt_mutexes: BTreeMap<u32, rt_mutex::RtMutex>,
    pub(crate) random: Random,
    pub(crate) scheduler: Box<dyn Scheduler>,
    pub(crate) observer: *mut dyn Observer,
    pub(crate) observed: bool,
    pub(crate) timer_generations: Vec<u32>,
    pub(crate) violation: Option<Violation>,
    pub(crate) decisions: u64,
    pub(crate) switches: u64,
    pub(crate) idle_ns: u64,
    /// The scheduler is not asked where tasks go: it is about to leave, or not there.
    pub(crate) bypass: bool,
    /// Until when: before that nobody is held to anything.
    pub(crate) bypassed_at_ns: u64,
    /// The scheduler is there. It is not from the daemon's death to its return.
    pub(crate) attached: bool,
    /// When each of those that have ended did.
    pub(crate) ended_at_ns: Vec<u64>,
    /// Who has a process number, from 1.
    pub(crate) numbers: Vec<Option<TaskId>>,
    /// The run is over: paths are ended, programs do not go on.
    pub(crate) stopping: bool,
    pub(crate) checked_at_ns: u64,
    pub(crate) group_rates: Vec<group_rate::Held>,
    pub(crate) idle_task: Box<ffi::task_struct>,
    /// Of each CPU, the set of it alone: what tasks with disabled migration may use.
    pub(crate) single: Vec<ffi::cpumask>,
    /// What the scheduler's dump said when the run broke a rule.
    pub(crate) dump: Vec<String>,
}

impl Kernel {
    /// Of what this CPU does, or what happens on it.
    pub(crate) fn emit(&mut self, what: What) {
        self.emit_of(self.this_cpu, what);
    }

    /// Of a CPU that another one does something to.
    pub(crate) fn emit_of(&mut self, cpu: Cpu, what: What) {
        if !self.observed {
            return;
        }
        let event = Event {
            at_ns: self.now_ns,
            cpu,
            what,
        };
        // SAFETY: `run` keeps the observer borrowed for as long as the kernel lives.
        unsafe { (*self.observer).event(&event) };
    }

    /// Ends the run: a promise did not hold. The first one counts.
    pub(crate) fn violate(&mut self, rule: &'static str, detail: String) {
        if self.violation.is_none() {
            self.violation = Some(Violation {
                at_ns: self.now_ns,
                rule,
                detail,
                state: Vec::new(),
            });
        }
    }

    /// The scheduler, to be called with the kernel: its callbacks call back.
    pub(crate) fn scheduler(&mut self) -> *mut dyn Scheduler {
        std::ptr::from_mut(&mut *self.scheduler)
    }

    pub(crate) fn task_name(&self, task: TaskId) -> String {
        format!("{} ({})", self.tasks[task as usize].name, task)
    }

    // ---- what a scheduler may ask and do ----

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub fn this_cpu(&self) -> Cpu {
        self.this_cpu
    }

    /// Whether the task is runnable, as far as the class of the scheduler's tasks is concerned.
    pub fn is_queued(&self, task: TaskId) -> bool {
        self.tasks[task as usize].is_queued()
    }

    /// CPU time that the task has had.
    pub fn runtime_ns(&self, task: TaskId) -> u64 {
        self.tasks[task as usize].c.se.sum_exec_runtime
    }

    pub fn nice(&self, task: TaskId) -> i32 {
        self.tasks[task as usize].c.static_prio - 120
    }

    pub fn cpu_of(&self, task: TaskId) -> Cpu {
        self.tasks[task as usize].cpu
    }

    /// What runs on a CPU; none: it is idle.
    pub fn current(&self, cpu: Cpu) -> Option<TaskId> {
        self.cpus[cpu as usize].current
    }

    pub fn may_run_on(&self, task: TaskId, cpu: Cpu) -> bool {
        let task = &self.tasks[task as usize];
        task.cpu == cpu || (task.allowed.has(cpu) && task.c.migration_disabled == 0)
    }

    pub fn set_slice(&mut self, task: TaskId, slice_ns: u64) {
        self.tasks[task as usize].c.scx.slice = slice_ns;
    }
}
