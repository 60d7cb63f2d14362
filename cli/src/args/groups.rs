// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of groups: files, what is in force, plans.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use consort_daemon::duration::parse_ns;

use super::Quiet;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort apply film.toml
  consort apply --check film.toml     # is it right? What would change?

`man consort-groups.toml` describes the file. What changes is printed: + comes, - goes, ~ becomes another.")]
pub struct ApplyArgs {
    /// The group file; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Only say whether the file is right and, where a daemon answers, what would change
    #[arg(long)]
    pub check: bool,

    /// What the file is called when it does not say so itself [default: its name without .toml]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    #[command(flatten)]
    pub quiet: Quiet,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort delete film
  sudo consort delete film --user 1000")]
pub struct DeleteArgs {
    /// What the group file is called, as `consort show` shows it
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Whose it is, by number; for root
    #[arg(long, value_name = "UID")]
    pub user: Option<u32>,

    #[command(flatten)]
    pub quiet: Quiet,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort show
  consort show film
  consort show --json | jq '.files[].groups[].doing'

A group runs (a member has a CPU), waits (one wants it), is beyond its share (it wants more than it may have now), sleeps,
is untriggered (it sleeps, and its plans stand still), or is unbound (no thread has a member's name).
The JSON has files, a list of: name, uid, groups: a list of name, number (as in traces), parent, function, class, rate,
period_ns, used, doing, members: a list of name, terms, rule, role (as in traces), count, bound, waiting, missed_vacant
(intervals while no thread had the name), threads: a list of name, uid, pid, tid, command, source
(announced, launched, rule), bound, refused, ps, role (or null): runs, awake, on, outside, blocked, state, control,
begins_in_ns, kept, missed, late_max_ns, ran_ns; strays: threads whose names no file has; and aside: files that could not be
restored, each with name, uid and why. `consort delete` ends one of these; a file of that name that is applied replaces it.")]
pub struct ShowArgs {
    /// Only the group file of that name
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum LanguageArg {
    /// A header for libconsort
    C,
    /// A module for the crate libconsort
    Rust,
    /// A module for the package libconsort
    Python,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort accessors film.toml --language c > film_groups.h
  consort accessors film.toml --language rust > src/film_groups.rs")]
pub struct AccessorsArgs {
    /// The group file; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The language of the program
    #[arg(long, value_enum)]
    pub language: LanguageArg,
}

#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Give a member a plan: when it is to run, from a frame schedule.
    ///
    /// The schedule is a file of delays in milliseconds, a line for each frame: from one frame's beginning to the next one's,
    /// the first from the trigger. A second column says how long the member may run for that frame; without it, it is
    /// the member's `interval`. The plan is refused if the rate that pays for the group has no time for it.
    ///
    /// It replaces the member's plan, and is kept until it is unloaded or the member goes. It begins when it is triggered.
    Load(PlanLoadArgs),
    /// Take a member's plan away.
    Unload(PlanArgs),
    /// Let the plans of a member's group begin now; a member's thread may do the same itself.
    Trigger(PlanArgs),
    /// Let the plans of a member's group stand still where they are.
    Pause(PlanArgs),
    /// Let the plans of a member's group go on.
    Resume(PlanArgs),
    /// Set the plans of a member's group to another place, from which they go on.
    Seek(PlanSeekArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort plan load frames.csv --member show
  consort plan load loop.csv --member show --repeat 400ms
  consort plan load frames.csv --check --length 4ms            # is it right?")]
pub struct PlanLoadArgs {
    /// The frame schedule; - is standard input
    #[arg(value_name = "FRAMES.csv")]
    pub file: PathBuf,

    /// The member of a group file of one's own
    #[arg(long, value_name = "MEMBER", required_unless_present = "check")]
    pub member: Option<String>,

    /// How long the member may run for each frame of which the schedule does not say it [default: its interval]
    #[arg(long, value_name = "DURATION", value_parser = parse_ns)]
    pub length: Option<u64>,

    /// Begin anew so long after the beginning, not before the last frame's end
    #[arg(long, value_name = "DURATION", value_parser = parse_ns)]
    pub repeat: Option<u64>,

    /// Also if the group's rate has no time for it
    #[arg(long)]
    pub anyway: bool,

    /// Only say whether the schedule is right; needs no daemon
    #[arg(long)]
    pub check: bool,

    #[command(flatten)]
    pub quiet: Quiet,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The member of a group file of one's own
    #[arg(value_name = "MEMBER")]
    pub member: String,
}

#[derive(Debug, Args)]
pub struct PlanSeekArgs {
    /// The member of a group file of one's own
    #[arg(value_name = "MEMBER")]
    pub member: String,

    /// How long after the beginning
    #[arg(value_name = "DURATION", value_parser = parse_ns)]
    pub at: u64,
}
