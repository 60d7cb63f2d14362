// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort demo`: real video by several players on one CPU, without cooperation, with it, and in one process.

mod film;
mod log;
mod round;

use std::{io, io::Write, path::PathBuf, process::ExitStatus};

use serde_json::{json, Value};

use self::{
    film::{find_film, find_player, players_for},
    log::Figures,
    round::{Kind, Stage},
};
use crate::{args::DemoArgs, connection::Connection, failure::Failure};

/// What keeps the demo from running.
#[derive(Debug, thiserror::Error)]
pub enum DemoFailure {
    #[error("there is no film at {}: name one, an H.264 video of at least 20 s", .0.display())]
    NoFilm(PathBuf),

    #[error("cannot start {}: {source}. It comes with the package consort-play", path.display())]
    NoPlayer { path: PathBuf, source: io::Error },

    #[error("a player ended with {status}; it said: {said}")]
    Player { status: ExitStatus, said: String },

    #[error("{}: {what}", path.display())]
    Log { path: PathBuf, what: String },

    #[error("cannot make a folder for the players' logs in {}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },

    #[error("cannot keep the players on one CPU: {0}")]
    Pin(io::Error),

    #[error(
        "--host kernel needs a daemon: start one with `sudo consort serve`, or leave --host out"
    )]
    NoDaemon,
}

/// Plays all rounds, and prints what came of them.
pub fn demo(args: &DemoArgs) -> Result<(), Failure> {
    let has_daemon = answers();
    let host = match args.host {
        Some(host) => host,
        None if has_daemon => crate::args::DemoHost::Kernel,
        None => crate::args::DemoHost::User,
    };
    if host == crate::args::DemoHost::Kernel && !has_daemon {
        return Err(DemoFailure::NoDaemon.into());
    }
    let (player, film) = (find_player(), find_film(args.film.as_deref())?);
    round::stay_on_one_cpu()?;
    let players = match args.players {
        Some(players) => players,
        None => players_for(&player, &film)?,
    };
    let stage = Stage {
        player,
        film,
        players,
        seconds: args.seconds,
        host,
    };
    say(&format!(
        "{players} players on one CPU, {} s a round",
        args.seconds
    ));
    let mut rounds = Vec::new();
    for kind in [Kind::Apart, Kind::Together, Kind::One] {
        say(&format!("round: {}", kind.title(host, has_daemon)));
        rounds.push((kind, stage.play(kind)?));
    }
    let text = match args.json {
        true => format!("{:#}\n", describe(&rounds, players)),
        false => table(&rounds, |kind| kind.title(host, has_daemon)),
    };
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(Failure::Output)
}

/// Whether a daemon is there, whose scheduler carries programs that cooperate.
fn answers() -> bool {
    let asked = Connection::open().and_then(|it| it.control(&json!({"command": "status"})));
    asked.is_ok_and(|status| {
        let scheduler = &status["scheduler"];
        scheduler["mode"] != "safe" && scheduler["partial"] == false
    })
}

/// For whoever waits; the result goes to standard output alone.
fn say(text: &str) {
    // Not eprintln, which panics when nobody reads.
    let _ = writeln!(io::stderr(), "demo: {text}");
}

fn describe(rounds: &[(Kind, Figures)], players: usize) -> Value {
    let rounds: Vec<Value> = rounds
        .iter()
        .map(|(kind, figures)| {
            json!({
                "round": kind.word(),
                "frames_per_s": figures.frames_per_s,
                "frames_per_s_sum": figures.frames_per_s_sum(),
                "frames_per_s_cv_percent": figures.spread_percent(),
                "tardiness_mean_ms": figures.mean_ms(),
                "tardiness_p99_ms": figures.p99_ms(),
                "tardiness_max_ms": figures.max_ms(),
            })
        })
        .collect();
    json!({"version": 1, "players": players, "rounds": rounds})
}

fn table(rounds: &[(Kind, Figures)], title: impl Fn(Kind) -> String) -> String {
    let ideal = rounds.iter().find(|(kind, _)| *kind == Kind::One);
    let ideal_per_s = ideal.map_or(0.0, |(_, figures)| figures.frames_per_s_sum());
    let mut out =
        format!(
        "\n{:<34}{:>10}{:>12}{:>9}{:>10}{:>10}{:>10}\n{:<34}{:>10}{:>12}{:>9}{:>10}{:>10}{:>10}\n",
        "", "frames/s", "throughput", "spread", "late mean", "p99", "max",
        "", "", "% of ideal", "%", "ms", "ms", "ms"
    );
    for (kind, figures) in rounds {
        let sum = figures.frames_per_s_sum();
        out += &format!(
            "{:<34}{:>10.1}{:>12.1}{:>9.1}{:>10.2}{:>10.2}{:>10.2}\n",
            title(*kind),
            sum,
            100.0 * sum / ideal_per_s.max(f64::MIN_POSITIVE),
            figures.spread_percent(),
            figures.mean_ms(),
            figures.p99_ms(),
            figures.max_ms(),
        );
    }
    out += "\nspread: how unlike the players' frame rates are. late: from a frame's due time until its player ran.\n";
    out
}
