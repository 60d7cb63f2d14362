// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `consort sim`: what is written here is the manual.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use consort_sim::{
    mixes::Relation,
    scenario::{Configuration, KERNELS},
    setup::Kernel,
};

use crate::args::whole;

/// `consort sim` without one of its commands is no command.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run a scenario, and tell what each task got.
    ///
    /// A scenario is rt-app's JSON, with keys for what rt-app cannot say: domains and polls, the machine, cgroups,
    /// faults. The chapter docs/scenarios.md explains them; sim/scenarios has examples. The same scenario, seed and
    /// configuration give the same run, to the nanosecond, on any machine.
    Run(RunArgs),
    /// Run a scenario under two configurations, side by side.
    ///
    /// A configuration is a scheduler and tunables: `coop` is Consort as the scenario says, `fair` is Consort with
    /// nobody in a domain, `eevdf` is a model of the stock scheduler of the scenario's kernel, `rr` one of SCHED_RR;
    /// `rc` and `frc` are the rate-controlled algorithms from which Consort's reserved rates descend. Tunables follow
    /// behind commas: granularity=2ms, min-slice=200us, window=2ms for Consort; slice=1ms for eevdf; quantum=10ms
    /// for the others. Tunables alone mean coop.
    Compare(CompareArgs),
    /// Judge mixes: does everybody get what it is entitled to, and does joining a domain never cost?
    ///
    /// Each mix runs under Consort, under the model of the stock scheduler, and under Consort with nobody in a domain. A
    /// line says the least share of a task against what it is entitled to (by weights, nesting and masks), the longest wait
    /// against the stock scheduler's, share and lateness of members against the same programs on their own, and how far
    /// anybody was behind the fluid ideal. What does not hold follows.
    Mixes(MixesArgs),
    /// Run random scenarios with faults, on all CPUs, until one breaks a promise of the scheduler.
    ///
    /// Each seed is a scenario: a machine, tasks of all kinds, cgroups, domains, CPUs that go, weights and affinities
    /// that change, memory that is not there. One that breaks a promise is made smaller as long as it still does, and
    /// written to a file, with the command that replays it.
    Explore(ExploreArgs),
}

const SIM_EXIT_CODES: &str = "\
Exit codes: 0 done, 1 a file could not be read or written, 2 the command line or the scenario is wrong,
8 the run broke a promise of the scheduler, or a mix does not hold: the text says which, and when,
9 a reservation was refused: the text says whose, and why.";

#[derive(Debug, Args)]
#[command(after_long_help = run_help())]
pub struct RunArgs {
    /// The scenario
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,

    #[command(flatten)]
    pub choice: Choice,

    /// How to schedule: coop, fair, eevdf, rr, rc or frc, and tunables; `consort sim compare --help` says more
    #[arg(long = "as", value_name = "CONFIGURATION", default_value = "coop")]
    pub configuration: Configuration,

    /// Write the run's trace for `consort trace report` and `export`, as `consort trace record` does on machines
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,

    /// Print comma-separated values: a line for each task
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

fn run_help() -> String {
    format!(
        "\
Examples:
  consort sim run sim/scenarios/players.json
  consort sim run sim/scenarios/players.json --seed 7 --kernel 6.18
  consort sim run sim/scenarios/hog.json --report hog-report
  consort sim run sim/scenarios/hog.json --json | jq '.tasks[] | {{name, share_percent}}'

DIR of --report gets:
  index.html    tables and plots; nothing is fetched
  trace.json    open it at ui.perfetto.dev: who ran when, who waited, polls, due events
  summary.json  the same numbers as --json

{SIM_EXIT_CODES}"
    )
}

#[derive(Debug, Args)]
#[command(after_long_help = compare_help())]
pub struct CompareArgs {
    /// One configuration
    #[arg(value_name = "A")]
    pub one: Configuration,

    /// The other
    #[arg(value_name = "B")]
    pub other: Configuration,

    /// The scenario
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,

    #[command(flatten)]
    pub choice: Choice,

    /// With so many seeds, one after the other: means, their spread, and differences beyond it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,

    /// Print both summaries as JSON, under "a" and "b"; of several seeds, those of the first
    #[arg(long)]
    pub json: bool,

