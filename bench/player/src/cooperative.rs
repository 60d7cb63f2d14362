// SPDX-License-Identifier: MIT OR Apache-2.0
//! Players that cooperate through libconsort, and members that break the contract.

use crate::clock::{now_ns, NS_PER_MS, NS_PER_US};
use crate::error::Error;
use crate::fleet::{FleetOptions, Schedule};
use crate::player::{Player, Record};
use crate::work::burn_ns;
use clap::{Args, ValueEnum};
use consort::{Domain, Member, Next, Order, Standing};
use serde::Serialize;

/// What is declared as the longest event, over the chunk: interrupts lengthen a chunk.
const EVENT_MARGIN_PERCENT: u64 = 120;
/// How long the polite liar works between polls.
const POLITE_WORK_NS: u64 = NS_PER_MS;

/// What `enum consort_order` calls them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BestEffort {
    /// By the keys that members publish
    #[default]
    Program,
    /// Fewest due events served first
    Progress,
    /// Least CPU time first
    Service,
}

impl From<BestEffort> for Order {
    fn from(order: BestEffort) -> Self {
        match order {
            BestEffort::Program => Order::Program,
            BestEffort::Progress => Order::Progress,
            BestEffort::Service => Order::Service,
        }
    }
}

/// How members join.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Membership {
    /// Cooperation domain to join, for --mode coop
    #[arg(long, default_value = "bench")]
    pub domain: String,
    /// Give every member a private domain instead
    #[arg(long)]
    pub private: bool,
    /// Ask for members to be preempted at the others' due times
    #[arg(long)]
    pub preempt: bool,
    /// The longest event that members declare, in microseconds; without it the chunk, and a fifth for interrupts
    #[arg(long, value_name = "US")]
    pub event_us: Option<u64>,
    /// Order of the members' best-effort events
    #[arg(long, value_enum, default_value_t)]
    pub order: BestEffort,
}

impl Membership {
    /// Joins; `event_ns` is the longest event that the caller will run, where interrupts alone lengthen it.
    pub fn join(&self, event_ns: u64) -> Result<Member, Error> {
        let domain = if self.private {
            Domain::private()
        } else {
            Domain::named(self.domain.as_str())
        };
        let usual_ns = event_ns * EVENT_MARGIN_PERCENT / 100;
        let declared_ns = self
            .event_us
            .map_or(usual_ns, |event_us| event_us.saturating_mul(NS_PER_US))
            .clamp(consort::EVENT_MIN_NS, consort::EVENT_MAX_NS);
        let domain = domain.event_ns(declared_ns).preempt(self.preempt);
        let member = domain.order(self.order.into()).join();
        let member = member.map_err(Error::Cooperation)?;
        if member.others().map_err(Error::Cooperation)?.standing() == Standing::Outside {
            return Err(Error::NotAMember);
        }
        Ok(member)
    }
}

/// Sleeps inside poll, as a member should.
pub fn wait_until_ns(member: &Member, time_ns: u64) -> Result<(), Error> {
    while now_ns() < time_ns {
        member
            .poll(Next::due(time_ns))
            .map_err(Error::Cooperation)?;
    }
    Ok(())
}

/// Joins and plays to the end.
pub fn play(
    mut player: Player,
    options: &FleetOptions,
    schedule: Schedule,
) -> Result<Record, Error> {
    let member = options.membership.join(options.chunk_us * 1000)?;
    wait_until_ns(&member, schedule.begin_ns)?;
    loop {
        let now = now_ns();
        player.finish_chunk(now);
        player.serve_due(now);
        if now >= player.stop_at_ns() {
            return Ok(player.into_record());
        }
        player.count_poll(now);
        let next = Next {
            due_ns: player.next_due_ns(),
            best_effort: player.wants_cpu().then(|| (0, player.progress_key())),
        };
        member.poll_at(next, now).map_err(Error::Cooperation)?;
        // One unit of work follows every poll: a due event (above), else a chunk.
        let now = now_ns();
        if now < player.next_due_ns() && player.wants_cpu() {
            player.decode_chunk(now);
        }
    }
}

/// Joins, never polls again, and uses all the CPU it gets.
pub fn lie_mutely(options: &FleetOptions, schedule: Schedule) -> Result<(), Error> {
    let member = options.membership.join(options.chunk_us * 1000)?;
    wait_until_ns(&member, schedule.begin_ns)?;
    while now_ns() < schedule.stop_at_ns() {
        burn_ns(POLITE_WORK_NS);
    }
    Ok(())
}

/// Polls often, and claims each time to be late for something.
pub fn lie_politely(options: &FleetOptions, schedule: Schedule) -> Result<(), Error> {
    let member = options.membership.join(options.chunk_us * 1000)?;
    wait_until_ns(&member, schedule.begin_ns)?;
    while now_ns() < schedule.stop_at_ns() {
        burn_ns(POLITE_WORK_NS);
        let late = Next {
            due_ns: now_ns() - POLITE_WORK_NS,
            best_effort: Some((0, 0)),
        };
        member.poll(late).map_err(Error::Cooperation)?;
    }
    Ok(())
}
