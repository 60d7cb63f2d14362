// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hogs with and without reservations: how far is each from its share, in any window of a second?

use crate::cpu_time::CpuClock;
use crate::promise::{Division, Part};
use clap::Args;
use consort_bench_player::clock::{now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use consort_bench_player::error::Error;
use consort_bench_player::fleet::{hog, Schedule};
use consort_bench_player::processes::spawn;
use serde::Serialize;

/// CPU time is read so often: windows begin at each of these times.
const STEP_NS: u64 = 50 * NS_PER_MS;
const STEPS_PER_WINDOW: usize = (NS_PER_S / STEP_NS) as usize;

#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    division: Division,
    /// One hog for each of these reservations
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "guaranteed=0.3,guaranteed=0.15,guaranteed=0.05,adaptive=0.25"
    )]
    promised: Vec<Part>,
    /// Hogs without one
    #[arg(long, default_value_t = 2)]
    hogs: usize,
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

#[derive(Serialize)]
pub struct Shares {
    options: Options,
    /// Parts of the CPU time that all hogs got together, over the whole time.
    share_percent: Vec<f64>,
    expected_percent: Vec<f64>,
    /// Largest difference between a hog's share of a window of a second and its expected one, in percent of the CPU.
    window_error_percent: f64,
    windows: usize,
}

pub fn run(options: Options) -> Result<Shares, Error> {
    let prepared = options.division.prepare(&options.promised)?;
    let begin_ns = now_ns() + 500 * NS_PER_MS;
    let schedule = Schedule::after_a_second(begin_ns, options.seconds);
    let number = options.promised.len();
    let hogs = (0..number + options.hogs)
        .map(|index| {
            let prepared = &prepared;
            spawn(move || {
                prepared.take(index)?;
                hog(schedule)
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let clocks = hogs
        .iter()
        .map(|hog| CpuClock::of(hog.pid))
        .collect::<Result<Vec<_>, _>>()?;
    let mut samples: Vec<Vec<u64>> = Vec::new();
    for step in 0..=options.seconds as usize * STEPS_PER_WINDOW {
        sleep_until_ns(schedule.window_start_ns + step as u64 * STEP_NS);
        samples.push(clocks.iter().map(CpuClock::now_ns).collect());
    }
    for hog in hogs {
        hog.wait()?;
    }
    Ok(compare(options, &samples))
}

/// Parts of what all received between two samples.
fn shares(before: &[u64], after: &[u64]) -> Vec<f64> {
    let got: Vec<f64> = before
        .iter()
        .zip(after)
        .map(|(before, after)| (after - before) as f64)
        .collect();
    let sum: f64 = got.iter().sum();
    got.iter().map(|got| 100.0 * got / sum.max(1.0)).collect()
}

fn compare(options: Options, samples: &[Vec<u64>]) -> Shares {
    let mut expected: Vec<f64> = options
        .division
        .effective(&options.promised, options.hogs > 0)
        .iter()
        .map(|share| 100.0 * share)
        .collect();
    let rest = 100.0 - expected.iter().sum::<f64>();
    expected.extend((0..options.hogs).map(|_| rest / options.hogs as f64));
    let window_error_percent = samples
        .iter()
        .zip(samples.iter().skip(STEPS_PER_WINDOW))
        .flat_map(|(before, after)| shares(before, after))
        .zip(expected.iter().cycle())
        .map(|(share, expected)| (share - expected).abs())
        .fold(0.0, f64::max);
    Shares {
        share_percent: match samples {
            [first, .., last] => shares(first, last),
            _ => Vec::new(),
        },
        expected_percent: expected,
        window_error_percent,
        windows: samples.len().saturating_sub(STEPS_PER_WINDOW),
        options,
    }
}
