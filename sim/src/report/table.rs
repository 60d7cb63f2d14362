// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of one run, for terminals.

use std::fmt::Write;

use super::summary::{Row, Summary};
use crate::groups::RoleTotal;

/// With more tasks than this, a table has a line for all instances of a task.
const TASKS_MAX: usize = 24;

/// Of what the scheduler and the kernel knew when a promise was broken; the JSON has all.
const STATE_LINES_MAX: usize = 100;

/// Of what the daemon did not grant; the JSON has all.
const REFUSALS_MAX: usize = 10;

/// Which way a number should go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Good {
    Less,
    More,
    /// That depends.
    Neither,
}

/// A column: its title, its unit, and the number of a row.
pub(super) struct Column {
    pub title: &'static str,
    pub unit: &'static str,
    /// In a file of comma-separated values.
    pub field: &'static str,
    pub amount: fn(&Row) -> f64,
    pub decimals: usize,
    /// Nothing is said of who had no due event.
    pub of_due_events: bool,
    pub good: Good,
}

impl Column {
    const fn new(
        [title, unit, field]: [&'static str; 3],
        decimals: usize,
        amount: fn(&Row) -> f64,
        good: Good,
    ) -> Column {
        Column {
            title,
            unit,
            field,
            amount,
            decimals,
            of_due_events: false,
            good,
        }
    }

    const fn of_due_events(self) -> Column {
        Column {
            of_due_events: true,
            ..self
        }
    }

    /// Whether there is anything to say of a row.
    pub fn says(&self, row: &Row) -> bool {
        match self.of_due_events {
            true => row.tardiness.count > 0,
            false => self.is_always_shown() || (self.amount)(row) > 0.0,
        }
    }

    fn is_always_shown(&self) -> bool {
        matches!(
            self.field,
            "share_percent" | "switches_per_s" | "wait_max_ms"
        )
    }

    fn value(&self, row: &Row) -> String {
        match self.of_due_events && row.tardiness.count == 0 {
            true => "-".to_owned(),
            false => self.number((self.amount)(row)),
        }
    }

    pub fn number(&self, amount: f64) -> String {
        format!("{amount:.*}", self.decimals)
    }
}

pub(super) const COLUMNS: [Column; 9] = [
    Column::new(
        ["share", "% of a CPU", "share_percent"],
        2,
        |row| row.share_percent,
        Good::Neither,
    ),
    Column::new(
        ["switches", "per s", "switches_per_s"],
        1,
        |row| row.switches_per_s,
        Good::Neither,
    ),
    Column::new(
        ["longest wait", "ms", "wait_max_ms"],
        3,
        |row| row.wait_max_ms,
        Good::Less,
    ),
    Column::new(
        ["due events", "", "due_events"],
        0,
        |row| row.tardiness.count as f64,
        Good::Neither,
    )
    .of_due_events(),
    Column::new(
        ["tardiness", "mean ms", "tardiness_mean_ms"],
        3,
        |row| row.tardiness.mean_ms,
        Good::Less,
    )
    .of_due_events(),
    Column::new(
        ["", "p99 ms", "tardiness_p99_ms"],
        3,
        |row| row.tardiness.p99_ms,
        Good::Less,
    )
    .of_due_events(),
    Column::new(
        ["", "max ms", "tardiness_max_ms"],
        3,
        |row| row.tardiness.max_ms,
        Good::Less,
    )
    .of_due_events(),
    Column::new(
        ["frames", "per s", "frames_per_s"],
        2,
        |row| row.frames_per_s,
        Good::More,
    ),
    Column::new(
        ["polls", "per s", "polls_per_s"],
        1,
        |row| row.polls_per_s,
        Good::Neither,
    ),
];

/// The rows that a table of `summary` has before the total.
pub(super) fn rows(summary: &Summary) -> &[Row] {
    if summary.tasks.len() > TASKS_MAX {
        &summary.groups
    } else {
        &summary.tasks
    }
}

/// The columns that say something of one of `rows`.
pub(super) fn used_columns(rows: &[&Row]) -> Vec<&'static Column> {
    let used = |column: &&Column| rows.iter().any(|row| column.says(row));
    COLUMNS.iter().filter(used).collect()
}

/// Titles, and units.
pub(super) fn head(columns: &[&Column]) -> Vec<Vec<String>> {
    let line = |text: fn(&Column) -> &'static str| -> Vec<String> {
        let texts = columns.iter().map(|column| text(column).to_owned());
        std::iter::once(String::new()).chain(texts).collect()
    };
    vec![line(|column| column.title), line(|column| column.unit)]
}

/// Cells of a table; the first line is the titles, the second the units.
pub(super) fn cells(rows: &[&Row]) -> Vec<Vec<String>> {
    let columns = used_columns(rows);
    let mut table = head(&columns);
    for row in rows {
        let values = columns.iter().map(|column| column.value(row));
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

/// What became of a role's intervals, in a line.
fn intervals(role: &RoleTotal) -> String {
    let missed = &role.missed;
    let causes = [
        (missed.vacant, "nobody was there"),
        (missed.asleep, "it slept"),
        (missed.outside, "it had no seat"),
        (missed.share, "its group was ahead of its share"),
        (missed.others, "others were due"),
    ];
    let causes = causes.iter().filter(|(count, _)| *count > 0);
    let causes: Vec<String> = causes
        .map(|(count, why)| format!("{count} as {why}"))
        .collect();
    let mut text = format!(
        "{}/{}: {} of {} intervals kept, {:.3} ms late on average, {:.3} at most",
        role.group,
        role.task,
        role.kept,
        role.kept + missed.all(),
        role.late_mean_ms,
        role.late_max_ms,
    );
    if !causes.is_empty() {
        text.push_str("; missed: ");
        text.push_str(&causes.join(", "));
    }
    text
}

pub(super) fn remarks(summary: &Summary) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    for limit in &summary.limits {
        let _ = writeln!(text, "\n{}: note: {limit}", summary.title);
    }
    let planned = |it: &&RoleTotal| it.kept + it.missed.all() > 0;
    for (index, role) in summary.roles.iter().filter(planned).enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{gap}{}", intervals(role));
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
pub(super) fn aligned(table: &[Vec<String>]) -> String {
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
