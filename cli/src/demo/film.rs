// SPDX-License-Identifier: MIT OR Apache-2.0
//! The film, its player, and how many of these are too many for one CPU.

use std::{
    mem::MaybeUninit,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::DemoFailure;

const PLAYER: &str = "consort-play";
/// Below the folder in which the command's own is.
const FILM: &str = "share/consort-play/demo.mp4";
/// How long one player is measured for, and how much more than one CPU all of them are to need.
const MEASURED_S: u32 = 4;
const OVERLOAD: f64 = 1.5;
const PLAYERS: std::ops::RangeInclusive<f64> = 4.0..=64.0;

/// The one that was installed beside this command, else that of the path.
pub fn find_player() -> PathBuf {
    let beside = own_folder().map(|folder| folder.join(PLAYER));
    let installed = beside.filter(|path| path.is_file());
    installed.unwrap_or_else(|| PLAYER.into())
}

/// The film that was named, else the one that comes with the player.
pub fn find_film(named: Option<&Path>) -> Result<PathBuf, DemoFailure> {
    let installed = || Some(own_folder()?.parent()?.join(FILM));
    let film = named.map(Path::to_owned).or_else(installed);
    let film = film.unwrap_or_else(|| FILM.into());
    match film.is_file() {
        true => Ok(film),
        false => Err(DemoFailure::NoFilm(film)),
    }
}

fn own_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

/// So many that one CPU has time for two thirds of them: one is measured.
pub fn players_for(player: &Path, film: &Path) -> Result<usize, DemoFailure> {
    let before_s = children_cpu_s();
    let mut command = Command::new(player);
    command
        .args(["--no-consort", "--output", "none", "--loop"])
        .args(["--duration", &MEASURED_S.to_string()])
        .arg(film);
    run(player, &mut command)?;
    let part = (children_cpu_s() - before_s) / f64::from(MEASURED_S);
    Ok((OVERLOAD / part.max(0.001))
        .round()
        .clamp(*PLAYERS.start(), *PLAYERS.end()) as usize)
}

fn run(player: &Path, command: &mut Command) -> Result<(), DemoFailure> {
    let said = command.stdin(Stdio::null()).output();
    let said = said.map_err(|source| DemoFailure::NoPlayer {
        path: player.to_owned(),
        source,
    })?;
    match said.status.success() {
        true => Ok(()),
        false => Err(DemoFailure::Player {
            status: said.status,
            said: String::from_utf8_lossy(&said.stderr).trim().to_owned(),
        }),
    }
}

fn children_cpu_s() -> f64 {
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid, and all bits zero is a valid value should the call fail.
    let used = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, used.as_mut_ptr());
        used.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(used.ru_utime) + seconds(used.ru_stime)
}
