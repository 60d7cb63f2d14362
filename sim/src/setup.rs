// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run consists of: a machine, programs, what happens to them from outside, and a seed. Plain data, so that a
//! run can be written down, mailed and replayed.

use crate::groups::{Group, Tell};
use crate::rates::{RateRequest, Rates};
use crate::users::User;
use consort_rates::classes::{Class, Order};
use serde::{Deserialize, Serialize};

mod action;

pub use crate::machine::{Kernel, Machine};
pub use action::*;

/// Indices into the vectors of [`Setup`].
pub type TaskIndex = usize;
pub type CgroupIndex = usize;
pub type DomainIndex = usize;
pub type Cpu = u32;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    pub machine: Machine,
    #[serde(default)]
    pub tunables: Tunables,
    #[serde(default)]
    pub costs: Costs,
    pub seed: u64,
    pub duration_ns: u64,
    /// Number 0 is the root, and must be there.
    pub cgroups: Vec<Cgroup>,
    #[serde(default)]
    pub domains: Vec<Domain>,
    /// Those that decision functions decide for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Functions of users' own, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
    /// How much bounded queues between tasks hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<u32>,
    pub tasks: Vec<Task>,
    /// Locks whose owners inherit from who waits for them.
    #[serde(default)]
    pub pi_locks: Vec<u32>,
    /// None: nobody can reserve anything.
    #[serde(default)]
    pub rates: Option<Rates>,
    /// What happens from outside, in any order.
    #[serde(default)]
    pub actions: Vec<Action>,
    #[serde(default)]
    pub faults: Faults,
}

impl Setup {
    /// Nobody on this machine yet, nothing from outside, and no faults.
    pub fn empty(machine: Machine, duration_ns: u64) -> Self {
        Self {
            machine,
            tunables: Tunables::default(),
            costs: Costs::default(),
            seed: 1,
            duration_ns,
            cgroups: vec![Cgroup {
                name: "/".into(),
                parent: None,
                weight: 100,
                max: None,
            }],
            domains: Vec::new(),
            groups: Vec::new(),
            users: Vec::new(),
            queues: Vec::new(),
            tasks: Vec::new(),
            pi_locks: Vec::new(),
            rates: None,
            actions: Vec::new(),
            faults: Faults::default(),
        }
    }

    /// Whether nobody's weight, slice or group changes during the run, nothing is lent to a domain, and reservations stay what
    /// they were at first, none by the clock: then virtual times may be compared with what members could have run.
    pub(crate) fn weights_stay(&self) -> bool {
        let changes =
            |step: &Step| matches!(step, Step::Nice(_) | Step::Cgroup(_) | Step::Rates(_));
        let stays = |task: &Task| match &task.program {
            Program::Steps(steps) => !any_step(steps, &changes),
            _ => true,
        };
        let acts = |action: &Action| {
            matches!(
                action.what,
                ActionKind::Nice { .. }
                    | ActionKind::MoveToCgroup { .. }
                    | ActionKind::CgroupWeight { .. }
                    | ActionKind::Tunables(_)
                    | ActionKind::Call(_)
            )
        };
        let is_lent = |index: TaskIndex| self.may_join(index) && self.tasks[index].cgroup != 0;
        !self.punishes()
            && self.tasks.iter().all(stays)
            && !(0..self.tasks.len()).any(is_lent)
            && !self.actions.iter().any(acts)
    }

    /// Whether a task may be a member of a domain, or of a group with a function.
    pub(crate) fn may_join(&self, task: TaskIndex) -> bool {
        self.tasks[task].may_join() || self.plays(task)
    }

    /// Whether a task has a role in a group with a function.
    pub(crate) fn plays(&self, task: TaskIndex) -> bool {
        let mut roles = self.groups.iter().flat_map(|group| &group.roles);
        roles.any(|role| role.task == task)
    }

    /// Whether a class goes by the clock: a task that has run alone there may wait for any time, see core/rc.h.
    pub(crate) fn punishes(&self) -> bool {
        let is_rc = |(_, class): (usize, &Class)| class.order == Order::Rc;
        let rates = self.rates.as_ref();
        rates.is_some_and(|rates| rates.classes.iter().any(is_rc))
    }

    /// Whether the CPUs are there for the scheduler all the time: none goes, and no higher class takes one.
    pub(crate) fn cpus_stay(&self) -> bool {
        let goes = |action: &Action| matches!(action.what, ActionKind::CpuOffline(_));
        self.classes_stay() && !self.actions.iter().any(goes) && self.scheduler_stays()
    }

    /// Whether no task is ever of a higher class.
    pub(crate) fn classes_stay(&self) -> bool {
        let rises = |step: &Step| matches!(step, Step::Policy(policy) if *policy != Policy::Normal);
        self.tasks.iter().all(|task| match &task.program {
            Program::Steps(steps) => task.policy == Policy::Normal && !any_step(steps, &rises),
            _ => task.policy == Policy::Normal,
        })
    }

