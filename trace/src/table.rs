// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace as a table: a row for each record. What the columns mean is in docs/reference/trace.md.

use crate::{
    record::{Record, What},
    Became, Filter, Interval, Label, Miss, Roles, Threads, Trace,
};

/// The columns of a record.
pub(crate) struct TableRow<'a> {
    pub time_ns: u64,
    pub kind: &'static str,
    pub cpu: Option<i32>,
    pub tid: i32,
    pub pid: i32,
    pub command: &'a str,
    pub other_tid: Option<i32>,
    /// Empty where the kind has none, as the texts below.
    pub left: &'static str,
    pub reason: &'static str,
    pub label: &'a str,
    pub value: i64,
    /// Of an interval.
    pub from_ns: Option<i64>,
    pub until_ns: Option<i64>,
}

/// Hands each record that `filter` wants to `take`.
///
/// # Errors
/// Those of `take`.
pub(crate) fn each_row<E>(
    trace: &Trace,
    filter: &Filter,
    mut take: impl FnMut(TableRow) -> Result<(), E>,
) -> Result<(), E> {
    let mut threads = Threads::default();
    let roles = Roles::of(trace);
    let (begin_ns, _) = trace.span_ns();
    for record in trace.records() {
        threads.follow(&record);
        if filter.keeps(&record, record.at_ns - begin_ns, &threads) {
            let label = label_of(&record, &roles);
            let label = label.as_ref().map_or("", Label::as_str);
            take(row(&record, threads.command(record.tid), label))?;
        }
    }
    Ok(())
}

fn label_of(record: &Record, roles: &Roles) -> Option<Label> {
    match &record.what {
        What::Event { label, .. } | What::Role { label, .. } => Some(label.clone()),
        What::Interval(interval) => Some(roles.label(interval.of)),
        _ => None,
    }
}

fn clipped(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn row<'a>(record: &Record, command: &'a str, label: &'a str) -> TableRow<'a> {
    let plain = TableRow {
        time_ns: record.at_ns,
        kind: "end",
        cpu: record.cpu.map(i32::from),
        tid: record.tid,
        pid: record.pid,
        command,
        other_tid: None,
        left: "",
        reason: "",
        label,
        value: 0,
        from_ns: None,
        until_ns: None,
    };
    match &record.what {
        What::Switch {
            prev_tid,
            left,
            reason,
            interrupted_ns,
            ..
        } => TableRow {
            kind: "switch",
            other_tid: Some(*prev_tid),
            left: left.word(),
            reason: reason.word(),
            value: clipped(*interrupted_ns),
            ..plain
        },
        What::Wake { by_tid, is_new, .. } => TableRow {
            kind: "wake",
            other_tid: Some(*by_tid),
            value: i64::from(*is_new),
            ..plain
        },
        What::Demote { why, late_us } => TableRow {
            kind: "demote",
            reason: why_word(*why),
            value: i64::from(*late_us) * 1000,
            ..plain
        },
        What::Due { due_ns } => TableRow {
            kind: "due",
            value: clipped(record.at_ns.saturating_sub(*due_ns)),
            ..plain
        },
        What::Event { value, .. } => TableRow {
            kind: "event",
            value: *value,
            ..plain
        },
        What::Interval(interval) => row_of_interval(interval, plain),
        What::Role { .. } => TableRow {
            kind: "role",
            ..plain
        },
        What::Lost { source, count } => TableRow {
            kind: "lost",
            reason: source.word(),
            value: clipped(*count),
            ..plain
        },
        What::End => plain,
    }
}

fn row_of_interval<'a>(interval: &Interval, plain: TableRow<'a>) -> TableRow<'a> {
    let value = match interval.became {
        Became::Began { late_ns } => clipped(late_ns),
        Became::Passed { count, .. } => i64::from(count),
        _ => 1,
    };
    let is_known = !matches!(interval.became, Became::Passed { .. });
    TableRow {
        kind: "interval",
        left: interval.became.word(),
        reason: interval.became.why().map_or("", Miss::word),
        value,
        from_ns: is_known.then(|| clipped(interval.from_ns)),
        until_ns: is_known.then(|| clipped(interval.until_ns)),
        ..plain
    }
}

/// `enum consort_why`, in the words of `consort status`.
pub(crate) fn why_word(why: u32) -> &'static str {
    match why {
        consort_abi::CONSORT_WHY_POLLED_LATE => "polled too late",
        consort_abi::CONSORT_WHY_SLEPT => "slept outside of poll",
        _ => "unknown",
    }
}
