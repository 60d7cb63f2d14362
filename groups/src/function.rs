// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decision functions and their parameters (003: SDFs): of the group, and of each member.

use std::{fmt, ops::RangeInclusive};

use crate::units::shown_ns;

/// Whose turn it is in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Function {
    /// Least service first, by the threads' weights.
    Fair,
    /// As members agree by polling: a cooperation domain.
    Coop(Coop),
    /// Whose period ends first.
    Period,
    /// At the times of a schedule, else in the order of the members.
    Plan,
    Pipeline(Pipeline),
    /// A server right after its client, else in the order of the members.
    Follow,
    /// One of the user's own that has this name: `consort df load`.
    User(String),
}

/// A cooperation domain's options, as in `consort_join`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coop {
    /// The longest event; `None` leaves it to the scheduler.
    pub event_ns: Option<u64>,
    pub order: Order,
    pub preempt: bool,
}

/// Of best-effort events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    #[default]
    Program,
    Progress,
    Service,
}

/// Stages joined by bounded queues. A stage's first state variable is how many items wait in its output queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pipeline {
    /// Items that the last stage's queue must have before schedules begin.
    pub bootstrap: u32,
}

/// What a function has to know of one member; of a `coop` group's nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// `period`: how long its periods are.
    pub period_ns: Option<u64>,
    /// `period`: CPU time in each; `None`: its weight's part of it.
    pub budget_ns: Option<u64>,
    /// Execution intervals of its schedule are so long, unless that says otherwise.
    pub interval_ns: Option<u64>,
    pub follows: Option<Follows>,
    /// `pipeline`: `None` for a member that is no stage.
    pub stage: Option<Stage>,
}

/// It is a server, and runs right after another member has submitted something to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follows {
    /// The other member's name.
    pub whom: String,
    /// For so long at most, or until it sleeps.
    pub at_most_ns: u64,
}

/// A member of a pipeline that has its place among the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// It is not run while so many items wait in its output queue; the last stage has none, for which this says nothing.
    pub high: u32,
    /// By how many items that queue is drained before it is filled again.
    pub step: u32,
}

/// The last one stands for any name.
pub const FUNCTIONS: [&str; 7] = [
    "fair",
    "coop",
    "period",
    "plan",
    "pipeline",
    "follow",
    "user:NAME",
];
/// Before the name of a function of the user's own.
pub const USER: &str = "user:";
pub const ORDERS: [&str; 3] = ["program", "progress", "service"];

/// Of reservations and of members.
pub const PERIODS_NS: RangeInclusive<u64> = 1_000_000..=10_000_000_000;
pub const PERIOD_NS: u64 = 30_000_000;
/// The longest event of a cooperation domain.
pub const EVENTS_NS: RangeInclusive<u64> = 10_000..=2_000_000;
/// Execution intervals of plans and of servers.
pub const INTERVALS_NS: RangeInclusive<u64> = 100_000..=1_000_000_000;
pub const INTERVAL_NS: u64 = 2_000_000;
/// Items of a queue.
pub const ITEMS: RangeInclusive<u32> = 1..=1_000_000;
pub const HIGH: u32 = 8;

impl Function {
    pub fn name(&self) -> &'static str {
        match self {
            Function::Fair => "fair",
            Function::Coop(_) => "coop",
            Function::Period => "period",
            Function::Plan => "plan",
            Function::Pipeline(_) => "pipeline",
            Function::Follow => "follow",
            Function::User(_) => "user",
        }
    }

    /// Whether there can be few members only, since a choice looks at each.
    pub fn looks_at_each(&self) -> bool {
        !matches!(self, Function::Fair | Function::Coop(_))
    }

    /// Whether a name may stand for several threads.
    pub fn has_sets(&self) -> bool {
        matches!(
            self,
            Function::Fair | Function::Coop(_) | Function::Period | Function::User(_)
        )
    }
}

impl Order {
    pub fn name(self) -> &'static str {
        ORDERS[self as usize]
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Function::Coop(coop) => {
                if let Some(ns) = coop.event_ns {
                    write!(f, " event={}", shown_ns(ns))?;
                }
                write!(f, " order={} preempt={}", coop.order.name(), coop.preempt)
            }
            Function::User(name) => write!(f, ":{name}"),
            Function::Pipeline(pipeline) => write!(f, " bootstrap={}", pipeline.bootstrap),
            Function::Fair | Function::Period | Function::Plan | Function::Follow => Ok(()),
        }
    }
}

impl fmt::Display for Terms {
    /// Nothing for a member of which there is nothing to know.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |name: &str, ns: Option<u64>| ns.map(|ns| format!("{name}={}", shown_ns(ns)));
        let follows = self.follows.as_ref().map(|follows| {
            format!(
                "follows={} at_most={}",
                follows.whom,
                shown_ns(follows.at_most_ns)
            )
        });
        let stage = self
            .stage
            .map(|stage| format!("high={} step={}", stage.high, stage.step));
        let all = [
            time("period", self.period_ns),
            time("budget", self.budget_ns),
            time("interval", self.interval_ns),
            follows,
            stage,
        ];
        let said: Vec<String> = all.into_iter().flatten().collect();
        f.write_str(&said.join(" "))
    }
}
