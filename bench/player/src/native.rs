// SPDX-License-Identifier: MIT OR Apache-2.0
//! Players on this machine's own kernel: under its stock scheduler, cooperating at user level, and in one process, in turn, so
//! that whatever else the machine does disturbs all of them. Ratios of neighbours say more than their times.

use crate::error::Error;
use crate::films::{self, Films};
use crate::fleet::{self, FleetOptions, FleetResult};
use crate::{processes, work};
use clap::{Args, Parser};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Args, Serialize)]
pub struct Options {
    /// Numbers of players, one after the other
    #[arg(long, short = 'n', value_delimiter = ',', default_value = "12")]
    players: Vec<usize>,
    /// How often each number is played, with other films
    #[arg(long, default_value_t = 1)]
    rounds: u64,
    /// Length of a measured window
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use all CPUs, not one. Players have loads by the number of CPUs then, and there is no ideal.
    #[arg(long)]
    all_cpus: bool,
    /// Play this film, too, by so many consort-play that one CPU has time for two thirds of them
    #[arg(long)]
    film: Option<PathBuf>,
    /// That player
    #[arg(long, default_value = "consort-play")]
    program: String,
}

/// How much more than one CPU players of a film are to need, and how many there are at most.
const OVERLOAD: f64 = 1.5;
const PLAYERS_MAX: usize = 64;
/// They begin in the film within this time, and play for so long at least.
const STARTS_S: f64 = 17.0;
const FILM_LEAST_S: u64 = 12;

/// What came of one number of players with one set of films.
#[derive(Serialize)]
struct Round {
    players: usize,
    eevdf: FleetResult,
    user: FleetResult,
    ideal: Option<FleetResult>,
    /// Of the mean tardiness at user level to that under the stock scheduler.
    tardiness_mean_ratio: f64,
    /// CPU time of decoding at user level, of that in one process.
    throughput_percent: Option<f64>,
}

/// The same of real video.
#[derive(Serialize)]
struct FilmRound {
    players: usize,
    eevdf: Films,
    user: Films,
    ideal: Films,
    tardiness_mean_ratio: f64,
    /// Frames shown, of those that one process shows.
    throughput_percent: f64,
}

#[derive(Serialize)]
pub struct Native {
    options: Options,
    cpus: usize,
    instructions_per_us: u64,
    rounds: Vec<Round>,
    films: Option<FilmRound>,
    /// Medians over the rounds with the most players.
    tardiness_mean_ratio: f64,
    throughput_percent: Option<f64>,
}

/// A workload's options are those of its command line.
#[derive(Parser)]
struct Words<Workload: Args> {
    #[command(flatten)]
    options: Workload,
}

fn options_of<Workload: Args>(words: Vec<String>) -> Result<Workload, Error> {
    let words = std::iter::once(String::new()).chain(words);
    let parsed = Words::try_parse_from(words);
    Ok(parsed
        .map_err(|error| Error::Usage(error.to_string()))?
        .options)
}

pub fn run(options: Options) -> Result<Native, Error> {
    processes::go_before_others();
    if !options.all_cpus {
        processes::pin_to_cpu(processes::first_cpu()?)?;
    }
    // No daemon that may run here is to take part.
    std::env::set_var("CONSORT_HOST", "user");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let instructions_per_us = work::calibrate();
    work::set_instructions_per_us(instructions_per_us);
    let mut rounds = Vec::new();
    for &players in &options.players {
        for seed in options.seed..options.seed + options.rounds {
            rounds.push(round(&options, cpus, players, seed)?);
        }
    }
    let films = options.film.as_deref();
    let films = films.map(|film| films_round(&options, film)).transpose()?;
    let most = rounds.iter().map(|it| it.players).max();
    let fullest = || rounds.iter().filter(|it| Some(it.players) == most);
    let ratio = median(fullest().map(|it| it.tardiness_mean_ratio));
    Ok(Native {
        tardiness_mean_ratio: ratio.unwrap_or(0.0),
        throughput_percent: median(fullest().filter_map(|it| it.throughput_percent)),
        cpus,
        instructions_per_us,
        rounds,
        films,
        options,
    })
}

fn round(options: &Options, cpus: usize, players: usize, seed: u64) -> Result<Round, Error> {
    let play = |mode| fleet::run(fleet_options(options, cpus, players, seed, mode)?);
    let ideal = match options.all_cpus {
        true => None,
        false => Some(play("monolithic")?),
    };
    let (eevdf, user) = (play("plain")?, play("coop")?);
    Ok(Round {
        players,
        tardiness_mean_ratio: user.tardiness_mean_ms() / eevdf.tardiness_mean_ms(),
        throughput_percent: ideal
            .as_ref()
            .map(|ideal| 100.0 * user.decode_cpu_percent() / ideal.decode_cpu_percent()),
        eevdf,
        user,
        ideal,
    })
}

fn fleet_options(
    options: &Options,
    cpus: usize,
    players: usize,
    seed: u64,
    mode: &str,
) -> Result<FleetOptions, Error> {
    let load = fleet::DEFAULT_LOAD * cpus as f64;
    let seconds = options.seconds;
    let words = format!(
        "--mode {mode} --players {players} --load {load} --seconds {seconds} --warmup-seconds 1 --seed {seed}"
    );
    options_of(words.split(' ').map(String::from).collect())
}

fn films_round(options: &Options, film: &Path) -> Result<FilmRound, Error> {
    let load = films::load_of_one(&options.program, film)?;
    let players = ((OVERLOAD / load).round() as usize).clamp(4, PLAYERS_MAX);
    let step_s = STARTS_S / players as f64;
    let play = |mode: &str| {
        let words = format!(
            "--mode {mode} --players {players} --seconds {} --seed {} --start-step-seconds {step_s}",
            options.seconds.max(FILM_LEAST_S),
            options.seed
        );
        let mut words: Vec<String> = words.split(' ').map(String::from).collect();
        let film = film.display().to_string();
        words.extend([
            "--program".into(),
            options.program.clone(),
            "--film".into(),
            film,
        ]);
        films::run(options_of(words)?)
    };
    let (ideal, eevdf, user) = (play("monolithic")?, play("plain")?, play("coop")?);
    Ok(FilmRound {
        players,
        tardiness_mean_ratio: user.tardiness_mean_ms() / eevdf.tardiness_mean_ms(),
        throughput_percent: 100.0 * user.frames_per_s_sum() / ideal.frames_per_s_sum(),
        eevdf,
        user,
        ideal,
    })
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
