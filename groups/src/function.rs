// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decision functions and their parameters (003: SDFs): of the group, and of each member.

use std::{fmt, ops::RangeInclusive};

use crate::units::shown_ns;

/// Whose turn it is in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Function {
    /// Least service first, by weight.
    Fair,
    /// As members agree by polling: a cooperation domain.
    Coop(Coop),
    /// Whose period ends first.
    Period,
    /// At the times of a schedule.
    Plan,
    Pipeline(Pipeline),
    Follow(Follow),
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
    /// Items that the last stage takes in one go.
    pub step: u32,
    /// Items that the first queue must have before anything else begins.
    pub bootstrap: u32,
}

/// A server runs right after one of its clients has submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follow {
    /// For so long at most, or until it sleeps.
    pub interval_ns: u64,
}

/// What a function has to know of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Fair {
        weight: u32,
    },
    Coop,
    Period {
        period_ns: u64,
    },
    Plan {
        /// Each of its execution intervals is so long, unless the schedule says otherwise.
        interval_ns: u64,
    },
    Stage {
        /// It is not run while so many items wait in its output queue.
        high: u32,
    },
    Client,
    Server,
}

pub const FUNCTIONS: [&str; 6] = ["fair", "coop", "period", "plan", "pipeline", "follow"];
pub const ORDERS: [&str; 3] = ["program", "progress", "service"];

/// As cgroup v2 has them: 1 to 10000, 100 by default.
pub const WEIGHTS: RangeInclusive<u32> = 1..=10_000;
pub const WEIGHT: u32 = 100;
/// Of reservations and of members.
pub const PERIODS_NS: RangeInclusive<u64> = 1_000_000..=10_000_000_000;
pub const PERIOD_NS: u64 = 30_000_000;
/// The longest event of a cooperation domain.
pub const EVENTS_NS: RangeInclusive<u64> = 10_000..=2_000_000;
/// Execution intervals of plans and of servers.
pub const INTERVALS_NS: RangeInclusive<u64> = 10_000..=1_000_000_000;
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
            Function::Follow(_) => "follow",
        }
    }

    /// Whether a choice looks at each member, so that there can be few only.
    pub fn looks_at_each(&self) -> bool {
        !matches!(self, Function::Fair | Function::Coop(_))
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
            Function::Pipeline(pipeline) => {
                write!(
                    f,
                    " step={} bootstrap={}",
                    pipeline.step, pipeline.bootstrap
                )
            }
            Function::Follow(follow) => write!(f, " interval={}", shown_ns(follow.interval_ns)),
            Function::Fair | Function::Period | Function::Plan => Ok(()),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Fair { weight } => write!(f, "weight={weight}"),
            Part::Coop => f.write_str("coop"),
            Part::Period { period_ns } => write!(f, "period={}", shown_ns(*period_ns)),
            Part::Plan { interval_ns } => write!(f, "interval={}", shown_ns(*interval_ns)),
            Part::Stage { high } => write!(f, "high={high}"),
            Part::Client => f.write_str("client"),
            Part::Server => f.write_str("server"),
        }
    }
}
