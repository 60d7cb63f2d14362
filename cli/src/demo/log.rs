// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the players' logs say.

use std::{collections::BTreeMap, fs, ops::Range, path::PathBuf};

use serde_json::Value;

use super::DemoFailure;

/// Of the players of one round, within a window.
#[derive(Default)]
pub struct Figures {
    /// Of each player.
    pub frames_per_s: Vec<f64>,
    /// Of all due events, in order.
    late_ns: Vec<u64>,
}

impl Figures {
    /// Reads the logs of a round with so many players: what was due in that time of CLOCK_MONOTONIC.
    pub fn read(
        logs: &[PathBuf],
        players: usize,
        window_ns: Range<u64>,
    ) -> Result<Figures, DemoFailure> {
        let mut shown = BTreeMap::new();
        let mut figures = Figures::default();
        for (number, path) in logs.iter().enumerate() {
            let wrong = |what: String| DemoFailure::Log {
                path: path.clone(),
                what,
            };
            let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            for line in text.lines() {
                let line: Value =
                    serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
                let Some((player, late_ns, was_shown)) = due_event(&line, &window_ns) else {
                    continue;
                };
                figures.late_ns.push(late_ns);
                *shown.entry((number, player)).or_insert(0u64) += u64::from(was_shown);
            }
        }
        if shown.len() != players {
            let path = logs.first().cloned().unwrap_or_default();
            let what = format!(
                "frames of {} players are in the logs, expected {players}",
                shown.len()
            );
            return Err(DemoFailure::Log { path, what });
        }
        let seconds = (window_ns.end - window_ns.start) as f64 / 1e9;
        figures.frames_per_s = shown
            .values()
            .map(|&count| count as f64 / seconds)
            .collect();
        figures.late_ns.sort_unstable();
        Ok(figures)
    }

    pub fn frames_per_s_sum(&self) -> f64 {
        self.frames_per_s.iter().sum()
    }

    /// Standard deviation of the players' frame rates, in percent of their mean.
    pub fn spread_percent(&self) -> f64 {
        let count = self.frames_per_s.len().max(1) as f64;
        let mean = self.frames_per_s_sum() / count;
        let squares: f64 = self
            .frames_per_s
            .iter()
            .map(|rate| (rate - mean).powi(2))
            .sum();
        100.0 * (squares / count).sqrt() / mean.max(f64::MIN_POSITIVE)
    }

    pub fn mean_ms(&self) -> f64 {
        self.late_ns.iter().sum::<u64>() as f64 / 1e6 / self.late_ns.len().max(1) as f64
    }

    pub fn p99_ms(&self) -> f64 {
        let rank = (self.late_ns.len() * 99).div_ceil(100).max(1);
        self.late_ns
            .get(rank - 1)
            .map_or(0.0, |&ns| ns as f64 / 1e6)
    }

    pub fn max_ms(&self) -> f64 {
        self.late_ns.last().map_or(0.0, |&ns| ns as f64 / 1e6)
    }
}

/// A frame that was due in the window: whose, how late, and whether it was shown.
fn due_event(line: &Value, window_ns: &Range<u64>) -> Option<(u64, u64, bool)> {
    let number = |name: &str| line[name].as_u64();
    let due_ns = number("due_ns").filter(|due_ns| window_ns.contains(due_ns))?;
    let late_ns = number("dispatch_ns")?.saturating_sub(due_ns);
    Some((number("player")?, late_ns, line["shown"].as_bool()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"type": "start", "players": 1, "origin_ns": 0}
{"type": "frame", "player": 0, "frame": 0, "due_ns": 5, "dispatch_ns": 9, "shown": true}
{"type": "frame", "player": 0, "frame": 1, "due_ns": 1000000000, "dispatch_ns": 1003000000, "shown": true}
{"type": "frame", "player": 0, "frame": 2, "due_ns": 1500000000, "dispatch_ns": 1501000000, "shown": false}
"#;

    fn read(name: &str, text: &str, players: usize) -> Result<Figures, DemoFailure> {
        let name = format!("consort-demo-log-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        let figures = Figures::read(
            std::slice::from_ref(&path),
            players,
            1_000_000_000..2_000_000_000,
        );
        fs::remove_file(path).unwrap();
        figures
    }

    #[test]
    fn counts_what_was_due_in_the_window() {
        let figures = read("whole", LOG, 1).unwrap();
        assert_eq!(figures.frames_per_s, [1.0]);
        assert_eq!(
            (figures.mean_ms(), figures.p99_ms(), figures.max_ms()),
            (2.0, 3.0, 3.0)
        );
        assert_eq!(figures.spread_percent(), 0.0);
    }

    #[test]
    fn a_player_without_frames_and_a_log_that_was_cut_off_are_errors() {
        assert!(read("missing", LOG, 2).is_err());
        assert!(read("cut", &LOG[..LOG.len() - 20], 1).is_err());
    }
}
