// SPDX-License-Identifier: MIT OR Apache-2.0
//! massive_intr, after the program of that name (Satoru Takeuchi): many processes that work 8 ms and sleep
//! 1 ms. Each counts its rounds; a fair scheduler lets all count alike.

use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use crate::error::Error;
use crate::processes::{spawn, Child};
use crate::statistics::{mean, variation_percent};
use crate::work;
use clap::Args;
use serde::Serialize;

const WORK_NS: u64 = 8 * NS_PER_MS;
const SLEEP_NS: u64 = NS_PER_MS;

#[derive(Args, Serialize)]
pub struct Options {
    #[arg(long, default_value_t = 10)]
    processes: usize,
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

#[derive(Serialize)]
pub struct MassiveIntr {
    options: Options,
    rounds_mean: f64,
    rounds_min: u64,
    rounds_max: u64,
    rounds_cv_percent: f64,
}

pub fn run(options: Options) -> Result<MassiveIntr, Error> {
    let begin_ns = now_ns() + 300 * NS_PER_MS;
    let end_ns = begin_ns + options.seconds * NS_PER_S;
    let workers: Vec<Child<u64>> = (0..options.processes)
        .map(|_| spawn(move || Ok(count_rounds(begin_ns, end_ns))))
        .collect::<Result<_, _>>()?;
    let rounds = workers
        .into_iter()
        .map(Child::wait)
        .collect::<Result<Vec<u64>, _>>()?;
    let values: Vec<f64> = rounds.iter().map(|&count| count as f64).collect();
    Ok(MassiveIntr {
        options,
        rounds_mean: mean(&values),
        rounds_min: rounds.iter().min().copied().unwrap_or(0),
        rounds_max: rounds.iter().max().copied().unwrap_or(0),
        rounds_cv_percent: variation_percent(&values),
    })
}

fn count_rounds(begin_ns: u64, end_ns: u64) -> u64 {
    sleep_until_ns(begin_ns);
    let mut rounds = 0;
    while now_ns() < end_ns {
        work::burn_ns(WORK_NS);
        sleep_until_ns(now_ns() + SLEEP_NS);
        rounds += 1;
    }
    rounds
}
