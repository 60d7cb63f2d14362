// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: what is written here is the manual.

use std::{ffi::OsString, path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand, ValueEnum};
use consort_daemon::{config::DEFAULT_PATH, duration::parse_ns};
use consort_kernel::format_ns;

pub use self::{demo::*, df::*, groups::*, rates::*};
use crate::{
    rate::{self, Rate},
    sim::args::SimCommand,
    trace::args::TraceCommand,
};

mod demo;
mod df;
mod groups;
mod rates;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed for another reason than those below; the text says which
  2  the command line is wrong, or a file written by hand that it names; for `serve`, sources and records of `df` also if
     that cannot be read
  3  no daemon answers: start `consort serve`
  4  not permitted: run it as root
  5  this kernel cannot run the scheduler
  6  another daemon or another sched_ext scheduler is in charge
  7  the kernel ejected the scheduler for good; everything runs under the stock scheduler
  8  a simulated run broke a promise of the scheduler, or a mix does not hold
  9  a simulated run refused a reservation
`consort run` and `consort trace record` exit as the command that they start: 126 when that cannot be run, 127 when it is not found.";

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
  sudo consort set granularity 2ms      shorter turns for everybody
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
    /// error. On Ctrl-C and SIGTERM, and when it is killed, the kernel's stock scheduler takes over within a second and
    /// programs run on. On SIGHUP it reads the file of classes and limits again: all of it but [scheduler], which counts
    /// from the next start, holds from then on, or nothing changes and the log says what is wrong.
    ///
    /// When the kernel ejects the scheduler for a fault, such as a task that waited for too long, the daemon logs why,
    /// keeps the kernel's dump in a file, and loads the scheduler again after a pause. When the same happens again
    /// within ten minutes, or after too many restarts, it loads safe mode instead: fair shares, and neither domains nor
    /// reservations, until the daemon is restarted. When safe mode is ejected too, or somebody detaches the scheduler
    /// (SysRq-S), the daemon exits with code 7.
    Serve(ServeArgs),
    /// Show the scheduler's state, domains and programs: how late each is, and why it was demoted.
    ///
    /// Root sees everybody's domains and programs, others their own.
    Status(StatusArgs),
    /// Am I late, and who is to blame? Look on for a while, under whatever scheduler is in charge.
    ///
    /// Shows which threads waited long for a CPU, for how long, who had it meanwhile and why: its slice, a due event,
    /// borrowed, reserved, real time, interrupts. Changes nothing; needs root, and no daemon. Under another scheduler than
    /// Consort it cannot tell why somebody had its turn.
    Late(LateArgs),
    /// Record what the scheduler does and what programs say of themselves, on one clock; look at it afterwards.
    Trace {
        #[command(subcommand)]
        command: TraceCommand,
    },
    /// Play real video by several players on one CPU: without cooperation, with it, and in one process.
    ///
    /// So many players that one CPU has time for two thirds of them; each leaves out pictures to keep up. They cooperate in
    /// the kernel's scheduler where a daemon answers, else among themselves, at user level. Nothing of this machine changes,
    /// and whatever else runs on it disturbs them. Takes less than two minutes.
    Demo(DemoArgs),
    /// Change how everybody is scheduled, while the scheduler runs.
    Set(SetArgs),
    /// Start a command under the scheduler, in a domain or with a rate of its own.
    ///
    /// The command is opted in to the scheduler, which matters with `serve --partial`, and what it starts inherits
    /// that. Programs that use libconsort and name no domain join DOMAIN. With --class, the command and all that
    /// it starts share a reservation, as with `consort reserve`; with both, the domain has a seat in that reservation.
    ///
    /// It needs a daemon. Without one, programs cooperate at user level: CONSORT_DOMAIN=DOMAIN COMMAND...
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
    /// Put a group file in force: which threads are together, what they may use, and whose turn it is.
    ///
    /// All of it, or nothing: what changes from what the file said before is done and printed, and nothing else. Threads are
    /// members by their names, whether they have begun already or not. It holds until it is deleted, also when the daemon is
    /// restarted. Groups belong to their user.
    Apply(ApplyArgs),
    /// End what a group file describes; its threads run on as all others.
    Delete(DeleteArgs),
    /// Show groups and their members: who runs, who waits, which threads have the names, and why nobody runs.
    ///
    /// Root sees everybody's, others their own.
    Show(ShowArgs),
    /// Give members plans, and let them begin.
    Plan {
        #[command(subcommand)]
        command: PlanCommand,
    },
    /// Print accessors of a group file's state and control variables, for a program's source.
    Accessors(AccessorsArgs),
    /// Decision functions of one's own: a small C source says whose turn it is in a group.
    Df {
        #[command(subcommand)]
        command: DfCommand,
    },
    /// Keep what was set at run time: write classes, limits and tunables as they are now into the operator's file.
    ///
    /// The file is written anew: comments go, parts of the machine such as "50%" become the CPUs that they are on this
    /// machine, and names of Unix groups their numbers. What was there before is kept beside it, as FILE.bak.
    Keep(KeepArgs),
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
    /// Write completions for bash, zsh and fish into a folder, under the names by which these find them
    #[command(hide = true)]
    Completions { folder: PathBuf },
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  sudo consort serve
  sudo consort serve --partial --log debug
  sudo consort serve --granularity 2ms --min-slice 200us
  consort serve --check                                   # is /etc/consort/classes.toml right? Nothing is loaded
  consort serve --check new.toml                          # another file")]
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

    /// Take over from the daemon that runs, which may be of another version: scheduler, programs and reservations stay.
    /// A scheduler of another build, or with other options, is exchanged: programs are with the stock scheduler meanwhile,
    /// some milliseconds
    #[arg(long)]
    pub replace: bool,

    /// How the machine is divided into classes [default: /etc/consort/classes.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub classes: Option<PathBuf>,

    /// Only say whether this file of classes is right, and how it divides this machine; needs no root [default: that of
    /// --classes]
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub check: Option<Option<PathBuf>>,

    /// How often the scheduler is loaded again within ten minutes when the kernel ejects it; 0: the daemon exits instead
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>, allow_negative_numbers = true)]
    pub restarts: u32,

    /// How long a runnable task may wait until the kernel ejects the scheduler, from 5s to 30s
    #[arg(long = "watchdog", value_name = "DURATION", value_parser = parse_watchdog_ms, default_value = "30s")]
    pub watchdog_ms: u32,

    /// What to log: error, warn, info, debug or trace
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    pub log: LogLevel,
}