    /// Whether the scheduler is there all the time: its daemon does not die.
    pub(crate) fn scheduler_stays(&self) -> bool {
        let dies = |action: &Action| matches!(action.what, ActionKind::DaemonDies { .. });
        !self.actions.iter().any(dies)
    }
}

impl Task {
    /// An ordinary task, there from the beginning, that may run everywhere.
    pub fn new(name: &str, program: Program) -> Self {
        Self {
            name: name.into(),
            cgroup: 0,
            nice: 0,
            slice_ns: None,
            policy: Policy::Normal,
            affinity: None,
            start_ns: Some(0),
            program,
        }
    }

    /// Whether its program may join a domain.
    pub(crate) fn may_join(&self) -> bool {
        match &self.program {
            Program::Steps(steps) => any_step(steps, &|step| matches!(step, Step::Join(_))),
            Program::Player(player) => player.domain.is_some(),
            Program::Hog => false,
            _ => true,
        }
    }
}

pub(crate) fn any_step(steps: &[Step], is_it: &dyn Fn(&Step) -> bool) -> bool {
    steps.iter().any(|step| match step {
        Step::Loop { steps, .. } => any_step(steps, is_it),
        step => is_it(step),
    })
}

/// The scheduler's own; the defaults are its source's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tunables {
    pub granularity_ns: Option<u64>,
    pub min_slice_ns: Option<u64>,
    pub window_ns: Option<u64>,
}

/// What the kernel and the machine cost, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// Into the kernel and out again.
    pub syscall_ns: u64,
    /// Choosing the next task, beside the scheduler's callback.
    pub schedule_ns: u64,
    /// Changing the address space and the registers.
    pub switch_ns: u64,
    /// One callback of the scheduler.
    pub callback_ns: u64,
    /// Waking a task, beside the scheduler's callbacks.
    pub wake_ns: u64,
    /// An interrupt: entry, exit, and what a timer's expiry costs.
    pub interrupt_ns: u64,
    /// From sending an interrupt to another CPU until it is there.
    pub ipi_ns: u64,
    /// How late a timer fires.
    pub timer_late_ns: u64,
    /// The scheduling tick: its period (0: none) and its cost.
    pub tick_period_ns: u64,
    pub tick_ns: u64,
    /// Extra run time after a task was away from its CPU's cache.
    pub cold_ns: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            syscall_ns: 1_000,
            schedule_ns: 1_200,
            switch_ns: 2_000,
            callback_ns: 1_200,
            wake_ns: 2_500,
            interrupt_ns: 2_500,
            ipi_ns: 1_500,
            timer_late_ns: 1_000,
            tick_period_ns: 4_000_000,
            tick_ns: 3_000,
            cold_ns: 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cgroup {
    pub name: String,
    /// None for the root only.
    pub parent: Option<CgroupIndex>,
    /// cpu.weight, 1 to 10000; 100 is nice 0.
    pub weight: u32,
    /// cpu.max and cpu.max.burst; none: the word max.
    #[serde(default)]
    pub max: Option<Limit>,
}

/// What a cgroup may have at most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// CPU time in each period.
    pub quota_ns: u64,
    pub period_ns: u64,
    /// How much of what it does not use it saves up.
    pub burst_ns: u64,
}

/// A cooperation domain; the options are those of its creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    pub name: String,
    /// The longest event that a member runs; 0 leaves it to the scheduler.
    pub event_ns: u64,
    /// `enum consort_order`.
    pub order: u32,
    pub preempt: bool,
}

impl Domain {
    /// Of a domain that leaves it to the scheduler.
    const EVENT_MAX_NS: u64 = 2_000_000;

    /// For how long a member may run beyond the time by which it was to poll, at least.
    pub fn grace_ns(&self) -> u64 {
        match self.event_ns {
            0 => Self::EVENT_MAX_NS,
            ns => ns,
        }
    }
}

/// From the lowest class upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Policy {
    /// Under the scheduler.
    Normal,
    /// A higher class, SCHED_FIFO: takes the CPU from everybody else.
    Realtime,
    /// SCHED_DEADLINE: a class above that.
    Deadline,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub name: String,
    pub cgroup: CgroupIndex,
    pub nice: i32,
    /// What it asks the stock scheduler for (sched_setattr's runtime); none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ns: Option<u64>,
    pub policy: Policy,
    /// Where it may run; none: everywhere.
    pub affinity: Option<Vec<Cpu>>,
    /// When it begins; none: when another task forks it.
    pub start_ns: Option<u64>,
    pub program: Program,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Program {
    /// Ends after the last step.
    Steps(Vec<Step>),
    Player(Player),
    /// Never gives the CPU up.
    Hog,
    /// Joins, never polls again, uses all the CPU it gets.
    MuteLiar {
        domain: DomainIndex,
    },
    /// Joins, and claims to be due in the past in each poll, one every `work_ns`.
    PoliteLiar {
        domain: DomainIndex,
        work_ns: u64,
    },
    /// Joins, and writes random bytes into all of its page, now and then.
    Garbage {
        domain: DomainIndex,
        work_ns: u64,
    },
    /// Joins, and writes into its slot, and does in between, what bytes say (programs/script.rs).
    Script {
        domain: DomainIndex,
        bytes: Vec<u8>,
    },
}

