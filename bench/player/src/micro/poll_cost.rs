// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a poll costs a member when nobody else wants the CPU: the usual case, which makes no system call.

use crate::clock::{now_ns, NS_PER_S};
use crate::cooperative::Membership;
use crate::error::Error;
use clap::Args;
use consort::{Member, Next};
use serde::Serialize;
use std::hint::black_box;

/// Of these tries of so many polls, a third of a millisecond each, the fastest is one that nothing else interrupted.
const TRIES: u32 = 400;
const POLLS_OF_TRY: u64 = 10_000;

#[derive(Args, Serialize)]
pub struct Options {
    #[arg(long, default_value_t = 100_000)]
    polls: u64,
    #[command(flatten)]
    membership: Membership,
}

#[derive(Serialize)]
pub struct PollCost {
    options: Options,
    /// A poll that reads the clock itself, and one that is given the time.
    instructions_per_poll: f64,
    instructions_per_poll_at: f64,
    /// The same in time, which is this machine's: the least of several tries.
    ns_per_poll: f64,
    ns_per_poll_at: f64,
}

pub fn run(options: Options) -> Result<PollCost, Error> {
    let member = options.membership.join(1_000_000)?;
    let now = now_ns();
    let next = Next {
        due_ns: now + 1000 * NS_PER_S,
        best_effort: Some((0, 0)),
    };
    let empty_ns = time_ns(options.polls, || Ok(next.due_ns))?;
    let poll_ns = time_ns(options.polls, || poll(&member, next, None))?;
    let poll_at_ns = time_ns(options.polls, || poll(&member, next, Some(now)))?;
    let instructions = |took_ns: u64| {
        let us = took_ns.saturating_sub(empty_ns) as f64 / 1000.0;
        us * crate::work::instructions_per_us() as f64 / options.polls.max(1) as f64
    };
    let ns_each = |call: &dyn Fn() -> Result<u64, Error>| -> Result<f64, Error> {
        let tries = (0..TRIES).map(|_| time_ns(POLLS_OF_TRY, call));
        let least_ns = tries.collect::<Result<Vec<_>, _>>()?.into_iter().min();
        Ok(least_ns.unwrap_or(0) as f64 / POLLS_OF_TRY as f64)
    };
    Ok(PollCost {
        ns_per_poll: ns_each(&|| poll(&member, next, None))?,
        ns_per_poll_at: ns_each(&|| poll(&member, next, Some(now)))?,
        instructions_per_poll: instructions(poll_ns),
        instructions_per_poll_at: instructions(poll_at_ns),
        options,
    })
}

fn poll(member: &Member, next: Next, now: Option<u64>) -> Result<u64, Error> {
    let others = match now {
        None => member.poll(next),
        Some(now) => member.poll_at(next, now),
    };
    Ok(others.map_err(Error::Cooperation)?.yield_by_ns)
}

/// How long `count` calls take, in ns.
fn time_ns(count: u64, call: impl Fn() -> Result<u64, Error>) -> Result<u64, Error> {
    let begin_ns = now_ns();
    for _ in 0..count {
        black_box(call()?);
    }
    Ok(now_ns() - begin_ns)
}