/// A number of things.
///
/// # Errors
/// A text that says what was expected.
pub fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    let expected = || format!("{text:?} is no whole number: expected one such as 3");
    text.parse().map_err(|_| expected())
}

/// A duration that is not 0.
///
/// # Errors
/// A text that says what was expected.
pub fn some_time(text: &str) -> Result<u64, String> {
    match parse_ns(text)? {
        0 => Err(format!("{text} is no time: expected one such as 10s")),
        ns => Ok(ns),
    }
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
  consort status --watch
  consort status --json | jq .counters.polls

For each member: CPU time since the thread started; due events dispatched in the last 10 s, and by how much they were late
(those that expire while the member has the CPU are not seen); how often it was demoted since it joined, and why last.

The JSON has these fields; new ones may come, and `version` changes when one changes its meaning:
  version    of this layout: 1
  scheduler  null without a daemon; else state (running, exited), mode (full, safe), partial, kernel, identity (names its
             build and how it was loaded: a daemon with the same one takes it over without a gap)
  tunables   granularity_ns, min_slice_ns, window_ns
  counters   by name, since the scheduler was loaded, summed over CPUs; they only grow
  daemon     version, pid, uptime_s; clients, domains, members (now); connections, requests, refusals, joins,
             leaves, lost_members (since it started)
  ejections  count (since the daemon started); last (or null): mode, kind, reason, message, at_s (since 1970), dump
  users      list, at most a hundred, the busiest first, of: uid, programs, members, domains, reservations, reserved (sum of
             nominal rates), descriptors, pages, messages, bytes, refusals, cpu_us (of the daemon's CPU time)
  journal_error  what the disk said when the daemon could not keep what is reserved, or null
  division   cpus; classes, list of: name, capacity (CPUs), overbooking and admits (null: unlimited), order (period,
             frc, rc; null for flexible), asked (sum of nominal rates), given (sum of effective rates), used (CPUs over the
             last second; null for flexible), reservations
  domains    list of: id, name (null: private), uid, order, preempt, event_ns, members (thread numbers)
  clients    list of: connection, client, pid, uid, command, members (list of tid, slot, domain, used_ns, why (or null),
             tardiness (or null): events, mean_ns, p99_ns, max_ns of the last 10 s; demotions, why, why_late_ns)
  user_level list of domains without a kernel scheduler: name, uid, host, order, event_ns, handovers, skipped,
             readmitted, died, locks_taken_over, members (list of pid, tid, state, yields, skipped)
Without a daemon there are only scheduler and user_level.")]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Show the scheduler's counters, too, and what each counts
    #[arg(long)]
    pub counters: bool,

    /// Show it again every two seconds, until interrupted
    #[arg(long)]
    pub watch: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  sudo consort late                        # everybody, for ten seconds
  sudo consort late --for 1min 4711        # one process
  sudo consort late --over 200us --json | jq '.tasks[0].blame'

A wait begins when a thread wakes, or loses the CPU while it still wants it, and ends when it has one; what goes on from
before looking on began, or still when it ends, counts as far as it was seen. Whoever ran meanwhile where it waited is to
blame, for as long as that was: on the CPU in whose queue it was for longest, or, as Consort has no queues of single CPUs, on
the one that it got. Of each wait that CPU's last 64 switches are remembered.
The JSON has: version, time_ns, over_ns, switches, unseen (long waits that could not be kept), tasks: a list of
tid, pid, command, waits, sum_ns, max_ns, long (number of long waits), blame: a list of pid, command, why (idle, interrupt,
deadline, real time, stock slice, slice, due event, borrowed, reserved), words, ns.")]
pub struct LateArgs {
    /// Only the threads of this process
    #[arg(value_name = "PID", value_parser = crate::reserve::parse_number, allow_negative_numbers = true)]
    pub pid: Option<i32>,

    /// For how long to look on
    #[arg(long = "for", value_name = "DURATION", value_parser = some_time, default_value = "10s")]
    pub time: u64,

    /// From how long on a wait is long
    #[arg(long, value_name = "DURATION", value_parser = parse_ns, default_value = "1ms")]
    pub over: u64,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  sudo consort set granularity 2ms      # shorter turns: everybody waits less, and switches more often
  sudo consort set granularity 10ms     # longer turns than the default, 4ms
  sudo consort set min-slice 200us

Ranges: granularity 100us to 1s, min-slice 10us to 100ms and at most the granularity.
The change lasts until the daemon ends; `consort keep` makes it last.")]
pub struct SetArgs {
    /// What to change
    #[arg(value_enum)]
    pub tunable: Tunable,

    /// The new value, with its unit
    #[arg(value_name = "DURATION", value_parser = parse_ns)]
    pub value_ns: u64,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  sudo consort keep                        # the next daemon starts with what holds now
  consort keep - | less                    # what would be written")]
pub struct KeepArgs {
    /// Where to write it; - is standard output
    #[arg(value_name = "FILE", default_value = DEFAULT_PATH)]
    pub file: PathBuf,
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
  consort run --domain video --class guaranteed --rate 0.5 -- consort-play film.mp4
  consort run --name logger -- rsyslogd -n           # a member of a group file
  consort run -- make -j8

A domain belongs to its user: the same name of two users is two domains.")]
pub struct RunArgs {
    /// Domain for programs that name none: up to 63 letters, digits and punctuation of ASCII
    #[arg(long, value_name = "DOMAIN")]
    pub domain: Option<String>,

    /// Class to reserve in; see `consort class list`
    #[arg(long, value_name = "CLASS", requires = "rate")]
    pub class: Option<String>,

    /// Nominal rate: a part of one CPU, such as 0.3 or 30%; auto or auto:LEAST-MOST follows demand
    #[arg(
        long,
        value_name = "RATE",
        requires = "class",
        allow_negative_numbers = true,
        value_parser = rate::parse
    )]
    pub rate: Option<Rate>,

    /// The time over which the rate is needed [default: 30ms]
    #[arg(
        long,
        value_name = "DURATION",
        requires = "class",
        value_parser = parse_ns
    )]
    pub period: Option<u64>,

    /// What the command's threads are called in group files
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
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
