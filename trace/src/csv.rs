// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace as comma-separated values: a line for each record.

use std::io::{self, Write};

use crate::{
    record::{Record, What},
    Filter, Threads, Trace,
};

const HEAD: &str = "time_ns,kind,cpu,tid,pid,command,other_tid,left,reason,label,value\n";

/// Writes the records that `filter` wants. What the columns mean is in docs/reference/trace.md.
///
/// # Errors
/// `to` cannot be written to.
pub fn write_csv(trace: &Trace, filter: &Filter, mut to: impl Write) -> io::Result<()> {
    let mut threads = Threads::default();
    let (begin_ns, _) = trace.span_ns();
    to.write_all(HEAD.as_bytes())?;
    for record in trace.records() {
        threads.follow(&record);
        if filter.keeps(&record, record.at_ns - begin_ns, &threads) {
            write_line(&record, &threads, &mut to)?;
        }
    }
    to.flush()
}

/// What each kind has in the columns from `other_tid` on.
fn columns(record: &Record) -> (&'static str, Option<i32>, &'static str, String, &str, i64) {
    let clipped = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let none = String::new;
    match &record.what {
        What::Switch {
            prev_tid,
            left,
            reason,
            interrupted_ns,
            ..
        } => {
            let reason = reason.word().to_owned();
            (
                "switch",
                Some(*prev_tid),
                left.word(),
                reason,
                "",
                clipped(*interrupted_ns),
            )
        }
        What::Wake { by_tid, is_new, .. } => {
            ("wake", Some(*by_tid), "", none(), "", i64::from(*is_new))
        }
        What::Demote { why, late_us } => {
            let reason = why_word(*why).to_owned();
            ("demote", None, "", reason, "", i64::from(*late_us) * 1000)
        }
        What::Due { due_ns } => {
            let late_ns = clipped(record.at_ns.saturating_sub(*due_ns));
            ("due", None, "", none(), "", late_ns)
        }
        What::Event { label, value } => ("event", None, "", none(), label.as_str(), *value),
        What::Lost { source, count } => (
            "lost",
            None,
            "",
            source.word().to_owned(),
            "",
            clipped(*count),
        ),
        What::End => ("end", None, "", none(), "", 0),
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

fn write_line(record: &Record, threads: &Threads, to: &mut impl Write) -> io::Result<()> {
    let (kind, other_tid, left, reason, label, value) = columns(record);
    let number = |number: Option<i64>| number.map_or_else(String::new, |it| it.to_string());
    writeln!(
        to,
        "{},{kind},{},{},{},{},{},{left},{reason},{},{value}",
        record.at_ns,
        number(record.cpu.map(i64::from)),
        record.tid,
        record.pid,
        quoted(threads.command(record.tid)),
        number(other_tid.map(i64::from)),
        quoted(label),
    )
}

/// As RFC 4180 says. What a spreadsheet would take for a formula is a text: programs choose their names.
fn quoted(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    if !is_formula && !text.contains([',', '"', '\n']) {
        return text.to_owned();
    }
    let prefix = if is_formula { "'" } else { "" };
    format!("\"{prefix}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{file::tests::event, report::tests::traced, waits::tests::two_tasks};

    fn lines(records: &[Record], filter: &Filter) -> Vec<String> {
        let mut text = Vec::new();
        write_csv(&traced(records), filter, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn each_record_is_a_line() {
        let mut records = two_tasks();
        records.push(event(500, -3));
        let lines = lines(&records, &Filter::default());
        assert_eq!(lines[0], "100,switch,0,1,1,task1,0,preempted,slice,,0");
        assert_eq!(lines[1], "150,wake,0,2,2,task2,0,,,,0");
        assert_eq!(lines[5], "500,event,,7,7,,,,,test/value,-3");
        assert_eq!(lines.len(), 6);
    }

    #[test]
    fn filters_hold() {
        let filter = Filter {
            kinds: "wake".parse().unwrap(),
            ..Filter::default()
        };
        assert_eq!(lines(&two_tasks(), &filter).len(), 1);
    }

    #[test]
    fn names_cannot_break_lines_nor_be_formulas() {
        assert_eq!(quoted("a,b\"c"), "\"a,b\"\"c\"");
        assert_eq!(quoted("=1+1"), "\"'=1+1\"");
        assert_eq!(quoted("plain name"), "plain name");
    }
}
