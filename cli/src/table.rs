// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables for people: columns that are as wide as what is in them, and colours where a terminal shows them.

use std::{
    env,
    io::{self, IsTerminal},
};

/// Whether to colour.
#[derive(Debug, Clone, Copy)]
pub struct Paint(pub bool);

impl Paint {
    /// On a terminal, unless NO_COLOR (no-color.org) says otherwise.
    pub fn for_stdout() -> Paint {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Paint(wanted && io::stdout().is_terminal())
    }

    pub fn heading(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Somebody should look at it.
    pub fn bad(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        match self.0 {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// Where a column's texts are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// Rows under headings.
pub struct Table {
    columns: Vec<(&'static str, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&'static str, Side)]) -> Table {
        Table {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// A text for each column.
    pub fn row(&mut self, row: Vec<String>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All lines; nothing if there are only headings.
    pub fn text_if_any(&self, paint: Paint) -> String {
        match self.is_empty() {
            true => String::new(),
            false => self.text(paint),
        }
    }

    /// All lines, each with its end.
    pub fn text(&self, paint: Paint) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells
                .max()
                .unwrap_or_default()
                .max(self.columns[column].0.len())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded = cells
                .zip(&widths)
                .zip(&self.columns)
                .map(|((cell, width), (_, side))| match side {
                    Side::Left => format!("{cell:<width$}"),
                    Side::Right => format!("{cell:>width$}"),
                });
            let padded: Vec<String> = padded.collect();
            padded.join("  ").trim_end().to_owned()
        };
        let heading = line(&mut self.columns.iter().map(|(name, _)| *name));
        let mut text = format!("{}\n", paint.heading(&heading));
        for row in &self.rows {
            text.push_str(&line(&mut row.iter().map(String::as_str)));
            text.push('\n');
        }
        text
    }
}

/// `1 member`, `2 members`.
pub fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// A time for people, to three digits: `12.3 us`, `4.56 ms`, `1.20 s`.
pub fn short_time(ns: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("s", 1e9), ("ms", 1e6), ("us", 1e3)];
    let ns = ns as f64;
    let (unit, scale) = UNITS
        .into_iter()
        .find(|(_, scale)| ns >= *scale * 0.9995)
        .unwrap_or(UNITS[2]);
    let value = ns / scale;
    let decimals = match value {
        _ if value >= 99.95 => 0,
        _ if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_texts() {
        let mut table = Table::new(&[("name", Side::Left), ("n", Side::Right)]);
        table.row(vec!["a".into(), "1".into()]);
        table.row(vec!["longer".into(), "200".into()]);
        assert_eq!(
            table.text(Paint(false)),
            "name      n\na         1\nlonger  200\n"
        );
        assert!(table.text(Paint(true)).starts_with("\x1b[1mname"));
    }

    #[test]
    fn numbers_and_times_are_as_people_write_them() {
        assert_eq!(count(1, "member"), "1 member");
        assert_eq!(count(0, "member"), "0 members");
        for (ns, text) in [
            (0, "0.00 us"),
            (1_234, "1.23 us"),
            (12_345, "12.3 us"),
            (999_900, "1.00 ms"),
            (123_456_789, "123 ms"),
            (1_200_000_000, "1.20 s"),
        ] {
            assert_eq!(short_time(ns), text);
        }
    }
}
