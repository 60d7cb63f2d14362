// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes on one CPU that do nothing but sched_yield: what does a switch cost?

use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS};
use crate::counters;
use crate::error::Error;
use crate::processes::{spawn, Child};
use clap::Args;
use serde::Serialize;

#[derive(Args, Serialize)]
pub struct Options {
    #[arg(long, default_value_t = 2)]
    pub processes: usize,
    /// Yields of each process
    #[arg(long, default_value_t = 100_000)]
    pub yields: u64,
    /// From the first process' start to the first yield
    #[arg(long, default_value_t = 100)]
    pub settle_ms: u64,
}

#[derive(Serialize)]
pub struct YieldCost {
    options: Options,
    us_per_yield: f64,
    us_per_switch: f64,
}

pub fn run(options: Options) -> Result<YieldCost, Error> {
    run_each(options, |_| Ok(()))
}

/// The same where each process first does `prepare`, with its number.
///
/// # Errors
/// When a process cannot be started, or failed.
pub fn run_each(
    options: Options,
    prepare: impl Fn(usize) -> Result<(), Error>,
) -> Result<YieldCost, Error> {
    let begin_ns = now_ns() + options.settle_ms * NS_PER_MS;
    let yields = options.yields;
    let yielders: Vec<Child<(u64, u64)>> = (0..options.processes)
        .map(|number| {
            let prepare = &prepare;
            spawn(move || {
                prepare(number)?;
                Ok(yield_often(begin_ns, yields))
            })
        })
        .collect::<Result<_, _>>()?;
    sleep_until_ns(begin_ns - 10 * NS_PER_MS);
    let switches_before = counters::context_switches()?;
    let mut ends = Vec::new();
    for yielder in yielders {
        ends.push(yielder.wait()?);
    }
    let switches = counters::context_switches()? - switches_before;
    let first_ns = ends.iter().map(|end| end.0).min().unwrap_or(0);
    let last_ns = ends.iter().map(|end| end.1).max().unwrap_or(0);
    let took_us = (last_ns - first_ns) as f64 / 1000.0;
    Ok(YieldCost {
        us_per_yield: took_us / (options.processes as u64 * options.yields).max(1) as f64,
        us_per_switch: took_us / switches.max(1) as f64,
        options,
    })
}

/// When it began and ended, in ns.
fn yield_often(begin_ns: u64, yields: u64) -> (u64, u64) {
    sleep_until_ns(begin_ns);
    let first_ns = now_ns();
    for _ in 0..yields {
        std::thread::yield_now();
    }
    (first_ns, now_ns())
}
