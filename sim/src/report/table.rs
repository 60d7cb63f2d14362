// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables: of one run, and of two side by side, for terminals.

use std::fmt::Write;

use super::summary::{Row, Summary};

/// With more tasks than this, a table has a line for all instances of a task.
const TASKS_MAX: usize = 24;

/// Of what the scheduler and the kernel knew when a promise was broken; the JSON has all.
const STATE_LINES_MAX: usize = 100;

/// Of what the daemon did not grant; the JSON has all.
const REFUSALS_MAX: usize = 10;

/// A column: its title, its unit, and what a row says there.
struct Column {
    title: &'static str,
    unit: &'static str,
    value: fn(&Row) -> String,
    /// Whether there is anything to say of any row.
    shown: fn(&Row) -> bool,
}

const COLUMNS: [Column; 9] = [
    Column {
        title: "share",
        unit: "% of a CPU",
        value: |row| format!("{:.2}", row.share_percent),
        shown: |_| true,
    },
    Column {
        title: "switches",
        unit: "per s",
        value: |row| format!("{:.1}", row.switches_per_s),
        shown: |_| true,
    },
    Column {
        title: "longest wait",
        unit: "ms",
        value: |row| format!("{:.3}", row.wait_max_ms),
        shown: |_| true,
    },
    Column {
        title: "due events",
        unit: "",
        value: |row| late(row, row.tardiness.count.to_string()),
        shown: |row| row.tardiness.count > 0,
    },
    Column {
        title: "tardiness",
        unit: "mean ms",
        value: |row| late(row, format!("{:.3}", row.tardiness.mean_ms)),
        shown: |row| row.tardiness.count > 0,
    },
    Column {
        title: "",
        unit: "p99 ms",
        value: |row| late(row, format!("{:.3}", row.tardiness.p99_ms)),
        shown: |row| row.tardiness.count > 0,
    },
    Column {
        title: "",
        unit: "max ms",
        value: |row| late(row, format!("{:.3}", row.tardiness.max_ms)),
        shown: |row| row.tardiness.count > 0,
    },
    Column {
        title: "frames",
        unit: "per s",
        value: |row| format!("{:.2}", row.frames_per_s),
        shown: |row| row.frames_per_s > 0.0,
    },
    Column {
        title: "polls",
        unit: "per s",
        value: |row| format!("{:.1}", row.polls_per_s),
        shown: |row| row.polls_per_s > 0.0,
    },
];

/// Nothing is said of the tardiness of who had no due event.
fn late(row: &Row, text: String) -> String {
    match row.tardiness.count {
        0 => "-".into(),
        _ => text,
    }
}

/// The rows that a table of `summary` has before the total.
fn rows(summary: &Summary) -> &[Row] {
    if summary.tasks.len() > TASKS_MAX {
        &summary.groups
    } else {
        &summary.tasks
    }
}

/// Cells of a table; the first line is the titles, the second the units.
pub(super) fn cells(rows: &[&Row]) -> Vec<Vec<String>> {
    let used = |column: &&Column| rows.iter().any(|row| (column.shown)(row));
    let columns: Vec<&Column> = COLUMNS.iter().filter(used).collect();
    let head = |text: fn(&Column) -> &'static str| -> Vec<String> {
        let texts = columns.iter().map(|column| text(column).to_owned());
        std::iter::once(String::new()).chain(texts).collect()
    };
    let mut table = vec![head(|column| column.title), head(|column| column.unit)];
    for row in rows {
        let values = columns.iter().map(|column| (column.value)(row));
        table.push(std::iter::once(row.name.clone()).chain(values).collect());
    }
    table
}

/// The table of one run, with what was remarkable.
pub fn table(summary: &Summary) -> String {
    let mut text = format!(
        "{}: {:.3} s, {} CPU{}, {:.2} % idle, {:.0} decisions/s\n\n",
        summary.title,
        summary.window_s,
        summary.cpus,
        if summary.cpus == 1 { "" } else { "s" },
        summary.idle_percent,
        summary.decisions_per_s,
    );
    let all: Vec<&Row> = rows(summary).iter().chain([&summary.total]).collect();
    text.push_str(&aligned(&cells(&all)));
    text.push_str(&remarks(summary));
    text
}

