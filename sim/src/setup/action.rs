// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens to programs from outside, and when.

use super::{CgroupIndex, Cpu, DomainIndex, Limit, TaskIndex, Tunables};
use crate::groups::Role;
use consort_rates::classes::Order;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    pub at_ns: u64,
    pub what: ActionKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ActionKind {
    CpuOffline(Cpu),
    CpuOnline(Cpu),
    Nice {
        task: TaskIndex,
        nice: i32,
    },
    Affinity {
        task: TaskIndex,
        cpus: Vec<Cpu>,
    },
    MoveToCgroup {
        task: TaskIndex,
        cgroup: CgroupIndex,
    },
    CgroupWeight {
        cgroup: CgroupIndex,
        weight: u32,
    },
    CgroupMax {
        cgroup: CgroupIndex,
        max: Option<Limit>,
    },
    /// SIGKILL.
    Kill {
        task: TaskIndex,
    },
    Tunables(Tunables),
    /// The daemon ends without a word: the kernel takes the scheduler away, and everybody is under the stock one.
    DaemonDies {
        /// When it is started again; none: never.
        back_after_ns: Option<u64>,
    },
    /// SysRq-D: the scheduler is asked what it knows.
    Dump,
    /// What a daemon might ask the scheduler for, wrong things included.
    Call(Call),
}

/// A call of one of the scheduler's own programs. Rates are parts of 2^20.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Call {
    /// The capacity of each class, whose turn it is there, and what is left to everybody else.
    Classes {
        capacities: Vec<u32>,
        #[serde(default)]
        orders: Vec<Order>,
        flexible: u32,
    },
    /// The reservation has the number of those that were made before in this run.
    Reserve {
        class: u32,
        rate: u32,
    },
    ChangeReservation {
        reservation: usize,
        class: u32,
        rate: u32,
    },
    AddToReservation {
        reservation: usize,
        task: TaskIndex,
    },
    EndReservation {
        reservation: usize,
    },
    Join {
        task: TaskIndex,
        domain: DomainIndex,
        slot: u32,
    },
    Leave {
        task: TaskIndex,
    },
    DestroyDomain(DomainIndex),
    /// About a role of a group, by its number, whether it has terms or is out of range.
    Role {
        group: usize,
        role: u32,
        what: RoleCall,
    },
    /// The function of this number is another one from now on, or there is none.
    PutUser {
        number: usize,
        user: Option<usize>,
    },
    /// A group has the function of this number from now on; or somebody looks how it does.
    SetUser {
        group: usize,
        number: Option<u32>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RoleCall {
    Terms(Role),
    Plan {
        plan: Vec<(u64, u64)>,
        repeat_ns: u64,
    },
    Begin {
        zero_ns: u64,
        bootstrap: u32,
    },
    /// All its state variables.
    State(i64),
    Tell(u32),
    Status,
    Bind {
        task: TaskIndex,
    },
    Unbind {
        task: TaskIndex,
    },
    /// The whole group: refused while it has members.
    Destroy,
}
