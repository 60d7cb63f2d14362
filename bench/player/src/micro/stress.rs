// SPDX-License-Identifier: MIT OR Apache-2.0
//! One of stress-ng's stressors: its own count of operations a second.

use crate::error::Error;
use clap::Args;
use serde::Serialize;
use std::process::{Command, Stdio};

/// The line of stress-ng's metrics that counts.
const RATE: &str = "bogo-ops-per-second-real-time:";

#[derive(Args, Serialize)]
pub struct Options {
    /// Name of the stressor, as stress-ng's option has it
    #[arg(long)]
    stressor: String,
    /// Processes
    #[arg(long, default_value_t = 4)]
    instances: usize,
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    #[arg(long, default_value = "stress-ng")]
    program: String,
}

#[derive(Serialize)]
pub struct Stress {
    options: Options,
    operations_per_s: f64,
}

pub fn run(options: Options) -> Result<Stress, Error> {
    let metrics = std::env::temp_dir().join(format!("consort-stress-{}", std::process::id()));
    let failed = |source| Error::io(format!("run {}", options.program), source);
    let output = Command::new(&options.program)
        .args(arguments(
            &options.stressor,
            options.instances,
            options.seconds,
        ))
        .args(["--metrics", "--yaml"])
        .arg(&metrics)
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    let text = std::fs::read_to_string(&metrics).unwrap_or_default();
    // What stays behind is small, and in the folder for such things.
    let _ = std::fs::remove_file(&metrics);
    let operations_per_s = rate(&text).filter(|rate| output.status.success() && *rate > 0.0);
    operations_per_s
        .map(|operations_per_s| Stress {
            options,
            operations_per_s,
        })
        .ok_or_else(|| {
            Error::Usage(format!(
                "stress-ng ended with {} and no count of operations: {}{}",
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ))
        })
}

/// What stress-ng is told to run so many processes of a stressor.
pub fn arguments(stressor: &str, instances: usize, seconds: u64) -> [String; 5] {
    [
        format!("--{stressor}"),
        instances.to_string(),
        "--timeout".into(),
        seconds.to_string(),
        // Its own tuning of the out-of-memory killer and of scheduling would be part of what is measured.
        "--no-oom-adjust".into(),
    ]
}

fn rate(metrics: &str) -> Option<f64> {
    metrics
        .lines()
        .find_map(|line| line.trim().strip_prefix(RATE))
        .and_then(|rate| rate.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn reads_the_rate_in_real_time() {
        let text =
            "metrics:\n    - stressor: switch\n      bogo-ops-per-second-usr-sys-time: 1.5\n      \
                    bogo-ops-per-second-real-time: 187786.492557\n";
        assert_eq!(rate(text), Some(187_786.492_557));
        assert_eq!(rate("metrics:\n"), None);
    }
}
