// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that a kernel's scheduler meets, for minutes: stress-ng's stressors of the scheduler and of CPUs, one after the other,
//! while cgroups come and go with other weights and tasks, and CPUs are taken offline and come back. How often was the BPF
//! scheduler thrown out?

use super::stress::arguments;
use crate::cgroup::Cgroup;
use crate::clock::{now_ns, NS_PER_S};
use crate::counters::scheduler;
use crate::error::Error;
use clap::Args;
use serde::Serialize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TIMES_LOADED: &str = "/sys/kernel/sched_ext/enable_seq";
const CGROUPS: &str = "/sys/fs/cgroup";
const CPUS: &str = "/sys/devices/system/cpu";
/// How long one stressor runs.
const STRESSOR_S: u64 = 4;
/// One that hangs is ended after this many times as long: a stall would have been noticed by then.
const HANG_FACTOR: u64 = 15;
/// Cgroups that are there at a time, how long their task runs, and how long a CPU is away.
const CGROUPS_MAX: u64 = 8;
const CGROUP_PAUSE: Duration = Duration::from_millis(200);
const CPU_PAUSE: Duration = Duration::from_millis(500);
/// Weights go round by this step, in what the kernel allows.
const WEIGHT_STEP: u64 = 1237;
const WEIGHT_MAX: u64 = 10_000;

#[derive(Args, Serialize)]
pub struct Options {
    /// stress-ng's stressors, each of which has its turn
    #[arg(long, value_delimiter = ',', required = true)]
    stressors: Vec<String>,
    /// Processes of each
    #[arg(long, default_value_t = 4)]
    instances: usize,
    #[arg(long)]
    seconds: u64,
    #[arg(long, default_value = "stress-ng")]
    program: String,
}

#[derive(Serialize)]
pub struct Soak {
    options: Options,
    minutes: f64,
    /// Stressors that came to a good end, and those that did not: most for lack of memory or rights.
    turns: u64,
    failures: u64,
    /// Cgroups made and CPUs taken offline meanwhile.
    cgroups: u64,
    unplugged: u64,
    /// How often the BPF scheduler was thrown out.
    ejections: u64,
}

pub fn run(options: Options) -> Result<Soak, Error> {
    let begin_ns = now_ns();
    let loaded_before = times_loaded()?;
    let ends = AtomicBool::new(false);
    let (mut turns, mut failures) = (0_u64, 0_u64);
    let (cgroups, unplugged) = std::thread::scope(|scope| {
        let cgroups = scope.spawn(|| until(&ends, churn_cgroup));
        let unplugged = scope.spawn(|| until(&ends, unplug));
        let end_ns = begin_ns + options.seconds * NS_PER_S;
        for stressor in options.stressors.iter().cycle() {
            if now_ns() >= end_ns {
                break;
            }
            if stress(&options, stressor) {
                turns += 1;
            } else {
                failures += 1;
            }
        }
        ends.store(true, Ordering::Relaxed);
        // Neither panics: what they cannot do they leave out.
        (cgroups.join().unwrap_or(0), unplugged.join().unwrap_or(0))
    });
    if turns == 0 {
        return Err(Error::Usage(format!(
            "none of {failures} runs of {} came to a good end: is it there, and does it know {:?}?",
            options.program, options.stressors
        )));
    }
    let is_loaded = scheduler(None)?.state == "enabled";
    Ok(Soak {
        minutes: (now_ns() - begin_ns) as f64 / NS_PER_S as f64 / 60.0,
        turns,
        failures,
        cgroups,
        unplugged,
        ejections: times_loaded()? - loaded_before + u64::from(!is_loaded),
        options,
    })
}

/// Does one thing after the other; returns how often that succeeded.
fn until(ends: &AtomicBool, mut step: impl FnMut(u64) -> bool) -> u64 {
    let mut done = 0;
    for number in 0.. {
        if ends.load(Ordering::Relaxed) {
            break;
        }
        done += u64::from(step(number));
    }
    done
}

fn stress(options: &Options, stressor: &str) -> bool {
    Command::new("timeout")
        .arg((STRESSOR_S * HANG_FACTOR).to_string())
        .arg(&options.program)
        .args(arguments(stressor, options.instances, STRESSOR_S))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A cgroup of another weight has a loop for a moment, which then leaves it, before the cgroup goes.
fn churn_cgroup(number: u64) -> bool {
    let weight = 1 + number * number * WEIGHT_STEP % WEIGHT_MAX;
    let name = format!("soak-{}", number % CGROUPS_MAX);
    let Ok(cgroup) = Cgroup::new(Path::new(CGROUPS), &name, weight) else {
        return false;
    };
    let Ok(mut loops) = Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
    else {
        return false;
    };
    let moved = [cgroup.path(), Path::new(CGROUPS)].map(|to| {
        let moved = std::fs::write(to.join("cgroup.procs"), loops.id().to_string()).is_ok();
        std::thread::sleep(CGROUP_PAUSE);
        moved
    });
    let ended = loops.kill().and_then(|()| loops.wait()).is_ok();
    moved == [true, true] && ended
}

/// Takes a CPU offline and back again: each but the first in turn.
fn unplug(number: u64) -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
    let online = format!(
        "{CPUS}/cpu{}/online",
        1 + number % cpus.max(2).saturating_sub(1)
    );
    let away = std::fs::write(&online, "0").is_ok();
    std::thread::sleep(CPU_PAUSE);
    let back = std::fs::write(&online, "1").is_ok();
    std::thread::sleep(CPU_PAUSE);
    away && back
}

/// How many schedulers have been loaded since the machine was started: one that is thrown out is loaded again.
fn times_loaded() -> Result<u64, Error> {
    std::fs::read_to_string(TIMES_LOADED)
        .map_err(|source| Error::io(format!("read {TIMES_LOADED}"), source))?
        .trim()
        .parse()
        .map_err(|_| Error::Usage(format!("{TIMES_LOADED} is no number")))
}
