// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort trace report`.

use std::fmt::Write as _;

use consort_trace::{read, Blame, Histogram, Miss, Reason, Report};

use super::args::ReportArgs;
use crate::{
    failure::Failure,
    status::print,
    table::{count, short_time, Paint, Side, Table},
};

/// Threads in a table.
const LINES: usize = 20;
/// Columns of the longest bar.
const BAR: u64 = 40;

pub fn report(args: &ReportArgs) -> Result<(), Failure> {
    let trace = read(&args.wanted.file)?;
    let mut report = Report::of(&trace, &args.wanted.filter(&trace)?);
    match args.json {
        true => print(&format!("{:#}\n", report.to_json())),
        false => print(&describe(&mut report, args.histograms, Paint::for_stdout())),
    }
}

fn describe(report: &mut Report, histograms: bool, paint: Paint) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = writeln!(
        out,
        "{}: {}, {} switches, {} wake-ups",
        report.system,
        short_time(report.span_ns),
        report.switches,
        report.wakes
    );
    for part in [
        waits(report, paint),
        tardiness(report, paint),
        intervals(report, paint),
        labels(report, paint),
    ] {
        if !part.is_empty() {
            let _ = write!(out, "\n{part}");
        }
    }
    if histograms {
        out.push_str(&bars(report, paint));
    }
    out.push_str(&missing(report, paint));
    out
}

