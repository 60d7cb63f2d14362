// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs as comma-separated values: a line for each task of each run, for spreadsheets and statistics.

use super::{summary::Summary, table::COLUMNS};

/// The names of the fields.
pub fn csv_head() -> String {
    let columns = COLUMNS.iter().map(|column| column.field);
    let fields: Vec<&str> = ["configuration", "seed", "task"]
        .into_iter()
        .chain(columns)
        .collect();
    fields.join(",") + "\n"
}

/// One run, by task and in sum. An empty field: there is nothing to say.
pub fn csv(configuration: &str, seed: u64, summary: &Summary) -> String {
    let mut text = String::new();
    for row in summary.tasks.iter().chain([&summary.total]) {
        let mut fields = vec![quoted(configuration), seed.to_string(), quoted(&row.name)];
        fields.extend(COLUMNS.iter().map(|column| {
            match column.of_due_events && row.tardiness.count == 0 {
                true => String::new(),
                false => (column.amount)(row).to_string(),
            }
        }));
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

/// Configurations have commas in them (RFC 4180).
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::tests::summary;

    #[test]
    fn every_line_has_every_field() {
        let text = csv_head() + &csv("coop,window=2ms", 7, &summary());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].starts_with("configuration,seed,task,share_percent"));
        assert!(
            lines[1].starts_with("\"coop,window=2ms\",7,a,92.5,25,2,,,,,"),
            "{}",
            lines[1]
        );
        let commas = |line: &str| line.matches(',').count();
        assert_eq!(commas(lines[0]) + 1, commas(lines[1]));
    }
}
