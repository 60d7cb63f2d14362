// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads that measure a scheduler. Each prints one line of JSON: what was asked, which scheduler was
//! in charge before and after with its counters, and the result.

use clap::{Parser, Subcommand};
use consort_bench_player::error::Error;
use consort_bench_player::{films, fleet, micro, moves, native, processes, report, scenario, work};
use serde_json::{json, Value};

/// Synthetic players and small workloads that measure a scheduler
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Path of the consort command: records `consort status --json` before and after
    #[arg(long, global = true)]
    consort: Option<String>,
    /// Stay on this CPU, with all children
    #[arg(long, global = true)]
    cpu: Option<usize>,
    /// Instructions of work in a microsecond; the default is that of an instruction-counted guest
    #[arg(long, global = true, default_value_t = work::GUEST_INSTRUCTIONS_PER_US)]
    instructions_per_us: u64,
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// Adaptive players and bystanders: tardiness, frame rates, CPU shares
    Fleet(fleet::FleetOptions),
    /// Real video, played by consort-play: tardiness, frame rates
    Films(films::Options),
    /// Adaptive players on this machine's kernel: stock scheduler, user level and one process in turn
    Native(native::Options),
    /// Adaptive players while a daemon comes and goes
    Moves(moves::Options),
    /// A scenario of the simulator, by processes
    Scenario(scenario::Options),
    #[command(flatten)]
    Micro(micro::Micro),
    /// Measures how many instructions of work this machine executes in a microsecond
    Calibrate,
}

fn main() -> std::process::ExitCode {
    report::print("consort-bench-player", run(Cli::parse()))
}

fn run(cli: Cli) -> Result<Value, Error> {
    if let Some(cpu) = cli.cpu {
        processes::pin_to_cpu(cpu)?;
    }
    work::set_instructions_per_us(cli.instructions_per_us);
    report::around(cli.consort.as_deref(), || {
        match cli.workload {
            Workload::Fleet(options) => serde_json::to_value(fleet::run(options)?),
            Workload::Films(options) => serde_json::to_value(films::run(options)?),
            Workload::Native(options) => serde_json::to_value(native::run(options)?),
            Workload::Moves(options) => serde_json::to_value(moves::run(options)?),
            Workload::Scenario(options) => Ok(scenario::run(&options)?),
            Workload::Micro(workload) => Ok(micro::run(workload)?),
            Workload::Calibrate => Ok(json!({ "instructions_per_us": work::calibrate() })),
        }
        .map_err(Error::Json)
    })
}
