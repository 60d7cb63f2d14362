// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that sleeps most of the time, beside hogs: how late does it wake?

use crate::clock::{no_timer_slack, now_ns, sleep_until_ns, NS_PER_MS};
use crate::error::Error;
use crate::fleet::{hog, Schedule};
use crate::processes::spawn;
use crate::statistics::Distribution;
use clap::Args;
use serde::Serialize;

#[derive(Args, Serialize)]
pub struct Options {
    #[arg(long, default_value_t = 1)]
    hogs: usize,
    /// Sleep between two wake-ups
    #[arg(long, default_value_t = 10)]
    sleep_ms: u64,
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

#[derive(Serialize)]
pub struct Lateness {
    options: Options,
    mean_us: f64,
    p99_us: f64,
    max_us: f64,
    wakes: u64,
}

pub fn run(options: Options) -> Result<Lateness, Error> {
    let begin_ns = now_ns() + 300 * NS_PER_MS;
    let schedule = Schedule::after_a_second(begin_ns, options.seconds);
    let hogs = (0..options.hogs)
        .map(|_| spawn(move || hog(schedule)))
        .collect::<Result<Vec<_>, _>>()?;
    let sleep_ns = options.sleep_ms.max(1) * NS_PER_MS;
    let sleeper = spawn(move || {
        no_timer_slack();
        let mut late_ns = Vec::new();
        let mut wake_ns = schedule.begin_ns;
        while wake_ns < schedule.window_end_ns {
            sleep_until_ns(wake_ns);
            let now = now_ns();
            if wake_ns >= schedule.window_start_ns {
                late_ns.push(now - wake_ns);
            }
            wake_ns = now + sleep_ns;
        }
        Ok(late_ns)
    })?;
    let late = Distribution::of_ns(sleeper.wait()?);
    for hog in hogs {
        hog.wait()?;
    }
    Ok(Lateness {
        options,
        mean_us: late.mean_ms * 1000.0,
        p99_us: late.p99_ms * 1000.0,
        max_us: late.max_ms * 1000.0,
        wakes: late.count,
    })
}
