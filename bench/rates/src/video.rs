// SPDX-License-Identifier: MIT OR Apache-2.0
//! A player that has reserved, and knows nothing of the scheduler, beside all kinds of others. (001 section 4.6, 004
//! sections 6.2 and 6.3)

use crate::compile;
use crate::film::{Film, Seen, FRAMES_PER_S};
use crate::promise::{Division, Part};
use clap::Args;
use consort_bench_player::clock::{now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use consort_bench_player::error::Error;
use consort_bench_player::fleet::{hog, Schedule};
use consort_bench_player::processes::{lock_memory, spawn, Child};
use consort_bench_player::statistics::Distribution;
use serde::Serialize;

const WARMUP_NS: u64 = 2 * NS_PER_S;

#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    division: Division,
    /// The player's own
    #[arg(long)]
    promised: Part,
    /// What the player needs, as a fraction of the CPU
    #[arg(long)]
    load: f64,
    /// One hog for each of these reservations
    #[arg(long, value_delimiter = ',')]
    beside: Vec<Part>,
    /// Hogs that have reserved nothing
    #[arg(long, default_value_t = 0)]
    hogs: usize,
    /// Processes at a time of a parallel compile, without reservations
    #[arg(long, default_value_t = 0)]
    compile: usize,
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Chooses the film
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Serialize)]
pub struct Video {
    frames_per_s: f64,
    /// From when a frame was to be shown until it was.
    delay: Distribution,
    /// Between the times at which two frames were shown, or would have been.
    interframe: Distribution,
    options: Options,
}

pub fn run(options: Options) -> Result<Video, Error> {
    let promises: Vec<Part> = std::iter::once(&options.promised)
        .chain(&options.beside)
        .cloned()
        .collect();
    let prepared = options.division.prepare(&promises)?;
    let begin_ns = now_ns() + NS_PER_S;
    let window_start_ns = begin_ns + WARMUP_NS;
    let schedule = Schedule {
        begin_ns,
        window_start_ns,
        window_end_ns: window_start_ns + options.seconds * NS_PER_S,
    };
    let player = spawn(|| {
        lock_memory();
        prepared.take(0)?;
        sleep_until_ns(schedule.begin_ns);
        film(&options, schedule).play(schedule)
    })?;
    let mut others: Vec<Child<()>> = Vec::new();
    for index in 0..options.beside.len() + options.hogs {
        let prepared = &prepared;
        others.push(spawn(move || {
            prepared.take(index + 1)?;
            hog(schedule)
        })?);
    }
    for slot in 0..options.compile {
        let prepared = &prepared;
        others.push(spawn(move || {
            prepared.take_none()?;
            compile::make(schedule, slot)
        })?);
    }
    let seen = player.wait()?;
    for other in others {
        other.wait()?;
    }
    Ok(summary(options, &seen))
}

fn film(options: &Options, schedule: Schedule) -> Film {
    Film {
        seed: options.seed,
        load: options.load,
        first_due_ns: schedule.begin_ns + NS_PER_S / FRAMES_PER_S + options.seed % 10 * NS_PER_MS,
    }
}

fn summary(options: Options, seen: &Seen) -> Video {
    let between_ns = seen
        .shown_ns
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    Video {
        frames_per_s: seen.shown as f64 / options.seconds as f64,
        interframe: Distribution::of_ns(between_ns),
        delay: Distribution::of_ns(seen.late_ns()),
        options,
    }
}
