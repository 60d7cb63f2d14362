// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members of one domain whose best-effort keys make every poll a switch: what does it cost?

use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS};
use crate::cooperative::{wait_until_ns, Membership};
use crate::counters;
use crate::error::Error;
use crate::processes::{spawn, Child};
use clap::Args;
use consort::Next;
use serde::Serialize;

#[derive(Args, Serialize)]
pub struct Options {
    #[arg(long, default_value_t = 12)]
    members: usize,
    /// Polls of each member
    #[arg(long, default_value_t = 10_000)]
    polls: u64,
    #[command(flatten)]
    membership: Membership,
}

#[derive(Serialize)]
pub struct DomainSwitch {
    options: Options,
    us_per_switch: f64,
    switches_per_poll: f64,
}

pub fn run(options: Options) -> Result<DomainSwitch, Error> {
    let begin_ns = now_ns() + 500 * NS_PER_MS;
    let members: Vec<Child<(u64, u64)>> = (0..options.members)
        .map(|_| {
            let membership = options.membership.clone();
            let polls = options.polls;
            spawn(move || poll_often(&membership, begin_ns, polls))
        })
        .collect::<Result<_, _>>()?;
    sleep_until_ns(begin_ns - 10 * NS_PER_MS);
    let switches_before = counters::context_switches()?;
    let mut ends = Vec::new();
    for member in members {
        ends.push(member.wait()?);
    }
    let switches = counters::context_switches()? - switches_before;
    let first_ns = ends.iter().map(|end| end.0).min().unwrap_or(0);
    let last_ns = ends.iter().map(|end| end.1).max().unwrap_or(0);
    let polls = options.members as u64 * options.polls;
    Ok(DomainSwitch {
        us_per_switch: (last_ns - first_ns) as f64 / 1000.0 / switches.max(1) as f64,
        switches_per_poll: switches as f64 / polls.max(1) as f64,
        options,
    })
}

/// The member with the fewest polls goes first. Returns when it began and ended, in ns.
fn poll_often(membership: &Membership, begin_ns: u64, polls: u64) -> Result<(u64, u64), Error> {
    let member = membership.join(NS_PER_MS)?;
    wait_until_ns(&member, begin_ns)?;
    let first_ns = now_ns();
    for done in 1..=polls {
        let next = Next {
            due_ns: consort::NEVER,
            best_effort: Some((0, done)),
        };
        member.poll(next).map_err(Error::Cooperation)?;
    }
    Ok((first_ns, now_ns()))
}
