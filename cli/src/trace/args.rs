// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `consort trace`: what is written here is the manual.

use std::{ffi::OsString, path::PathBuf};

use clap::{ArgGroup, Args, Subcommand};
use consort_daemon::duration::parse_ns;
use consort_kernel::format_ns;
use consort_trace::{Filter, Kinds, Threads, Trace, What};

use crate::{args::some_time, failure::Failure, table::short_time};

/// Where traces are if nobody says so.
const FILE: &str = "consort.trace";

/// `consort trace` without one of its commands is no command.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Record what happens while a command runs, or for a while, into a file.
    ///
    /// Records each switch of each CPU, why the next thread was picked, wake-ups, members that were demoted, and what
    /// became of the intervals of groups' members, of the whole machine, under whatever scheduler is in charge; and of
    /// the command and all that it starts, their own events (`consort_trace_event`) and when their due events began.
    /// Nothing waits for the recorder: where there is no room, records are counted as lost, and the count is in the
    /// file.
    Record(RecordArgs),
    /// Say what a trace holds: who waited for whom, how late due events were, which intervals were missed and why, how
    /// values are spread.
    Report(ReportArgs),
    /// Write a trace as comma-separated values, or for Perfetto (ui.perfetto.dev).
    Export(ExportArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  sudo consort trace record -- consort-play film.mp4
  sudo consort trace record -o a.trace -- runuser -u alice -- make -j8     # the command need not be root's
  sudo consort trace record --for 5s                                       # what runs already
  consort trace record --only event,due -- ./program                       # its own events alone: needs no root

Recording the scheduler needs root. It exits as COMMAND does; 126 when that cannot be run, 127 when it is not found.
Ctrl-C ends COMMAND, and the trace with it.")]
pub struct RecordArgs {
    /// Where to write the trace
    #[arg(short, long, value_name = "FILE", default_value = FILE)]
    pub output: PathBuf,

    /// Without a command: for how long [default: until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = some_time, conflicts_with = "command")]
    pub time: Option<u64>,

    /// Only these kinds of records, with commas between them: switch, wake, demote, interval (the scheduler's), due,
    /// event (the command's own)
    #[arg(
        long,
        value_name = "KINDS",
        default_value = "switch,wake,demote,interval,due,event"
    )]
    pub only: Kinds,

    /// How long the file may grow, in MiB; what would be more is counted as lost
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub limit: u64,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What to look at of a trace.
#[derive(Debug, Args)]
pub struct Wanted {
    /// The trace
    #[arg(value_name = "FILE", default_value = FILE)]
    pub file: PathBuf,

    /// Only these kinds of records, with commas between them: switch, wake, demote, interval, due, event
    #[arg(long, value_name = "KINDS")]
    pub only: Option<Kinds>,

    /// Only the thread or process of that number, or threads whose names contain this
    #[arg(long, value_name = "THREAD")]
    pub of: Option<String>,

    /// Of programs' events, only those whose FAMILY/NAME begins with this
    #[arg(long, value_name = "LABEL")]
    pub label: Option<String>,

    /// Only from this time on after the first record
    #[arg(long, value_name = "DURATION", value_parser = parse_ns)]
    pub from: Option<u64>,

    /// Only up to this time after the first record
    #[arg(long, value_name = "DURATION", value_parser = parse_ns)]
    pub to: Option<u64>,
}

impl Wanted {
    /// What is wanted of the trace.
    ///
    /// # Errors
    /// [`Failure::FromAfterTo`]; [`Failure::NothingFits`] when the trace has no such thread, label or time: an answer about
    /// nothing would look like good news.
    pub fn filter(&self, trace: &Trace) -> Result<Filter, Failure> {
        let all = Filter::default();
        let filter = Filter {
            kinds: self.only.unwrap_or(all.kinds),
            of: self.of.clone(),
            label: self.label.clone(),
            from_ns: self.from.unwrap_or(all.from_ns),
            to_ns: self.to.unwrap_or(all.to_ns),
        };
        if filter.from_ns > filter.to_ns {
            let (from_ns, to_ns) = (filter.from_ns, filter.to_ns);
            return Err(Failure::FromAfterTo { from_ns, to_ns });
        }
        match self.missing_in(trace) {
            None => Ok(filter),
            Some(text) => Err(Failure::NothingFits {
                file: self.file.clone(),
                text,
            }),
        }
    }