    /// Print comma-separated values: a line for each task, configuration and seed
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

fn compare_help() -> String {
    format!(
        "\
Examples:
  consort sim compare eevdf coop sim/scenarios/players.json
  consort sim compare coop coop,granularity=2ms sim/scenarios/hog.json --report granularity-report
  consort sim compare eevdf coop sim/scenarios/players.json --seeds 20
  consort sim compare eevdf coop sim/scenarios/players.json --seeds 20 --csv > players.csv
  consort sim compare eevdf coop sim/scenarios/hotplug.json --json | jq .a.limits

Below the two lines of a task are the differences, B less A; ! marks what is worse in B.

DIR of --report gets index.html with both, and the folders a and b with the trace and the summary of each.

{SIM_EXIT_CODES}"
    )
}

#[derive(Debug, Args)]
#[command(after_long_help = mixes_help())]
pub struct MixesArgs {
    /// Scenarios, or folders of them
    #[arg(value_name = "SCENARIO", required_unless_present = "generated")]
    pub files: Vec<PathBuf>,

    /// Also so many everyday mixes from seeds: desktops, audio, builds, browsers, servers, containers, rented shares
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub generated: u64,

    /// The first seed of these [default: 0], and another one for the scenarios
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub seed: Option<u64>,

    /// Write generated mixes that do not hold into this folder
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,

    /// Say all that does not hold
    #[arg(long)]
    pub all: bool,

    /// Run each mix once more, with a change that should make no difference, and say what it made: mask (of all CPUs), wrap
    /// (in a cgroup), idle (a task more that hardly runs), caches (two instead of one), later (latecomers 20 s later)
    #[arg(long, value_name = "CHANGE", conflicts_with = "json")]
    pub changed: Option<Relation>,

    /// Print everything as JSON, and the worst of each number
    #[arg(long)]
    pub json: bool,
}

fn mixes_help() -> String {
    format!(
        "\
Examples:
  consort sim mixes sim/scenarios/mixes
  consort sim mixes sim/scenarios/mixes/desktop.json --all
  consort sim mixes --generated 100 --seed 1 --save found
  consort sim mixes --generated 100 --json | jq .worst
  consort sim mixes --generated 100 --changed wrap

{SIM_EXIT_CODES}"
    )
}

#[derive(Debug, Args)]
#[command(after_long_help = explore_help())]
pub struct ExploreArgs {
    /// How many scenarios
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,

    /// Stop after so many minutes, however many scenarios that were
    #[arg(long, value_name = "M", value_parser = parse_minutes)]
    pub minutes: Option<f64>,

    /// The first seed [default: another one each time]
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub first: Option<u64>,

    /// Where the scenario that broke a promise is written to
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub save: PathBuf,

    /// Everyday mixes instead, in which nobody may be further behind the fluid ideal than its bound
    #[arg(long)]
    pub mixes: bool,

    /// The user-level host instead: members that are killed and stopped at any access to the memory that they share
    #[arg(long, conflicts_with_all = ["mixes", "jobs"])]
    pub user_level: bool,

    /// Processes at a time [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

fn explore_help() -> String {
    format!(
        "\
Examples:
  consort sim explore --minutes 3
  consort sim explore --first 1 --seeds 1000
  consort sim explore --first 4711 --seeds 1        one seed again

{SIM_EXIT_CODES}"
    )
}

fn parse_minutes(text: &str) -> Result<f64, String> {
    let minutes = text
        .parse()
        .ok()
        .filter(|minutes| (0.01..=100_000.0).contains(minutes));
    minutes.ok_or_else(|| "expected a number of minutes, such as 3 or 0.5".to_owned())
}

/// What a scenario leaves to the command line.
#[derive(Debug, Args)]
pub struct Choice {
    /// Another seed than the scenario's
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub seed: Option<u64>,

    /// Another kernel than the scenario's: 6.18 or 7.2
    #[arg(long, value_name = "VERSION", value_parser = parse_kernel)]
    pub kernel: Option<Kernel>,

    /// Write a page with plots, a trace and the numbers into this folder
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

fn parse_kernel(text: &str) -> Result<Kernel, String> {
    let known = KERNELS.iter().find(|(name, _)| *name == text);
    known
        .map(|(_, kernel)| *kernel)
        .ok_or_else(|| "expected 6.18 or 7.2: these are the kernels that are modelled".to_owned())
}
