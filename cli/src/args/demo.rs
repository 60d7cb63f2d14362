// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `consort demo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::whole;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort demo
  consort demo --host user --players 12 film.mp4

The player, consort-play, and a film come with the package consort-play. The JSON has: version, players, rounds: a list of
round (apart, together, one process), frames_per_s (of each player), frames_per_s_sum, frames_per_s_cv_percent,
tardiness_mean_ms, tardiness_p99_ms, tardiness_max_ms.")]
pub struct DemoArgs {
    /// An H.264 video of at least 20 s [default: the one that comes with the player]
    #[arg(value_name = "FILM")]
    pub film: Option<PathBuf>,

    /// What carries the cooperation [default: kernel where a daemon answers, else user]
    #[arg(long, value_enum)]
    pub host: Option<DemoHost>,

    /// How many players [default: measured]
    #[arg(long, value_name = "N", value_parser = parse_players, allow_negative_numbers = true)]
    pub players: Option<usize>,

    /// Length of a round in seconds, 5 to 600; the first 4 are not counted
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_round_s, allow_negative_numbers = true)]
    pub seconds: u64,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DemoHost {
    /// The scheduler in the kernel
    Kernel,
    /// None: the players cooperate among themselves
    User,
}

impl DemoHost {
    /// As CONSORT_HOST has it.
    pub fn word(self) -> &'static str {
        match self {
            DemoHost::Kernel => "kernel",
            DemoHost::User => "user",
        }
    }
}

fn parse_players(text: &str) -> Result<usize, String> {
    match whole(text)? {
        players @ 2..=64 => Ok(players),
        players => Err(format!("{players} is not from 2 to 64")),
    }
}

fn parse_round_s(text: &str) -> Result<u64, String> {
    match whole(text)? {
        seconds @ 5..=600 => Ok(seconds),
        seconds => Err(format!("{seconds} is not from 5 to 600")),
    }
}
