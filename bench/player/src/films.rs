// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real video: consort-play processes, or one that plays all films, measured by their own logs.

use crate::clock::{now_ns, sleep_until_ns, NS_PER_S};
use crate::counters;
use crate::error::Error;
use crate::fleet::Mode;
use crate::statistics::{mean, variation_percent, Distribution};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Time for all players to start and to decode ahead before the first frame is due.
const LEAD_NS: u64 = 4 * NS_PER_S;
/// Frames go on after the window: players that end write their logs, all at the same time.
const REST_NS: u64 = NS_PER_S;
/// How long one player is measured for.
const LOAD_S: u64 = 4;
const DOMAIN: &str = "bench";

#[derive(Clone, Debug, Args, Serialize)]
pub struct Options {
    #[arg(long, value_enum)]
    mode: Mode,
    /// Number of players
    #[arg(long, short = 'n', default_value_t = 10)]
    players: usize,
    /// Length of the measured window
    #[arg(long, default_value_t = 16)]
    seconds: u64,
    /// Playing before the window: players live on what they decoded before the first frame was due
    #[arg(long, default_value_t = 4)]
    warmup_seconds: u64,
    /// Chooses where in the film the first player begins
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Each player begins that much later in the film than the one before: key pictures come once a second
    #[arg(long, default_value_t = 1.7)]
    start_step_seconds: f64,
    /// The player
    #[arg(long, default_value = "consort-play")]
    program: String,
    #[arg(long)]
    film: PathBuf,
}

#[derive(Serialize)]
pub struct Films {
    options: Options,
    tardiness: Distribution,
    frames_per_s: Vec<f64>,
    frames_per_s_sum: f64,
    frames_per_s_cv_percent: f64,
    wasted_pictures: u64,
    switches_per_s: f64,
}

/// A line of a log that matters here.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    Frame {
        player: usize,
        due_ns: u64,
        dispatch_ns: u64,
        shown: bool,
    },
    Summary {
        wasted: u64,
    },
    #[serde(other)]
    Other,
}

/// What all logs say about a window.
#[derive(Default)]
struct Seen {
    tardiness_ns: Vec<u64>,
    /// By log and player.
    shown: BTreeMap<(usize, usize), u64>,
    wasted: u64,
    summaries: usize,
}

impl Films {
    pub fn tardiness_mean_ms(&self) -> f64 {
        self.tardiness.mean_ms
    }

    pub fn frames_per_s_sum(&self) -> f64 {
        self.frames_per_s_sum
    }
}

/// What part of a CPU one player needs for a film.
pub fn load_of_one(program: &str, film: &Path) -> Result<f64, Error> {
    let before_ns = children_cpu_ns();
    let status = Command::new(program)
        .args(["--no-consort", "--output", "none", "--loop"])
        .args(["--duration", &LOAD_S.to_string()])
        .arg(film)
        .stdout(Stdio::null())
        .status()
        .map_err(|source| Error::io(format!("start {program}"), source))?;
    if !status.success() {
        return Err(Error::Usage(format!(
            "{program} ended with {status}, expected 0"
        )));
    }
    let used_ns = children_cpu_ns().saturating_sub(before_ns).max(1);
    Ok(used_ns as f64 / (LOAD_S * NS_PER_S) as f64)
}

fn children_cpu_ns() -> u64 {
    // SAFETY: all bits zero is a valid value, and the call fills it.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut used);
        used
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * NS_PER_S + time.tv_usec as u64 * 1000;
    ns(used.ru_utime) + ns(used.ru_stime)
}

/// Plays, and merges what the players logged.
pub fn run(options: Options) -> Result<Films, Error> {
    let folder = std::env::temp_dir().join(format!("consort-films-{}", std::process::id()));
    std::fs::create_dir_all(&folder)
        .map_err(|source| Error::io(format!("make {}", folder.display()), source))?;
    let result = play(options, &folder);
    // What stays behind is small, and in the folder for such things.
    let _ = std::fs::remove_dir_all(&folder);
    result
}

fn play(options: Options, folder: &Path) -> Result<Films, Error> {
    let origin_ns = now_ns() + LEAD_NS;
    let from_ns = origin_ns + options.warmup_seconds * NS_PER_S;
    let until_ns = from_ns + options.seconds * NS_PER_S;
    let processes = match options.mode {
        Mode::Monolithic => 1,
        Mode::Plain | Mode::Coop => options.players,
    };
    let logs: Vec<PathBuf> = (0..processes)
        .map(|index| folder.join(format!("{index}.json")))
        .collect();
    let mut children = Vec::new();
    for (index, log) in logs.iter().enumerate() {
        children.push(start(&options, index, log, origin_ns, until_ns + REST_NS)?);
    }
    sleep_until_ns(from_ns);
    let switches_before = counters::context_switches()?;
    sleep_until_ns(until_ns);
    let switches = counters::context_switches()? - switches_before;
    for child in children {
        finish(child)?;
    }
    let mut seen = Seen::default();
    for (index, log) in logs.iter().enumerate() {
        let text = std::fs::read_to_string(log)
            .map_err(|source| Error::io(format!("read {}", log.display()), source))?;
        read(&text, index, from_ns..until_ns, &mut seen)?;
    }
    merge(options, seen, switches)
}

