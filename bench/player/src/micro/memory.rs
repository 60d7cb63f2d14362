// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that the kernel, and a scheduler in it, spends on a thread or on a program that joined.
//!
//! What the kernel's free memory loses is what programs and kernel take together; what the programs hold
//! themselves is subtracted. The rest is the kernel's. Compared between schedulers, or between programs that
//! join and programs that do not, it is the scheduler's. Many are made, as free memory moves by batches of pages.

use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS};
use crate::cooperative::Membership;
use crate::error::Error;
use crate::processes::{spawn, Child};
use clap::{Args, ValueEnum};
use consort::Member;
use serde::Serialize;
use std::sync::mpsc;

/// Threads sleep; they need next to no stack.
const STACK_BYTES: usize = 64 * 1024;
/// Time to start one program and let it join, within the daemon's limit of requests.
const PROGRAM_START_NS: u64 = 5 * NS_PER_MS;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Threads of one process
    Threads,
    /// Processes that do not join
    Programs,
    /// Processes that each join the domain
    Members,
}

#[derive(Args, Serialize)]
pub struct Options {
    #[arg(long, value_enum)]
    kind: Kind,
    #[arg(long, default_value_t = 200)]
    count: u64,
    #[command(flatten)]
    membership: Membership,
}

#[derive(Serialize)]
pub struct Memory {
    options: Options,
    /// The kernel's own, for each thread or program.
    kernel_bytes: f64,
}

pub fn run(options: Options) -> Result<Memory, Error> {
    if options.count == 0 {
        return Err(Error::Usage("--count must be at least 1".into()));
    }
    let (free_loss, held) = match options.kind {
        Kind::Threads => with_threads(options.count)?,
        Kind::Programs => with_programs(options.count, None)?,
        Kind::Members => with_programs(options.count, Some(&options.membership))?,
    };
    Ok(Memory {
        kernel_bytes: (free_loss - held) as f64 / options.count as f64,
        options,
    })
}

/// Bytes of free memory lost, and bytes that the process holds more.
fn with_threads(count: u64) -> Result<(i64, i64), Error> {
    let before = (free_bytes()?, held_bytes()?);
    let mut releases = Vec::new();
    for _ in 0..count {
        let (release, wait) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            // An error means that the sender is gone, which is the signal to end.
            .spawn(move || wait.recv().is_ok())
            .map_err(|source| Error::io("start a thread", source))?;
        releases.push((release, thread));
    }
    sleep_until_ns(now_ns() + 500 * NS_PER_MS);
    let after = (free_bytes()?, held_bytes()?);
    for (release, thread) in releases {
        drop(release);
        // A thread that only waited cannot have panicked.
        let _ = thread.join();
    }
    Ok((before.0 - after.0, after.1 - before.1))
}

/// The same for processes; with `membership` they join.
fn with_programs(count: u64, membership: Option<&Membership>) -> Result<(i64, i64), Error> {
    let free_before = free_bytes()?;
    let begin_ns = now_ns();
    let measure_at_ns = begin_ns + count * PROGRAM_START_NS + 500 * NS_PER_MS;
    let mut programs: Vec<Child<i64>> = Vec::new();
    for index in 0..count {
        sleep_until_ns(begin_ns + index * PROGRAM_START_NS);
        programs.push(spawn(move || {
            let member: Option<Member> = membership.map(|it| it.join(NS_PER_MS)).transpose()?;
            sleep_until_ns(measure_at_ns + 500 * NS_PER_MS);
            let held = held_bytes();
            drop(member);
            held
        })?);
    }
    sleep_until_ns(measure_at_ns);
    let free_loss = free_before - free_bytes()?;
    let mut held = 0;
    for program in programs {
        held += program.wait()?;
    }
    Ok((free_loss, held))
}

/// Free memory of the machine.
fn free_bytes() -> Result<i64, Error> {
    kilobytes_in("/proc/meminfo", "MemFree:").map(|kilobytes| kilobytes * 1024)
}

/// Memory that the calling process shares with nobody.
fn held_bytes() -> Result<i64, Error> {
    let path = "/proc/self/smaps_rollup";
    Ok(1024 * (kilobytes_in(path, "Private_Dirty:")? + kilobytes_in(path, "Private_Clean:")?))
}

fn kilobytes_in(path: &str, name: &str) -> Result<i64, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::io(format!("read {path}"), source))?;
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kilobytes| kilobytes.parse().ok())
        .ok_or_else(|| Error::Usage(format!("{path} has no number after {name}")))
}
