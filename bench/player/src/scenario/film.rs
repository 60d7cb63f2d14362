// SPDX-License-Identifier: MIT OR Apache-2.0
//! consort-play in place of a task: a real decoder, which leaves pictures out where it is late.

use crate::clock::{NS_PER_S, NS_PER_US};
use crate::error::Error;
use consort_sim::setup::{Program, Step};
use serde::Deserialize;
use serde_json::{json, Value};
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = "consort-play";
/// Each player begins that much later in the film than the one before.
const STEP_S: f64 = 1.7;

/// A line of the log that matters here.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    Frame {
        dispatch_ns: u64,
        shown: bool,
    },
    Summary {},
    #[serde(other)]
    Other,
}

/// When a player plays, on CLOCK_MONOTONIC.
pub struct Time {
    pub begin_ns: u64,
    /// The first frame is due.
    pub start_ns: u64,
    pub end_ns: u64,
}

/// Plays, as long as the task's turns last or the run does: the times at which frames were shown.
pub fn play(film: &Path, number: usize, program: &Program, time: &Time) -> Result<Value, Error> {
    let log = std::env::temp_dir().join(format!("consort-film-{number}.json"));
    let length_ns = turns_ns(program).unwrap_or(u64::MAX);
    // Players that end write their logs, and want the CPU for that.
    let length_ns = length_ns.min(time.end_ns - time.start_ns);
    let status = Command::new(PROGRAM)
        .args(["--no-consort", "--output", "none", "--loop"])
        .args(["--start-at", &time.start_ns.to_string()])
        .args(["--start", &(number as f64 * STEP_S).to_string()])
        .args([
            "--duration",
            &(length_ns as f64 / NS_PER_S as f64).to_string(),
        ])
        .arg("--log")
        .arg(&log)
        .arg(film)
        .stdout(Stdio::null())
        .status()
        .map_err(|source| Error::io(format!("start {PROGRAM}"), source))?;
    if !status.success() {
        return Err(Error::Usage(format!(
            "{PROGRAM} ended with {status}, expected 0: its message is above"
        )));
    }
    let text = std::fs::read_to_string(&log)
        .map_err(|source| Error::io(format!("read {}", log.display()), source))?;
    // What stays behind is small, and in the folder for such things.
    let _ = std::fs::remove_file(&log);
    shown(&text, time.begin_ns)
}

/// How long the program's loop lasts where nothing is late: None if it has no end, or is no such loop.
fn turns_ns(program: &Program) -> Option<u64> {
    let Program::Steps(steps) = program else {
        return None;
    };
    steps.iter().find_map(|step| match step {
        Step::Loop {
            times: Some(times),
            steps,
        } => steps.iter().find_map(|step| match step {
            Step::Timer { period_ns, .. } => Some(times * period_ns),
            _ => None,
        }),
        _ => None,
    })
}

fn shown(text: &str, begin_ns: u64) -> Result<Value, Error> {
    let mut stamps_us = Vec::new();
    let mut is_whole = false;
    for line in text.lines() {
        match serde_json::from_str(line).map_err(Error::Json)? {
            Line::Frame {
                dispatch_ns,
                shown: true,
            } => stamps_us.push(dispatch_ns.saturating_sub(begin_ns) / NS_PER_US),
            Line::Summary {} => is_whole = true,
            Line::Frame { .. } | Line::Other => {}
        }
    }
    if !is_whole {
        return Err(Error::Usage(format!(
            "{PROGRAM}'s log has no summary: it did not play to the end"
        )));
    }
    Ok(json!({ "stamps_us": stamps_us, "ran_us": [], "answers_us": [] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"type": "frame", "dispatch_ns": 1007000, "shown": true}
{"type": "frame", "dispatch_ns": 1040000, "shown": false}
{"type": "summary", "frames": 2}
"#;

    #[test]
    fn only_what_was_shown_is_a_stamp() {
        let value = shown(LOG, 1_000_000).unwrap();
        assert_eq!(value["stamps_us"], json!([7]));
    }

    #[test]
    fn a_log_that_was_cut_off_is_an_error() {
        assert!(shown(LOG.rsplit_once("{").unwrap().0, 0).is_err());
    }
}
