// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of reserved rates: reservations, credits, classes.

use clap::{Args, Subcommand};
use consort_daemon::duration::parse_ns;

use crate::{
    rate::{self, Rate},
    reserve::{self, Whom},
};

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort reserve 4711 --class guaranteed --rate 0.3 --period 33ms
  consort reserve 4711 --class adaptive --rate 0.4       # another rate and class, at once
  consort reserve 4711 --class adaptive --rate auto:0.05-0.5
  consort reserve user.slice/films --class guaranteed --rate 0.5
  consort release 4711

Rates are 0.0001 to 1, or 0.01% to 100%; periods 1ms to 10s. What is reserved is printed.")]
pub struct ReserveArgs {
    /// A process, a thread of one, or a cgroup by its folder below /sys/fs/cgroup. Not 0, which would be this command, nor
    /// 1, which starts everything
    #[arg(value_name = "PID|TID|CGROUP", allow_negative_numbers = true)]
    pub whom: Whom,

    /// Reserve for this thread alone, even if the number is a process'
    #[arg(long)]
    pub thread: bool,

    /// Class to reserve in; see `consort class list`
    #[arg(long, value_name = "CLASS")]
    pub class: String,

    /// Nominal rate: a part of one CPU, such as 0.3 or 30%; auto or auto:LEAST-MOST follows demand
    #[arg(
        long,
        value_name = "RATE",
        allow_negative_numbers = true,
        value_parser = rate::parse
    )]
    pub rate: Rate,

    /// The time over which the rate is needed
    #[arg(long, value_name = "DURATION", value_parser = parse_ns, default_value = "30ms")]
    pub period: u64,

    #[command(flatten)]
    pub quiet: Quiet,
}

/// What changes something says what came of it, unless it shall not.
#[derive(Debug, Args)]
pub struct Quiet {
    /// Say nothing when it was done
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// The process, thread or cgroup that has the reservation
    #[arg(value_name = "PID|TID|CGROUP", allow_negative_numbers = true)]
    pub whom: Whom,

    /// The reservation is this thread's alone
    #[arg(long)]
    pub thread: bool,

    #[command(flatten)]
    pub quiet: Quiet,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort lend 4711 4712 0.2            # 4712 has 0.2 more, and 4711 has 0.2 less
  consort recollect 4711 4712 0.05      # a part of it
  consort recollect 4711 4712           # the rest")]
pub struct LendArgs {
    /// The process or thread that has the reservation
    #[arg(value_parser = reserve::parse_number, allow_negative_numbers = true)]
    pub from: i32,

    /// The process or thread that is to use a part of it
    #[arg(value_parser = reserve::parse_number, allow_negative_numbers = true)]
    pub to: i32,

    /// A part of one CPU, such as 0.2 or 20%
    #[arg(allow_negative_numbers = true, value_parser = rate::parse_fixed)]
    pub rate: f64,

    #[command(flatten)]
    pub quiet: Quiet,
}

#[derive(Debug, Args)]
pub struct RecollectArgs {
    /// The lender
    #[arg(value_parser = reserve::parse_number, allow_negative_numbers = true)]
    pub from: i32,

    /// The receiver
    #[arg(value_parser = reserve::parse_number, allow_negative_numbers = true)]
    pub to: i32,

    /// How much, such as 0.2 or 20% [default: all]
    #[arg(allow_negative_numbers = true, value_parser = rate::parse_fixed)]
    pub rate: Option<f64>,

    #[command(flatten)]
    pub quiet: Quiet,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort usage
  consort usage --json | jq '.reservations[] | select(.used[2] < .asked)'

The JSON is a list `reservations` of: reservation, uid, kind (process, thread, cgroup, group), number, command, class, asked (nominal
rate), lent and held (credits: lists of reservation, the other side's, and rate), given (effective rate while all want
the CPU, credits counted), period_ns, auto (the least and most of an automatic rate, or null), late_seconds (of the
last sixty, those in which it used all that it was given), suggested (a nominal rate that would suit its recent use), used (over the last second, ten seconds, minute; null
before there is something to tell), used_total_ns, threads.")]
pub struct UsageArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ClassArgs {
    #[command(subcommand)]
    pub command: ClassCommand,
}

#[derive(Debug, Subcommand)]
pub enum ClassCommand {
    /// Show the classes: capacity, and what is admitted, asked, given and used
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a class, or change one, without breaking what it has promised
    Set(ClassSetArgs),
    /// Remove a class that has no reservations
    Remove {
        /// Its name
        #[arg(value_name = "CLASS")]
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  sudo consort class set adaptive 15% --overbooking 0.7
  sudo consort class set guaranteed 60%
  sudo consort class set batch 5% --overbooking unlimited
  sudo consort class set study 10% --order frc

A class admits nominal rates up to its capacity * (1 + overbooking). All classes together have 99 % of the machine at most:
make one smaller before you enlarge another. What the classes leave is `flexible`. The change lasts until the
machine is restarted or /etc/consort/classes.toml changes; `consort keep` writes it there.")]
pub struct ClassSetArgs {
    /// Its name
    #[arg(value_name = "CLASS")]
    pub name: String,

    /// CPUs, such as 1.5, or a part of the machine, such as 50%
    #[arg(value_name = "CAPACITY", allow_negative_numbers = true)]
    pub capacity: String,

    /// What it promises beyond its capacity, as a part of it: 0.7, 70%, or unlimited
    #[arg(
        long,
        value_name = "PART",
        default_value = "0",
        allow_negative_numbers = true
    )]
    pub overbooking: String,

    /// Whose turn it is among its reservations: whose period ends first of those that are not ahead of their rates; or,
    /// for study, as 004's algorithms say: frc, by virtual time alone, or rc, whose period ends first by the clock. Can
    /// be changed while it has no reservations
    #[arg(long, default_value = "period", value_parser = ["period", "frc", "rc"])]
    pub order: String,
}
