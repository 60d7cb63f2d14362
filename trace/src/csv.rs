// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace as comma-separated values: a line for each record.

use std::io::{self, Write};

use crate::{
    table::{each_row, TableRow},
    Filter, Trace,
};

const HEAD: &str =
    "time_ns,kind,cpu,tid,pid,command,other_tid,left,reason,label,value,from_ns,until_ns\n";

/// Writes the records that `filter` wants. What the columns mean is in docs/reference/trace.md.
///
/// # Errors
/// `to` cannot be written to.
pub fn write_csv(trace: &Trace, filter: &Filter, mut to: impl Write) -> io::Result<()> {
    to.write_all(HEAD.as_bytes())?;
    each_row(trace, filter, |row| write_line(&row, &mut to))?;
    to.flush()
}

fn write_line(row: &TableRow, to: &mut impl Write) -> io::Result<()> {
    let time = |ns: Option<i64>| ns.map_or_else(String::new, |it| it.to_string());
    let number = |number: Option<i32>| number.map_or_else(String::new, |it| it.to_string());
    writeln!(
        to,
        "{},{},{},{},{},{},{},{},{},{},{},{},{}",
        row.time_ns,
        row.kind,
        number(row.cpu),
        row.tid,
        row.pid,
        quoted(row.command),
        number(row.other_tid),
        row.left,
        row.reason,
        quoted(row.label),
        row.value,
        time(row.from_ns),
        time(row.until_ns),
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
    use crate::{
        file::tests::event,
        interval::tests::{interval, name},
        report::tests::traced,
        waits::tests::two_tasks,
        Became, Miss, Record,
    };

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
        assert_eq!(lines[0], "100,switch,0,1,1,task1,0,preempted,slice,,0,,");
        assert_eq!(lines[1], "150,wake,0,2,2,task2,0,,,,0,,");
        assert_eq!(lines[5], "500,event,,7,7,,,,,test/value,-3,,");
        assert_eq!(lines.len(), 6);
    }

    /// Its role has a name wherever the trace says it.
    #[test]
    fn an_interval_has_its_times_and_its_cause() {
        let why = Miss::Share;
        let mut records: Vec<Record> = [
            Became::Began { late_ns: 7 },
            Became::Kept,
            Became::Missed(why),
            Became::Passed { count: 3, why },
        ]
        .map(|became| interval(300, became))
        .into();
        records.push(name("video/decoder"));
        let lines = lines(&records, &Filter::default());
        let expected = [
            "300,interval,0,1,0,,,began,,video/decoder,7,100,200",
            "300,interval,0,1,0,,,kept,,video/decoder,1,100,200",
            "300,interval,0,1,0,,,missed,share,video/decoder,1,100,200",
            "300,interval,0,1,0,,,missed,share,video/decoder,3,,",
            "1000,role,,0,0,,,,,video/decoder,0,,",
        ];
        assert_eq!(lines, expected);
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
