// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a switch costs between tasks that are three levels below the top: class, reservation, thread.

use crate::promise::{Division, Part};
use clap::Args;
use consort_bench_player::error::Error;
use consort_bench_player::micro::yielders;
use serde::Serialize;

/// Enough for each process to reserve.
const SETTLE_MS: u64 = 100;

#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    division: Division,
    /// One process for each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "guaranteed=0.25,guaranteed=0.25"
    )]
    promised: Vec<Part>,
    /// Yields of each process
    #[arg(long, default_value_t = 100_000)]
    yields: u64,
}

#[derive(Serialize)]
pub struct Switches {
    #[serde(flatten)]
    cost: yielders::YieldCost,
}

pub fn run(options: Options) -> Result<Switches, Error> {
    let prepared = options.division.prepare(&options.promised)?;
    let wanted = yielders::Options {
        processes: options.promised.len(),
        yields: options.yields,
        settle_ms: SETTLE_MS,
    };
    let cost = yielders::run_each(wanted, |number| prepared.take(number))?;
    Ok(Switches { cost })
}
