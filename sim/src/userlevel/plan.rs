// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is run: members, and what happens to them. As JSON it is a scenario of this host.

use consort_userlevel::Mistake;
use serde::{Deserialize, Serialize};

pub const MS: u64 = 1_000_000;

/// Marks the file as a scenario of this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    #[default]
    User,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub host: Host,
    pub seed: u64,
    pub members: usize,
    /// On how many CPUs they may run.
    #[serde(default = "one")]
    pub cpus: u32,
    /// Polls of each.
    #[serde(default = "sixty")]
    pub polls: u32,
    #[serde(default)]
    pub order: Order,
    /// Between a member's due events.
    pub period_ns: u64,
    #[serde(default)]
    pub faults: Vec<Planned>,
    /// The CPU that each member is bound to; null, and those beyond the list: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bound_to: Vec<Option<u32>>,
    /// A bug that is planted in the host.
    #[serde(skip)]
    pub mistake: Option<Mistake>,
}

fn one() -> u32 {
    1
}

fn sixty() -> u32 {
    60
}

/// Of the domain's best-effort events, as `enum consort_order`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    #[default]
    Program = 0,
    Progress = 1,
    Service = 2,
}

/// What happens to one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    pub member: usize,
    pub fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// At its nth step: a step is an access to shared memory, or a system call.
    Kill(u64),
    /// The same, for so long.
    Stop(u64, u64),
    /// In the middle of its nth work.
    KillAtWork(u64),
}

impl Plan {
    /// Whether it can be run.
    ///
    /// # Errors
    /// What is out of range, and what was expected.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, least: u64, most: u64| match value {
            _ if (least..=most).contains(&value) => Ok(()),
            _ => Err(format!("{name} is {value}; expected {least} to {most}")),
        };
        within("members", self.members as u64, 1, 64)?;
        within("cpus", self.cpus.into(), 1, 64)?;
        within("polls", self.polls.into(), 1, 100_000)?;
        within("period_ns", self.period_ns, MS, 10_000 * MS)?;
        for cpu in self.bound_to.iter().flatten() {
            within("bound_to", (*cpu).into(), 0, u64::from(self.cpus) - 1)?;
        }
        for planned in &self.faults {
            within(
                "member of a fault",
                planned.member as u64,
                0,
                self.members as u64 - 1,
            )?;
            if let Fault::Stop(_, for_ns) = planned.fault {
                within("the time of a stop, in ns,", for_ns, 0, 60_000 * MS)?;
            }
        }
        Ok(())
    }

    /// The plan of a seed; always the same. At most one member is lost: what is promised is of one at a time.
    pub fn draw(seed: u64) -> Plan {
        let mut random = crate::random::Random::new(seed);
        let mut below = |most: u64| random.next_u64() % most;
        let members = 2 + below(7) as usize;
        let member = below(members as u64) as usize;
        let fault = match below(4) {
            0 => None,
            1 => Some(Fault::Kill(100 + below(3000))),
            2 => Some(Fault::Stop(100 + below(3000), (1 + below(400)) * MS)),
            _ => Some(Fault::KillAtWork(1 + below(50))),
        };
        let mut plan = Plan {
            host: Host::User,
            seed,
            members,
            cpus: 1 + below(2) as u32,
            polls: 60,
            order: [Order::Program, Order::Progress, Order::Service][below(3) as usize],
            period_ns: if below(3) == 0 { 5000 * MS } else { 30 * MS },
            faults: fault
                .map(|fault| Planned { member, fault })
                .into_iter()
                .collect(),
            bound_to: Vec::new(),
            mistake: None,
        };
        if plan.cpus > 1 && below(2) == 0 {
            let bound_to = |_| [None, Some(0), Some(1)][below(3) as usize];
            plan.bound_to = (0..members).map(bound_to).collect();
        }
        plan
    }

    /// The CPU that a member is bound to.
    pub fn bound_to(&self, member: usize) -> Option<u32> {
        self.bound_to.get(member).copied().flatten()
    }
}
