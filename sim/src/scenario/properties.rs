// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a task is to be scheduled: rt-app's policy, priority, cpus and taskgroup, of a task or of a phase.

use super::{
    error::BadScenario,
    json::{Fields, Node},
    tasks::World,
    times::time_ns,
};
use crate::setup::{CgroupIndex, Cpu, Policy, Step};

/// What was said; the rest stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Properties {
    policy: Option<Policy>,
    pub nice: Option<i32>,
    /// What it asks the stock scheduler for.
    pub slice_ns: Option<u64>,
    pub affinity: Option<Vec<Cpu>>,
    pub cgroup: Option<CgroupIndex>,
}

/// rt-app's keys that mean nothing here: a simulated CPU has one speed and no pages, and nobody holds a task of
/// SCHED_DEADLINE to its budget.
const WITHOUT_EFFECT: [&str; 7] = [
    "dl-deadline",
    "dl-period",
    "dl-runtime",
    "hold_ns",
    "nodes_membind",
    "util_max",
    "util_min",
];

const SLICE_MIN_NS: u64 = 100_000;
const SLICE_MAX_NS: u64 = 100_000_000;

impl Properties {
    pub fn policy(&self) -> Policy {
        self.policy.unwrap_or(Policy::Normal)
    }

    /// These, and the defaults for the rest.
    pub fn over(self, defaults: &Properties) -> Self {
        Self {
            policy: self.policy.or(defaults.policy),
            nice: self.nice.or(defaults.nice),
            slice_ns: self.slice_ns.or(defaults.slice_ns),
            affinity: self.affinity.or_else(|| defaults.affinity.clone()),
            cgroup: self.cgroup.or(defaults.cgroup),
        }
    }

    /// What a phase does first, beside its affinity. What it says nothing of stays as the phase before left it.
    pub fn changes(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        steps.extend(self.policy.map(Step::Policy));
        steps.extend(self.nice.map(Step::Nice));
        steps.extend(self.slice_ns.map(|ns| Step::Slice(Some(ns))));
        steps.extend(self.cgroup.map(Step::Cgroup));
        steps
    }

    /// A phase's own affinity, else its task's, as rt-app has it.
    pub fn affinity_below(&self, task: &Properties, cpus: Cpu) -> Vec<Cpu> {
        let said = self.affinity.as_ref().or(task.affinity.as_ref());
        said.cloned().unwrap_or_else(|| (0..cpus).collect())
    }
}

/// `"default_policy"` of `"global"`.
pub fn default_policy(node: &Node<'_>) -> Result<Properties, BadScenario> {
    Ok(Properties {
        policy: Some(policy(node)?),
        ..Properties::default()
    })
}

const POLICIES: &str = "SCHED_OTHER, SCHED_FIFO, SCHED_RR or SCHED_DEADLINE";

fn policy(node: &Node<'_>) -> Result<Policy, BadScenario> {
    let name = node.text()?;
    match name {
        "SCHED_OTHER" | "SCHED_NORMAL" | "SCHED_BATCH" => Ok(Policy::Normal),
        "SCHED_FIFO" | "SCHED_RR" => Ok(Policy::Realtime),
        "SCHED_DEADLINE" => Ok(Policy::Deadline),
        "SCHED_IDLE" => Err(node.error(format!("{name} is not simulated, expected {POLICIES}"))),
        _ => Err(node.error(format!("is {name:?}, expected {POLICIES}"))),
    }
}

/// The properties among `fields`.
pub fn read(fields: &Fields<'_>, world: &mut World<'_>) -> Result<Properties, BadScenario> {
    fields.allow(&WITHOUT_EFFECT);
    let policy = fields.get("policy").map(|node| policy(&node)).transpose()?;
    let is_realtime = policy.or(world.defaults.policy) == Some(Policy::Realtime);
    let nice = match fields.get("priority") {
        // All of them take the CPU from everybody else; among themselves they are not told apart.
        Some(node) if is_realtime => {
            node.whole(1..=99)?;
            None
        }
        Some(node) => Some(node.whole(-20..=19)? as i32),
        None => None,
    };
    let slice_ns = fields
        .get("slice")
        .map(|node| slice_ns(&node))
        .transpose()?;
    let affinity = fields.get("cpus").map(|node| cpu_list(&node, world.cpus));
    let cgroup = match fields.get("taskgroup") {
        Some(node) => Some(world.shared.cgroup(node.text()?)),
        None => None,
    };
    Ok(Properties {
        policy,
        nice,
        slice_ns,
        affinity: affinity.transpose()?,
        cgroup,
    })
}

/// Outside of these the kernel takes the nearest.
fn slice_ns(node: &Node<'_>) -> Result<u64, BadScenario> {
    let ns = time_ns(node)?;
    if (SLICE_MIN_NS..=SLICE_MAX_NS).contains(&ns) {
        return Ok(ns);
    }
    Err(node.error(format!("is {}, expected 100us to 100ms", node.shown())))
}

/// A list of CPUs of the machine, not empty.
pub fn cpu_list(node: &Node<'_>, cpus: Cpu) -> Result<Vec<Cpu>, BadScenario> {
    let list = node.list()?;
    if list.is_empty() {
        return Err(node.error("is empty, expected at least one CPU"));
    }
    list.iter().map(|node| cpu(node, cpus)).collect()
}

/// A CPU of the machine.
pub fn cpu(node: &Node<'_>, cpus: Cpu) -> Result<Cpu, BadScenario> {
    let cpu = node.whole(0..=i64::from(cpus) - 1).map_err(|mut error| {
        if cpus == 1 {
            error.text += "; \"machine\": {\"cpus\": N} says how many there are";
        }
        error
    })?;
    Ok(cpu as Cpu)
}