/// Two runs of one scenario: for each task, a line of each.
pub fn comparison(one: &Summary, other: &Summary) -> String {
    let mut text = format!(
        "A: {}: {:.2} % idle\nB: {}: {:.2} % idle\n\n",
        one.title, one.idle_percent, other.title, other.idle_percent
    );
    let labelled = |summary: &Summary, label: &str| -> Vec<Row> {
        let all = rows(summary).iter().chain([&summary.total]);
        all.map(|row| Row {
            name: format!("{} {label}", row.name),
            ..row.clone()
        })
        .collect()
    };
    let (a, b) = (labelled(one, "A"), labelled(other, "B"));
    let pairs: Vec<&Row> = a.iter().zip(&b).flat_map(|(a, b)| [a, b]).collect();
    text.push_str(&aligned(&cells(&pairs)));
    for summary in [one, other] {
        text.push_str(&remarks(summary));
    }
    text
}

fn remarks(summary: &Summary) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    for limit in &summary.limits {
        let _ = writeln!(text, "\n{}: note: {limit}", summary.title);
    }
    if summary.faults > 0 {
        let _ = writeln!(text, "\n{} faults were injected.", summary.faults);
    }
    for refusal in summary.refusals.iter().take(REFUSALS_MAX) {
        let _ = writeln!(text, "\n{}: refused: {refusal}", summary.title);
    }
    if let more @ 1.. = summary.refusals.len().saturating_sub(REFUSALS_MAX) {
        let _ = writeln!(text, "\n{}: refused: {more} more", summary.title);
    }
    if let Some(violation) = &summary.violation {
        let at_s = violation.at_ns as f64 / 1e9;
        let _ = writeln!(
            text,
            "\n{}: {} at {at_s:.9} s: {}",
            summary.title, violation.rule, violation.detail
        );
        for line in violation.state.iter().take(STATE_LINES_MAX) {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// The first column to the left, the others to the right.
fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = table.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in table {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::summary::tests::summary, trace::Violation};

    #[test]
    fn the_table_is_aligned_and_leaves_out_what_nobody_has() {
        let expected = "\
two, coop: 0.040 s, 1 CPU, 2.50 % idle, 200 decisions/s

          share  switches  longest wait  due events  tardiness                  frames  polls
     % of a CPU     per s            ms                mean ms  p99 ms  max ms   per s  per s
a         92.50      25.0         2.000           -          -       -       -    0.00    0.0
b          5.00      25.0        10.000           1      3.000   3.000   3.000   25.00   25.0
all       97.50      75.0        10.000           1      3.000   3.000   3.000   25.00   25.0
";
        assert_eq!(table(&summary()), expected);
    }

    #[test]
    fn two_runs_stand_line_below_line() {
        let (one, mut other) = (summary(), summary());
        other.title = "two, fair".into();
        let text = comparison(&one, &other);
        let starts: Vec<&str> = text
            .lines()
            .map(|line| &line[..line.len().min(5)])
            .collect();
        assert!(starts
            .windows(2)
            .any(|pair| pair[0].starts_with("b A") && pair[1].starts_with("b B")));
        assert!(text.contains("B: two, fair"));
    }

    #[test]
    fn a_violation_is_told() {
        let mut summary = summary();
        summary.violation = Some(Violation {
            at_ns: 1_500_000_000,
            rule: "lost-task",
            detail: "b".into(),
            state: vec!["CPU 0: idle".into()],
        });
        let told = "\ntwo, coop: lost-task at 1.500000000 s: b\n    CPU 0: idle\n";
        assert!(table(&summary).ends_with(told));
    }

    #[test]
    fn many_instances_are_one_line() {
        let mut summary = summary();
        let row = summary.tasks[0].clone();
        summary.tasks = vec![row; TASKS_MAX + 1];
        assert_eq!(
            table(&summary)
                .lines()
                .filter(|line| line.starts_with("a "))
                .count(),
            1
        );
    }
}
