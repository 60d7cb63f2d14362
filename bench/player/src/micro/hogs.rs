// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hogs of different nice levels, or in cgroups of different cpu.weight: does each get its share?

use crate::cgroup::Cgroup;
use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use crate::error::Error;
use crate::fleet::{hog, Schedule};
use crate::processes::{spawn, Child};
use crate::{clock, counters};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// The kernel's table of the weight of each nice level, from -20 (kernel/sched/core.c).
const NICE_WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

#[derive(Args, Serialize)]
pub struct Options {
    /// One hog for each nice level
    #[arg(
        long,
        value_delimiter = ',',
        allow_hyphen_values = true,
        default_value = "0,0"
    )]
    nice: Vec<i32>,
    /// Put the hogs, in order, into cgroups of these cpu.weight (same number of them as of nice levels)
    #[arg(long, value_delimiter = ',')]
    cgroup_weights: Vec<u64>,
    /// Where the cgroup v2 hierarchy is mounted
    #[arg(long, default_value = "/sys/fs/cgroup")]
    cgroup_root: PathBuf,
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

#[derive(Serialize)]
pub struct Shares {
    options: Options,
    /// Of the CPU time that all hogs got together.
    share_percent: Vec<f64>,
    expected_percent: Vec<f64>,
    /// Largest difference between the two.
    share_error_percent: f64,
    /// Involuntary switches of the hogs.
    switches_per_s: f64,
}

pub fn run(options: Options) -> Result<Shares, Error> {
    let expected_percent = expected(&options)?;
    let cgroups = options
        .cgroup_weights
        .iter()
        .enumerate()
        .map(|(index, &weight)| {
            Cgroup::new(&options.cgroup_root, &format!("bench-hog-{index}"), weight)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let begin_ns = now_ns() + 300 * NS_PER_MS;
    let schedule = Schedule::after_a_second(begin_ns, options.seconds);
    let mut hogs: Vec<Child<()>> = Vec::new();
    for (index, &nice) in options.nice.iter().enumerate() {
        let cgroup = cgroups.get(index);
        hogs.push(spawn(move || {
            if let Some(cgroup) = cgroup {
                cgroup.enter()?;
            }
            set_nice(nice)?;
            hog(schedule)
        })?);
    }
    sleep_until_ns(schedule.window_start_ns);
    let before = measure(&hogs)?;
    sleep_until_ns(schedule.window_end_ns);
    let after = measure(&hogs)?;
    for hog in hogs {
        hog.wait()?;
    }
    drop(cgroups);
    Ok(compare(options, expected_percent, &before, &after))
}

/// CPU time and switches of each hog, and when they were read.
struct Measured {
    at_ns: u64,
    cpu_ns: Vec<u64>,
    switches: u64,
}

fn measure(hogs: &[Child<()>]) -> Result<Measured, Error> {
    let mut measured = Measured {
        at_ns: clock::now_ns(),
        cpu_ns: Vec::new(),
        switches: 0,
    };
    for hog in hogs {
        measured.cpu_ns.push(counters::cpu_time_ns(hog.pid)?);
        measured.switches += counters::switches_of(hog.pid)?.1;
    }
    Ok(measured)
}

fn expected(options: &Options) -> Result<Vec<f64>, Error> {
    let weights: Vec<u64> = if options.cgroup_weights.is_empty() {
        let weight = |&nice: &i32| {
            usize::try_from(nice + 20)
                .ok()
                .and_then(|index| NICE_WEIGHTS.get(index).copied())
                .ok_or_else(|| Error::Usage(format!("--nice {nice}: expected -20 to 19")))
        };
        options.nice.iter().map(weight).collect::<Result<_, _>>()?
    } else if options.cgroup_weights.len() == options.nice.len() {
        options.cgroup_weights.clone()
    } else {
        return Err(Error::Usage(format!(
            "--cgroup-weights has {} values, expected {}: one for each of --nice",
            options.cgroup_weights.len(),
            options.nice.len()
        )));
    };
    let sum: u64 = weights.iter().sum();
    Ok(weights
        .iter()
        .map(|&weight| 100.0 * weight as f64 / sum as f64)
        .collect())
}

fn set_nice(nice: i32) -> Result<(), Error> {
    // SAFETY: changes only the calling process.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } != 0 {
        return Err(Error::last_os("set the nice level"));
    }
    Ok(())
}

fn compare(
    options: Options,
    expected_percent: Vec<f64>,
    before: &Measured,
    after: &Measured,
) -> Shares {
    let got_ns: Vec<u64> = before
        .cpu_ns
        .iter()
        .zip(&after.cpu_ns)
        .map(|(from_ns, to_ns)| to_ns - from_ns)
        .collect();
    let sum_ns: u64 = got_ns.iter().sum();
    let share_percent: Vec<f64> = got_ns
        .iter()
        .map(|&time_ns| 100.0 * time_ns as f64 / sum_ns.max(1) as f64)
        .collect();
    let share_error_percent = share_percent
        .iter()
        .zip(&expected_percent)
        .map(|(share, expected)| (share - expected).abs())
        .fold(0.0, f64::max);
    let took_s = (after.at_ns - before.at_ns) as f64 / NS_PER_S as f64;
    Shares {
        options,
        share_percent,
        expected_percent,
        share_error_percent,
        switches_per_s: (after.switches - before.switches) as f64 / took_s,
    }
}
