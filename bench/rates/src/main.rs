// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads that measure what a reserved rate is worth. Each prints one line of JSON, as the player does.

mod build;
mod command;
mod compile;
mod cpu_time;
mod credit;
mod display_server;
mod elf;
mod external;
mod film;
mod group_file;
mod gstreamer;
mod heavy;
mod loops;
mod pipeline;
mod promise;
mod shares;
mod storm;
mod switches;
mod trace;
mod tracefs;
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
    /// A film through a pipeline of threads and a display server: how far from its time each frame was shown
    Pipeline(pipeline::Options),
    /// A group file of many members is applied, to nobody's threads: ms
    Apply(group_file::ApplyOptions),
    /// Two members of a group yield to each other: us per switch
    GroupSwitches(group_file::SwitchesOptions),
    /// A group's function is exchanged again and again: how many choices had no answer
    Swaps(group_file::SwapsOptions),
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
    let consort = cli.consort.as_deref();
    report::around(consort, || {
        match cli.workload {
            Workload::Shares(options) => serde_json::to_value(shares::run(options)?),
            Workload::Wait(options) => serde_json::to_value(wait::run(options)?),
            Workload::Video(options) => serde_json::to_value(video::run(options)?),
            Workload::Storm(options) => serde_json::to_value(storm::run(options, consort)?),
            Workload::Credit(options) => serde_json::to_value(credit::run(options)?),
            Workload::External(options) => serde_json::to_value(external::run(options)?),
            Workload::Gstreamer(options) => serde_json::to_value(gstreamer::run(options, consort)?),
            Workload::Pipeline(options) => serde_json::to_value(pipeline::run(options, consort)?),
            Workload::Apply(options) => serde_json::to_value(group_file::apply(options, consort)?),
            Workload::GroupSwitches(options) => {
                serde_json::to_value(group_file::switches(options, consort)?)
            }
            Workload::Swaps(options) => serde_json::to_value(group_file::swaps(options, consort)?),
            Workload::Build(options) => serde_json::to_value(build::run(options)?),
            Workload::Switches(options) => serde_json::to_value(switches::run(options)?),
        }
        .map_err(Error::Json)
    })
}
