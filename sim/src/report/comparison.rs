// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two configurations side by side: what each came to, what the difference is, and what got worse. With several seeds,
//! means and their spread.

use std::fmt::Write;

use super::{
    summary::{Row, Summary},
    table::{aligned, head, remarks, rows, used_columns, Column, Good},
};

/// Of the number itself: a difference of less is none.
const NOTHING: f64 = 0.01;
/// Behind what got worse.
const WORSE: &str = " !";

/// One or several runs of a configuration, which differ in their seeds; at least one.
type Runs<'a> = &'a [Summary];

/// For each task a line of each configuration, and one of the differences. Both have been run with the same seeds.
pub fn comparison(one: Runs, other: Runs) -> String {
    let mut text = String::new();
    for (label, runs) in [("A", one), ("B", other)] {
        let idle = runs.iter().map(|run| run.idle_percent).sum::<f64>() / runs.len() as f64;
        let seeds = match runs.len() {
            1 => String::new(),
            seeds => format!(", {seeds} seeds"),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{label}: {}: {idle:.2} % idle{seeds}", runs[0].title);
    }
    text.push('\n');
    let (a, b) = (by_row(one), by_row(other));
    let all: Vec<&Row> = a.iter().chain(&b).flatten().copied().collect();
    let columns = used_columns(&all);
    let mut table = head(&columns);
    let mut is_worse = false;
    for (a, b) in a.iter().zip(&b) {
        let name = &a[0].name;
        table.push(line(format!("{name} A"), &columns, |column| {
            said(column, a)
        }));
        table.push(line(format!("{name} B"), &columns, |column| {
            said(column, b)
        }));
        table.push(line(format!("{name} B-A"), &columns, |column| {
            let (text, worse) = difference(column, a, b);
            is_worse |= worse;
            text
        }));
    }
    text.push_str(&aligned(&table));
    if one.len() > 1 {
        text.push_str("\n(means, and +- their standard deviation from seed to seed)\n");
    }
    if is_worse {
        text.push_str(
            "\n!: B is worse, by more than a hundredth and, of several seeds, than the spread\n",
        );
    }
    for runs in [one, other] {
        text.push_str(&remarks(&runs[0]));
    }
    text
}

/// By row of a table, that row in each run.
fn by_row<'a>(runs: Runs<'a>) -> Vec<Vec<&'a Row>> {
    let of = |run: &'a Summary| -> Vec<&'a Row> { rows(run).iter().chain([&run.total]).collect() };
    let all: Vec<Vec<&Row>> = runs.iter().map(of).collect();
    let shortest = all.iter().map(Vec::len).min().unwrap_or_default();
    (0..shortest)
        .map(|row| all.iter().map(|run| run[row]).collect())
        .collect()
}

fn line(
    name: String,
    columns: &[&'static Column],
    mut cell: impl FnMut(&'static Column) -> String,
) -> Vec<String> {
    let cells = columns.iter().map(|column| cell(column));
    std::iter::once(name).chain(cells).collect()
}

/// Mean and standard deviation.
fn spread(amounts: &[f64]) -> (f64, f64) {
    let number = amounts.len() as f64;
    let mean = amounts.iter().sum::<f64>() / number;
    let squares = amounts.iter().map(|amount| (amount - mean).powi(2));
    let deviation = match amounts.len() {
        0 | 1 => 0.0,
        _ => (squares.sum::<f64>() / (number - 1.0)).sqrt(),
    };
    (mean, deviation)
}

fn amounts(column: &Column, rows: &[&Row]) -> Vec<f64> {
    let said = rows
        .iter()
        .filter(|row| !column.of_due_events || row.tardiness.count > 0);
    said.map(|row| (column.amount)(row)).collect()
}

fn said(column: &Column, rows: &[&Row]) -> String {
    let amounts = amounts(column, rows);
    match amounts.len() {
        0 => "-".to_owned(),
        1 => column.number(amounts[0]),
        _ => {
            let (mean, deviation) = spread(&amounts);
            format!("{} +-{}", column.number(mean), column.number(deviation))
        }
    }
}

/// What B has more than A, and whether that is worse.
fn difference(column: &Column, a: &[&Row], b: &[&Row]) -> (String, bool) {
    let (a, b) = (amounts(column, a), amounts(column, b));
    if a.is_empty() || a.len() != b.len() {
        return ("-".to_owned(), false);
    }
    let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b - a).collect();
    let (mean, deviation) = spread(&differences);
    // What does not show is no difference.
    let shown = mean.abs() * 10f64.powi(column.decimals as i32) >= 0.5;
    let sign = if shown && mean > 0.0 { "+" } else { "" };
    let mut text = format!("{sign}{}", column.number(if shown { mean } else { 0.0 }));
    if differences.len() > 1 {
        text.push_str(&format!(" +-{}", column.number(deviation)));
    }
    let (before, _) = spread(&a);
    let counts = shown && mean.abs() > NOTHING * before.abs() && mean.abs() > deviation;
    let worse = counts
        && match column.good {
            Good::Less => mean > 0.0,
            Good::More => mean < 0.0,
            Good::Neither => false,
        };
    if worse {
        text.push_str(WORSE);
    }
    (text, worse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::tests::summary;

    fn later(by_ms: f64) -> Summary {
        let mut summary = summary();
        summary.tasks[1].tardiness.mean_ms += by_ms;
        summary
    }

    #[test]
    fn differences_are_printed_and_what_got_worse_is_marked() {
        let text = comparison(&[summary()], &[later(2.0)]);
        let line = |start: &str| {
            let found = text.lines().find(|line| line.starts_with(start));
            found
                .unwrap_or_else(|| panic!("no {start} in:\n{text}"))
                .to_owned()
        };
        assert!(line("b A").contains("3.000") && line("b B").contains("5.000"));
        assert!(line("b B-A").contains("+2.000 !"), "{text}");
        assert!(!line("a B-A").contains('!'), "{text}");
        assert!(text.contains("!: B is worse"), "{text}");
        let better = comparison(&[later(2.0)], &[summary()]);
        assert!(
            better.contains("-2.000") && !better.contains('!'),
            "{better}"
        );
    }

    #[test]
    fn with_several_seeds_only_what_is_beyond_the_spread_is_worse() {
        let same = [summary(), summary()];
        let clear = comparison(&same, &[later(2.0), later(2.2)]);
        assert!(clear.contains("+2.100 +-0.141 !"), "{clear}");
        let noise = comparison(&same, &[later(3.0), later(-2.0)]);
        assert!(!noise.contains('!'), "{noise}");
        assert!(noise.contains("2 seeds"), "{noise}");
    }
}