/// Who waited, and for whom.
fn waits(report: &mut Report, paint: Paint) -> String {
    let mut table = Table::new(&[
        ("waited", Side::Left),
        ("thread", Side::Right),
        ("ran", Side::Right),
        ("times", Side::Right),
        ("mean", Side::Right),
        ("p99", Side::Right),
        ("longest", Side::Right),
        ("who had the CPU", Side::Left),
    ]);
    let rows = report
        .threads
        .iter()
        .filter(|it| it.waited.waits_ns.count() > 0);
    let number = rows.clone().count();
    for it in rows.take(LINES) {
        let mut waits_ns = it.waited.waits_ns.clone();
        table.row(vec![
            it.command.clone(),
            it.tid.to_string(),
            short_time(it.waited.ran_ns),
            waits_ns.count().to_string(),
            time(waits_ns.mean() as i64),
            time(waits_ns.percentile(99)),
            time(waits_ns.max()),
            blamed(report, &it.waited.blame),
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    let more = number.saturating_sub(LINES);
    match more {
        0 => table.text(paint),
        _ => format!(
            "{}and {} more\n",
            table.text(paint),
            count(more as u64, "thread")
        ),
    }
}

/// The two who had most.
fn blamed(report: &Report, blame: &Blame) -> String {
    let all = blame.sorted();
    let sum: u128 = all.iter().map(|(_, ns)| u128::from(*ns)).sum();
    let words = all.iter().take(2).map(|(it, ns)| {
        let percent = u128::from(*ns) * 100 / sum.max(1);
        match it.reason {
            Reason::Idle => format!("{percent} % nobody"),
            Reason::Interrupt => format!("{percent} % interrupts"),
            reason => format!("{percent} % {} ({})", report.who(it.tid), reason.word()),
        }
    });
    words.collect::<Vec<_>>().join("; ")
}

/// How late due events began, and who was demoted.
fn tardiness(report: &mut Report, paint: Paint) -> String {
    let mut table = Table::new(&[
        ("due events of", Side::Left),
        ("thread", Side::Right),
        ("number", Side::Right),
        ("late by", Side::Right),
        ("p99", Side::Right),
        ("most", Side::Right),
        ("demoted", Side::Right),
        ("last because it", Side::Left),
    ]);
    for it in &mut report.threads {
        if it.tardiness_ns.count() == 0 && it.demotions == 0 {
            continue;
        }
        table.row(vec![
            it.command.clone(),
            it.tid.to_string(),
            it.tardiness_ns.count().to_string(),
            time(it.tardiness_ns.mean() as i64),
            time(it.tardiness_ns.percentile(99)),
            time(it.tardiness_ns.max()),
            it.demotions.to_string(),
            it.why.to_owned(),
        ]);
    }
    table.text_if_any(paint)
}

/// What became of the intervals of groups' members.
fn intervals(report: &mut Report, paint: Paint) -> String {
    let mut table = Table::new(&[
        ("intervals of", Side::Left),
        ("thread", Side::Right),
        ("kept", Side::Right),
        ("began late by", Side::Right),
        ("p99", Side::Right),
        ("most", Side::Right),
        ("FDTE-S p95", Side::Right),
        ("FDTE-C p95", Side::Right),
        ("missed", Side::Right),
        ("dropped", Side::Right),
        ("missed because", Side::Left),
    ]);
    for it in &mut report.roles {
        let causes = it.missed.iter();
        let causes: Vec<String> = causes
            .map(|(why, count)| format!("{count} {}", missed_because(*why)))
            .collect();
        table.row(vec![
            it.label.to_string(),
            // Nobody has played it.
            Some(it.tid)
                .filter(|tid| *tid != 0)
                .map_or_else(String::new, |tid| tid.to_string()),
            it.kept.to_string(),
            time(it.late_ns.mean() as i64),
            time(it.late_ns.percentile(99)),
            time(it.late_ns.max()),
            time(it.started_ns.percentile(95)),
            time(it.completed_ns.percentile(95)),
            it.missed.values().sum::<u64>().to_string(),
            it.dropped.to_string(),
            causes.join("; "),
        ]);
    }
    table.text_if_any(paint)
}

fn missed_because(why: Miss) -> &'static str {
    match why {
        Miss::Vacant => "no thread had its name",
        Miss::Asleep => "it slept",
        Miss::Outside => "it had no seat",
        Miss::Share => "its group had had its share",
        Miss::Others => "other due events had the CPU",
    }
}

/// Programs' own values.
fn labels(report: &mut Report, paint: Paint) -> String {
    let mut table = Table::new(&[
        ("event", Side::Left),
        ("number", Side::Right),
        ("mean", Side::Right),
        ("p50", Side::Right),
        ("p95", Side::Right),
        ("p99", Side::Right),
        ("most", Side::Right),
    ]);
    for it in &mut report.labels {
        let is_time = it.label.is_time();
        let shown = |value: i64| shown(value, is_time);
        let values: &mut Histogram = &mut it.values;
        let mean = match is_time {
            true => time(values.mean() as i64),
            false => format!("{:.2}", values.mean()),
        };
        table.row(vec![
            it.label.to_string(),
            values.count().to_string(),
            mean,
            shown(values.percentile(50)),
            shown(values.percentile(95)),
            shown(values.percentile(99)),
            shown(values.max()),
        ]);
    }
    table.text_if_any(paint)
}

/// A bar for each octave of each label.
fn bars(report: &Report, paint: Paint) -> String {
    let mut out = String::new();
    for it in &report.labels {
        let octaves = it.values.octaves();
        let most = octaves
            .iter()
            .map(|(_, count)| *count)
            .max()
            .unwrap_or(1)
            .max(1);
        let _ = writeln!(out, "\n{}", paint.heading(it.label.as_str()));
        for (below, count) in octaves {
            let bar = "#".repeat((count * BAR).div_ceil(most) as usize);
            let line = format!(
                "  below {:>10}  {count:>8}  {bar}",
                shown(below, it.label.is_time())
            );
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
    out
}

/// What is not there.
fn missing(report: &Report, paint: Paint) -> String {
    let mut out = String::new();
    let mut say = |text: &str| {
        let _ = writeln!(out, "\n{}", paint.bad(text));
    };
    for (source, lost) in report.lost.iter().filter(|(_, lost)| **lost > 0) {
        let why = match *source {
            "scheduler" => "the recorder came too late: record fewer kinds, with --only",
            "programs" => "a program wrote more than its ring holds, or what is no event",
            _ => "the file had its full length: ask for --limit more",
        };
        say(&format!(
            "{} lost ({source}): {why}",
            count(*lost, "record")
        ));
    }
    if report.strange > 0 {
        say(&format!(
            "{} of no known kind",
            count(report.strange, "record")
        ));
    }
    if !report.is_whole {
        say("the trace ends early: its recorder was killed, and what is lost is not known");
    }
    out
}

fn time(ns: i64) -> String {
    match u64::try_from(ns) {
        Ok(ns) => short_time(ns),
        Err(_) => format!("-{}", short_time(ns.unsigned_abs())),
    }
}

fn shown(value: i64, is_time: bool) -> String {
    match is_time {
        true => time(value),
        false => value.to_string(),
    }
}