/// The adaptive video player of bench/player.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Player {
    /// Mean decoding load as a fraction of a CPU.
    pub load: f64,
    pub chunk_ns: u64,
    /// Chooses the film.
    pub seed: u64,
    /// Due time of the first frame.
    pub first_due_ns: u64,
    /// The domain that it joins; none: plain.
    pub domain: Option<DomainIndex>,
}

/// A length of time, drawn anew each time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Length {
    Fixed(u64),
    Uniform {
        min_ns: u64,
        max_ns: u64,
    },
    Normal {
        mean_ns: u64,
        deviation_ns: u64,
    },
    Exponential {
        mean_ns: u64,
    },
    /// Video frames of variable bit rate: groups of pictures, scenes.
    Vbr {
        mean_ns: u64,
    },
    /// These, again and again.
    Series(Vec<u64>),
}

/// When a member's event is due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Due {
    Never,
    /// From now.
    In(Length),
    /// The next multiple of a timer's period, as [`Step::Timer`].
    Timer {
        timer: u32,
        period_ns: u64,
        absolute: bool,
    },
    /// As written into the slot, whatever it is: for hostile programs.
    Raw(u64),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// Uses the CPU for this much CPU time.
    Run(Length),
    Sleep(Length),
    /// Sleeps until the timer's next multiple. The timer starts when a task first uses it; all that name the same
    /// number share it. The wake-up is a due event: its tardiness is traced.
    Timer {
        timer: u32,
        period_ns: u64,
        /// A miss does not move the multiples; else they begin anew from now.
        absolute: bool,
    },
    Yield,
    /// Says something to its group's function; without a role, to nobody.
    Tell(Tell),
    /// Publishes a state variable.
    State {
        variable: u32,
        value: i64,
    },
    /// Puts an item into a queue, and waits while it is full. Its level is the thread's first state variable.
    Put {
        queue: u32,
    },
    /// Takes one, and waits while there is none.
    Take {
        queue: u32,
    },
    /// The program's n-th event of this kind is served: it was due n - 1 periods after `first_ns`.
    Mark {
        first_ns: u64,
        period_ns: u64,
    },
    Lock(u32),
    /// After the timeout it goes on without the lock.
    LockFor {
        lock: u32,
        timeout: Length,
    },
    Unlock(u32),
    /// Releases the lock, waits for the condition, takes the lock.
    Wait {
        condition: u32,
        lock: u32,
    },
    Signal(u32),
    Broadcast(u32),
    /// Waits until so many tasks are at it.
    Barrier {
        barrier: u32,
        tasks: u32,
    },
    /// Sleeps until somebody resumes it.
    Suspend,
    Resume(TaskIndex),
    /// Starts one more instance of a task.
    Fork(TaskIndex),
    Nice(i32),
    /// Asks the stock scheduler for slices of this length; none: for its own.
    Slice(Option<u64>),
    Policy(Policy),
    Affinity(Vec<Cpu>),
    MigrateDisable,
    MigrateEnable,
    Cgroup(CgroupIndex),
    /// Executes another program, as one of several threads: it takes over its process' number.
    Exec,
    Join(DomainIndex),
    Leave,
    /// Asks the daemon for a rate, or about credits.
    Rates(RateRequest),
    /// A poll as libconsort does it. Where it sleeps until a due time, the return is a due event.
    Poll {
        due: Due,
        /// (priority, key) of the best-effort event.
        best_effort: Option<(u32, u64)>,
    },
    /// None: for ever.
    Loop {
        times: Option<u64>,
        steps: Vec<Step>,
    },
    /// Gives back its memory first: that much work of the kernel's.
    Exit(Length),
}

/// How often what goes wrong, as a probability of each occasion. All are drawn from the seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// No memory where the scheduler asks for some.
    pub allocation: f64,
    /// A task is not found by its number.
    pub lookup: f64,
    /// A timer is late by up to some ms.
    pub timer_late: f64,
    /// A timer of the scheduler's cannot be started.
    pub timer_fails: f64,
    /// A CPU pauses inside a callback, so that others overtake it: at each operation that others can see.
    pub pause: f64,
}
