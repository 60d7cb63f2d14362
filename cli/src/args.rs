// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: what is written here is the manual.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use consort_kernel::format_ns;
use consort_sim::duration::parse_ns;

use crate::{
    rate::{self, Rate},
    reserve::Whom,
    sim::args::SimCommand,
};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed for another reason than those below; the text says which
  2  the command line is wrong
  3  no daemon answers: start `consort serve`
  4  not permitted: run it as root
  5  this kernel cannot run the scheduler
  6  another daemon or another sched_ext scheduler is in charge
  7  the kernel ejected the scheduler for good; everything runs under the stock scheduler
  8  a simulated run broke a promise of the scheduler
  9  a simulated run refused a reservation
`consort run` exits as the command it starts: 126 when that cannot be run, 127 when it is not found.";

/// On-time and fair CPU scheduling for cooperating programs.
///
/// Consort is a CPU scheduler that is loaded into a stock Linux kernel (sched_ext). Programs that use libconsort
/// tell each other, through the scheduler, when each wants the CPU; all others share it fairly.
#[derive(Debug, Parser)]
#[command(name = "consort", version, after_long_help = concat_examples(), propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

fn concat_examples() -> String {
    format!(
        "\
Examples:
  sudo consort serve                    schedule everything, until Ctrl-C
  sudo consort serve --partial          schedule only programs that opt in
  consort status                        what is scheduled, and how it goes
  sudo consort set granularity 10ms     shorter turns for everybody
  consort run --domain video -- consort-play film.mp4
  consort sim run SCENARIO.json         what would this load get?

The daemon listens at /run/consort/consort.sock; CONSORT_SOCKET in the environment names another place.

{EXIT_CODES}"
    )
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Load the scheduler and serve programs until interrupted.
    ///
    /// Takes all tasks of the machine under the scheduler (with --partial: those that opt in) and logs to standard
    /// error. On Ctrl-C, SIGTERM or SIGHUP, and when it is killed, the kernel's stock scheduler takes over within
    /// a second and programs run on.
    ///
    /// When the kernel ejects the scheduler for a fault, such as a task that waited for too long, the daemon logs why,
    /// keeps the kernel's dump in a file, and loads the scheduler again after a pause. When the same happens again
    /// within ten minutes, or after too many restarts, it loads safe mode instead: fair shares, and neither domains nor
    /// reservations, until the daemon is restarted. When safe mode is ejected too, or somebody detaches the scheduler
    /// (SysRq-S), the daemon exits with code 7.
    Serve(ServeArgs),
    /// Show the scheduler's state, counters, domains and programs.
    ///
    /// Root sees everybody's domains and programs, others their own.
    Status(StatusArgs),
    /// Change how everybody is scheduled, while the scheduler runs.
    Set(SetArgs),
    /// Start a command under the scheduler, in a domain or with a rate of its own.
    ///
    /// The command is opted in to the scheduler, which matters with `serve --partial`, and what it starts inherits
    /// that. Programs that use libconsort and name no domain join DOMAIN. With --class, the command and all that
    /// it starts share a reservation, as with `consort reserve`.
    Run(RunArgs),
    /// Reserve a part of a CPU for a process, a thread or a cgroup, or change what it has reserved.
    ///
    /// The class admits the rate, or says what it has left. A process' threads, those to come and its future children
    /// share the rate. The reservation ends with `consort release`, or with the last of them; it outlives the
    /// daemon. A cgroup's is for all who are in it, or below it, and ends with the cgroup. Users reserve for their
    /// own, within their limits, root for all.
    Reserve(ReserveArgs),
    /// End a reservation.
    Release(ReleaseArgs),
    /// Lend a part of a reservation to another process or thread, until it is recollected.
    ///
    /// The receiver gets a reservation in the lender's class if it has none. Lent parts may be lent on. They come
    /// back with `consort recollect`, and when either side ends.
    Lend(LendArgs),
    /// Take back what was lent, or return it: the lender's owner may, and the receiver's.
    Recollect(RecollectArgs),
    /// Show what reservations asked for, get and use.
    ///
    /// Root sees everybody's, others their own.
    Usage(UsageArgs),
    /// Show or change how the machine is divided into classes.
    Class(ClassArgs),
    /// Try the scheduler in a simulated kernel: no root, no daemon, nothing of this machine changes.
    ///
    /// The scheduler's own program, compiled for this machine, runs against a model of the kernel, in virtual time.
    Sim {
        #[command(subcommand)]
        command: SimCommand,
    },
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man { folder: PathBuf },
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  sudo consort serve
  sudo consort serve --partial --log debug
  sudo consort serve --granularity 10ms --min-slice 200us")]
pub struct ServeArgs {
    /// Schedule only tasks that opt in: those of `consort run`, or with the policy SCHED_EXT. The kernel runs them
    /// after all others: for trying things out, not for being on time
    #[arg(long)]
    pub partial: bool,

    /// Time within which every runnable task gets its turn [default: the scheduler's, see `consort status`]
    #[arg(long, value_name = "DURATION", value_parser = parse_ns)]
    pub granularity: Option<u64>,

    /// Shortest slice, however many tasks there are [default: the scheduler's]
    #[arg(long, value_name = "DURATION", value_parser = parse_ns)]
    pub min_slice: Option<u64>,

    /// How the machine is divided into classes [default: /etc/consort/classes.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub classes: Option<PathBuf>,

    /// How often the scheduler is loaded again within ten minutes when the kernel ejects it; 0: the daemon exits instead
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub restarts: u32,

    /// How long a runnable task may wait until the kernel ejects the scheduler, from 5s to 30s
    #[arg(long = "watchdog", value_name = "DURATION", value_parser = parse_watchdog_ms, default_value = "30s")]
    pub watchdog_ms: u32,

    /// What to log: error, warn, info, debug or trace
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    pub log: LogLevel,
}

/// The kernel waits for 30 s at most. What is less than 5 s, real-time programs and a busy virtual machine's host take.
fn parse_watchdog_ms(text: &str) -> Result<u32, String> {
    const MS: std::ops::RangeInclusive<u64> = 5_000..=30_000;
    let ns = parse_ns(text)?;
    let ms = ns / 1_000_000;

    match u32::try_from(ms) {
        Ok(valid) if MS.contains(&ms) && ns % 1_000_000 == 0 => Ok(valid),
        _ => Err(format!(
            "{} is not in whole milliseconds from 5s to 30s",
            format_ns(ns)
        )),
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort status
  consort status --json | jq .counters.polls

The JSON has these fields; new ones may come, and `version` changes when one changes its meaning:
  version    of this layout: 1
  scheduler  state (running, exited), partial, kernel
  tunables   granularity_ns, min_slice_ns, window_ns
  counters   by name, since the scheduler was loaded, summed over CPUs; they only grow
  daemon     version, pid, uptime_s; clients, domains, members (now); connections, requests, refusals, joins,
             leaves, lost_members (since it started)
  division   cpus; classes, list of: name, capacity (CPUs), overbooking and admits (null: unlimited), order (period,
             frc, rc; null for flexible), asked (sum of nominal rates), given (sum of effective rates), used (CPUs over the
             last second; null for flexible), reservations
  domains    list of: id, name (null: private), uid, order, preempt, event_ns, members (thread numbers)
  clients    list of: connection, client, pid, uid, command, members (list of tid, slot, domain)")]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  sudo consort set granularity 10ms
  sudo consort set min-slice 200us

Ranges: granularity 100us to 1s, min-slice 10us to 100ms and at most the granularity.
The change lasts until the daemon ends.")]
pub struct SetArgs {
    /// What to change
    #[arg(value_enum)]
    pub tunable: Tunable,

    /// The new value, with its unit
    #[arg(value_name = "DURATION", value_parser = parse_ns)]
    pub value_ns: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Tunable {
    /// Time within which every runnable task gets its turn
    Granularity,
    /// Shortest slice, however many tasks there are
    MinSlice,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort run --domain video -- consort-play film.mp4
  consort run --class guaranteed --rate 0.3 --period 33ms -- ffplay film.mp4
  consort run -- make -j8

A domain belongs to its user: the same name of two users is two domains.")]
pub struct RunArgs {
    /// Domain for programs that name none: up to 63 letters, digits and punctuation of ASCII
    #[arg(long, value_name = "DOMAIN", conflicts_with = "class")]
    pub domain: Option<String>,

    /// Class to reserve in; see `consort class list`
    #[arg(long, value_name = "CLASS", requires = "rate")]
    pub class: Option<String>,

    /// Nominal rate: a part of one CPU, such as 0.3; auto or auto:LEAST-MOST follows demand
    #[arg(
        long,
        value_name = "RATE",
        requires = "class",
        allow_negative_numbers = true,
        value_parser = rate::parse
    )]
    pub rate: Option<Rate>,

    /// The time over which the rate is needed
    #[arg(long, value_name = "DURATION", value_parser = parse_ns, default_value = "30ms")]
    pub period: u64,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort reserve 4711 --class guaranteed --rate 0.3 --period 33ms
  consort reserve 4711 --class adaptive --rate 0.4       # another rate and class, at once
  consort reserve 4711 --class adaptive --rate auto:0.05-0.5
  consort reserve user.slice/films --class guaranteed --rate 0.5
  consort release 4711

Rates are 0.0001 to 1, periods 1ms to 10s.")]
pub struct ReserveArgs {
    /// A process, a thread of one, or a cgroup by its folder below /sys/fs/cgroup
    #[arg(value_name = "PID|TID|CGROUP", allow_negative_numbers = true)]
    pub whom: Whom,

    /// Reserve for this thread alone, even if the number is a process'
    #[arg(long)]
    pub thread: bool,

    /// Class to reserve in; see `consort class list`
    #[arg(long, value_name = "CLASS")]
    pub class: String,

    /// Nominal rate: a part of one CPU, such as 0.3; auto or auto:LEAST-MOST follows demand
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
}

#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// The process, thread or cgroup that has the reservation
    #[arg(value_name = "PID|TID|CGROUP", allow_negative_numbers = true)]
    pub whom: Whom,

    /// The reservation is this thread's alone
    #[arg(long)]
    pub thread: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort lend 4711 4712 0.2            # 4712 has 0.2 more, and 4711 has 0.2 less
  consort recollect 4711 4712 0.05      # a part of it
  consort recollect 4711 4712           # the rest")]
pub struct LendArgs {
    /// The process or thread that has the reservation
    pub from: i32,

    /// The process or thread that is to use a part of it
    pub to: i32,

    /// A part of one CPU, such as 0.2
    #[arg(allow_negative_numbers = true)]
    pub rate: f64,
}

#[derive(Debug, Args)]
pub struct RecollectArgs {
    /// The lender
    pub from: i32,

    /// The receiver
    pub to: i32,

    /// How much [default: all]
    #[arg(allow_negative_numbers = true)]
    pub rate: Option<f64>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort usage
  consort usage --json | jq '.reservations[] | select(.used[2] < .asked)'

The JSON is a list `reservations` of: reservation, uid, kind (process, thread), number, command, class, asked (nominal
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
make one smaller before you enlarge another. What the classes leave is `flexible`. The change lasts until the machine is restarted or /etc/consort/classes.toml changes.")]
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

#[cfg(test)]
mod tests {
    use super::{parse_ns, parse_watchdog_ms};
    use consort_kernel::format_ns;

    #[test]
    fn the_watchdog_is_within_what_the_kernel_takes() {
        assert_eq!(parse_watchdog_ms("5s"), Ok(5_000));
        assert_eq!(parse_watchdog_ms("30s"), Ok(30_000));
        for bad in ["4999ms", "30001ms", "5000001us", "50000000s", "soon"] {
            assert!(parse_watchdog_ms(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_that_are_shown_can_be_given_back() {
        for ns in [
            0,
            1,
            999,
            1_000,
            1_500,
            200_000,
            10_000_000,
            3_000_000_000,
            u64::MAX,
        ] {
            assert_eq!(parse_ns(&format_ns(ns)), Ok(ns));
        }
    }
}
