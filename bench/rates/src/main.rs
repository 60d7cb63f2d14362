// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads that measure what a reserved rate is worth. Each prints one line of JSON, as the player does.

mod build;
mod compile;
mod cpu_time;
mod credit;
mod elf;
mod external;
mod film;
mod gstreamer;
mod heavy;
mod promise;
mod shares;
mod storm;
mod switches;
mod trace;
mod video;
mod wait;

use clap::{Parser, Subcommand};
use consort_bench_player::error::Error;
use consort_bench_player::{report, work};
use serde_json::Value;

/// Workloads that measure what a reserved rate is worth
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Path of the consort command: records `consort status --json` before and after
    #[arg(long, global = true)]
    consort: Option<String>,
    /// Instructions of work in a microsecond; the default is that of an instruction-counted guest
    #[arg(long, global = true, default_value_t = work::GUEST_INSTRUCTIONS_PER_US)]
    instructions_per_us: u64,
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// Hogs with and without reservations: how far each is from its share in any window of a second
    Shares(shares::Options),
    /// One that has reserved, beside many threads that have not: its longest wait
    Wait(wait::Options),
    /// A player that has reserved, beside all kinds of others: frames, delays, times between frames
    Video(video::Options),
    /// A player that has reserved, beside a storm of requests for reservations: frames, delays, answers, books
    Storm(storm::Options),
    /// A client lends to its server and takes back: how soon the new shares hold
    Credit(credit::Options),
    /// A program that knows nothing of all this, beside loops: when it called a function of one of its libraries
    External(external::Options),
    /// A GStreamer application that knows nothing of all this: how many of its frames come late
    Gstreamer(gstreamer::Options),
    /// So many processes, one after another, each as a compiler asks for CPU, memory and files: how long they take
    Build(build::Options),
    /// Processes with a reservation each that yield to each other: us per switch
    Switches(switches::Options),
}

fn main() -> std::process::ExitCode {
    report::print("consort-bench-rates", run(Cli::parse()))
}

fn run(cli: Cli) -> Result<Value, Error> {
    work::set_instructions_per_us(cli.instructions_per_us);
    report::around(cli.consort.as_deref(), || {
        match cli.workload {
            Workload::Shares(options) => serde_json::to_value(shares::run(options)?),
            Workload::Wait(options) => serde_json::to_value(wait::run(options)?),
            Workload::Video(options) => serde_json::to_value(video::run(options)?),
            Workload::Storm(options) => {
                serde_json::to_value(storm::run(options, cli.consort.as_deref())?)
            }
            Workload::Credit(options) => serde_json::to_value(credit::run(options)?),
            Workload::External(options) => serde_json::to_value(external::run(options)?),
            Workload::Gstreamer(options) => {
                serde_json::to_value(gstreamer::run(options, cli.consort.as_deref())?)
            }
            Workload::Build(options) => serde_json::to_value(build::run(options)?),
            Workload::Switches(options) => serde_json::to_value(switches::run(options)?),
        }
        .map_err(Error::Json)
    })
}