fn start(
    options: &Options,
    index: usize,
    log: &Path,
    origin_ns: u64,
    end_ns: u64,
) -> Result<Child, Error> {
    let mut command = Command::new(&options.program);
    let duration_s = (end_ns - origin_ns) / NS_PER_S;
    let start_s = (options.seed as f64 * 0.37 + index as f64) * options.start_step_seconds;
    command
        .args(["--output", "none", "--loop"])
        .args(["--start-at", &origin_ns.to_string()])
        .args(["--duration", &duration_s.to_string()])
        .args(["--start", &start_s.to_string()])
        .arg("--log")
        .arg(log);
    match options.mode {
        Mode::Coop => command.args(["--domain", DOMAIN]),
        Mode::Plain => command.arg("--no-consort"),
        Mode::Monolithic => command
            .args(["--no-consort", "--players", &options.players.to_string()])
            .args(["--start-step", &options.start_step_seconds.to_string()]),
    };
    command
        .arg(&options.film)
        .stdout(Stdio::null())
        .spawn()
        .map_err(|source| Error::io(format!("start {}", options.program), source))
}

fn finish(mut child: Child) -> Result<(), Error> {
    let status = child
        .wait()
        .map_err(|source| Error::io("wait for a player", source))?;
    if !status.success() {
        return Err(Error::Usage(format!(
            "a player ended with {status}, expected 0: its message is above"
        )));
    }
    Ok(())
}

fn read(
    text: &str,
    log: usize,
    window: std::ops::Range<u64>,
    seen: &mut Seen,
) -> Result<(), Error> {
    for line in text.lines() {
        match serde_json::from_str(line).map_err(Error::Json)? {
            Line::Frame {
                player,
                due_ns,
                dispatch_ns,
                shown,
            } if window.contains(&due_ns) => {
                seen.tardiness_ns.push(dispatch_ns.saturating_sub(due_ns));
                *seen.shown.entry((log, player)).or_default() += u64::from(shown);
            }
            Line::Summary { wasted } => {
                seen.wasted += wasted;
                seen.summaries += 1;
            }
            Line::Frame { .. } | Line::Other => {}
        }
    }
    Ok(())
}

fn merge(options: Options, seen: Seen, switches: u64) -> Result<Films, Error> {
    if seen.summaries != options.players || seen.shown.len() != options.players {
        return Err(Error::Usage(format!(
            "the logs have {} players with frames and {} summaries, expected {}: a player did not play to the end",
            seen.shown.len(),
            seen.summaries,
            options.players
        )));
    }
    let seconds = options.seconds.max(1) as f64;
    let rates: Vec<f64> = seen
        .shown
        .values()
        .map(|&count| count as f64 / seconds)
        .collect();
    Ok(Films {
        tardiness: Distribution::of_ns(seen.tardiness_ns),
        frames_per_s_sum: mean(&rates) * rates.len() as f64,
        frames_per_s_cv_percent: variation_percent(&rates),
        frames_per_s: rates,
        wasted_pictures: seen.wasted,
        switches_per_s: switches as f64 / seconds,
        options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"type": "start", "players": 1, "origin_ns": 0}
{"type": "frame", "player": 0, "frame": 0, "due_ns": 5, "dispatch_ns": 9, "shown": true}
{"type": "frame", "player": 0, "frame": 1, "due_ns": 10, "dispatch_ns": 13, "shown": true}
{"type": "frame", "player": 0, "frame": 2, "due_ns": 20, "dispatch_ns": 19, "shown": false}
{"type": "summary", "player": 0, "frames": 3, "wasted": 2}
"#;

    #[test]
    fn counts_what_was_due_in_the_window() {
        let mut seen = Seen::default();
        read(LOG, 4, 10..30, &mut seen).unwrap();
        assert_eq!(seen.tardiness_ns, [3, 0]);
        assert_eq!(seen.shown, BTreeMap::from([((4, 0), 1)]));
        assert_eq!((seen.wasted, seen.summaries), (2, 1));
    }

    #[test]
    fn a_log_that_was_cut_off_is_an_error() {
        let mut seen = Seen::default();
        assert!(read(&LOG[..LOG.len() - 20], 0, 0..30, &mut seen).is_err());
    }
}