    /// The first option that nothing in the trace fits, and what would.
    fn missing_in(&self, trace: &Trace) -> Option<String> {
        let (begin_ns, end_ns) = trace.span_ns();
        let span_ns = end_ns.saturating_sub(begin_ns);
        if let Some(from_ns) = self.from.filter(|from_ns| *from_ns > span_ns) {
            let (from, span) = (format_ns(from_ns), short_time(span_ns));
            return Some(format!("--from {from}: it ends after {span}"));
        }
        let of = self.of.as_ref().map(|of| Filter {
            of: Some(of.clone()),
            ..Filter::default()
        });
        if let Some(filter) = of.filter(|filter| !has_any(trace, filter, |_| true)) {
            let of = filter.of.unwrap_or_default();
            return Some(format!(
                "--of {of}: expected the number of a thread or process in it, or a part of a thread's name"
            ));
        }
        let label = self.label.as_ref().map(|label| Filter {
            label: Some(label.clone()),
            ..Filter::default()
        });
        let is_event = |what: &What| matches!(what, What::Event { .. });
        let filter = label.filter(|filter| !has_any(trace, filter, is_event))?;
        let label = filter.label.unwrap_or_default();
        Some(format!(
            "--label {label}: expected how the FAMILY/NAME of an event in it begins"
        ))
    }
}

fn has_any(trace: &Trace, filter: &Filter, counts: impl Fn(&What) -> bool) -> bool {
    let mut threads = Threads::default();
    trace.records().any(|record| {
        threads.follow(&record);
        let tells = !matches!(
            record.what,
            What::Lost { .. } | What::Role { .. } | What::End
        );
        tells && counts(&record.what) && filter.keeps(&record, 0, &threads)
    })
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort trace report
  consort trace report --of play --histograms films.trace
  consort trace report --json | jq '.threads[0].blame'

A wait begins when a thread wakes, or loses its CPU while it still wants one, and ends when it has one. Whoever ran on
that CPU meanwhile is to blame, for as long as that was. A due event is late by the time from when it was due to when
its program began it. An interval of a group's member is kept if its thread has run in it or has said that it is done,
missed for a cause if not, and dropped if another one took its place before it was over. Its FDTE-S is the time from its
beginning until its thread ran, its FDTE-C that until its thread slept for the first time afterwards.
The JSON has: version, system, simulated, span_ns, switches, wakes, threads: a list of tid, pid, command, ran_ns, switches,
preemptions, waits_ns, blame (a list of tid, command, why, ns), tardiness_ns, demotions, why; intervals: a list of group,
member, tid, kept, missed (by cause: vacant, asleep, outside, share, others), dropped, late_ns, fdte_s_ns,
fdte_c_ns; events: a list of family,
name, values, octaves (a list of below, count); lost (by source: scheduler, programs, file), strange (records of no known
kind), whole (the recorder came to its end). waits_ns, tardiness_ns, late_ns, fdte_s_ns, fdte_c_ns and values
have: count, mean, p50, p95, p99, max.")]
pub struct ReportArgs {
    #[command(flatten)]
    pub wanted: Wanted,

    /// Draw how the values of each label are spread, too
    #[arg(long)]
    pub histograms: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("form").required(true))]
#[command(after_long_help = "\
Examples:
  consort trace export --perfetto -o trace.json      # open it at ui.perfetto.dev
  consort trace export --csv --only event films.trace > events.csv
  consort trace export --parquet -o films.parquet films.trace       # pandas.read_parquet(\"films.parquet\")

docs/reference/trace.md says what the columns of the values are, and what a trace file holds.")]
pub struct ExportArgs {
    #[command(flatten)]
    pub wanted: Wanted,

    /// Comma-separated values: a line for each record
    #[arg(long, group = "form")]
    pub csv: bool,

    /// Apache Parquet: the same columns with their types, compressed, for data frames
    #[arg(long, group = "form")]
    pub parquet: bool,

    /// The JSON trace event format: a track for each CPU and thread, a counter for each label
    #[arg(long, group = "form")]
    pub perfetto: bool,

    /// Where to write it; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}
