// SPDX-License-Identifier: MIT OR Apache-2.0
//! One round: all players start, play at the same time, and are read.

use std::{
    fs, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use nix::{
    sys::{prctl::set_pdeathsig, signal::Signal},
    time::{clock_gettime, ClockId},
    unistd::mkdtemp,
};

use super::{log::Figures, DemoFailure};
use crate::args::DemoHost;

const NS_PER_S: u64 = 1_000_000_000;
/// Time for all players to start and to decode ahead before the first frame is due: the second is for each.
const LEAD_NS: u64 = NS_PER_S;
const LEAD_EACH_NS: u64 = 60_000_000;
/// Left out: until then players live on what they decoded before the first frame was due.
const SKIPPED_S: u64 = 4;
/// Played at the end and left out, too: players that end write their logs.
const REST_S: u64 = 1;
/// Players begin at different places within so much of the film, one after the other by so much at most.
const STARTS_S: f64 = 17.0;
const START_STEP_S: f64 = 1.7;
const DOMAIN: &str = "consort-demo";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Players that know nothing of each other.
    Apart,
    /// Players that cooperate.
    Together,
    /// One process that plays all films: no scheduler can do better.
    One,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Kind::Apart => "apart",
            Kind::Together => "together",
            Kind::One => "one process",
        }
    }

    pub fn title(self, host: DemoHost, has_daemon: bool) -> String {
        let scheduler = if has_daemon {
            "Consort"
        } else {
            "stock scheduler"
        };
        match (self, host) {
            (Kind::Apart, _) => format!("{scheduler}, no cooperation"),
            (Kind::Together, DemoHost::User) => "cooperating at user level".into(),
            (Kind::Together, DemoHost::Kernel) => "cooperating in the kernel".into(),
            (Kind::One, _) => "one process (ideal)".into(),
        }
    }
}

/// What all rounds have in common.
pub struct Stage {
    pub player: PathBuf,
    pub film: PathBuf,
    pub players: usize,
    pub seconds: u64,
    pub host: DemoHost,
}

/// A folder of this run's own, removed with all that is in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, DemoFailure> {
        let path = std::env::temp_dir().join("consort-demo-XXXXXX");
        mkdtemp(&path)
            .map(Folder)
            .map_err(|errno| DemoFailure::Folder {
                path,
                source: errno.into(),
            })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays behind is small, and in the folder for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Players that are ended in any case.
struct Playing(Vec<Child>);

impl Drop for Playing {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Stage {
    pub fn play(&self, kind: Kind) -> Result<Figures, DemoFailure> {
        let folder = Folder::new()?;
        let origin_ns = now_ns() + LEAD_NS + LEAD_EACH_NS * self.players as u64;
        let processes = if kind == Kind::One { 1 } else { self.players };
        let logs: Vec<PathBuf> = (0..processes)
            .map(|index| folder.0.join(format!("{index}.json")))
            .collect();
        let mut playing = Playing(Vec::new());
        for (index, log) in logs.iter().enumerate() {
            playing.0.push(self.start(kind, index, log, origin_ns)?);
        }
        while let Some(child) = playing.0.pop() {
            finish(child)?;
        }
        let window_ns = origin_ns + SKIPPED_S * NS_PER_S..origin_ns + self.seconds * NS_PER_S;
        Figures::read(&logs, self.players, window_ns)
    }

    fn start(
        &self,
        kind: Kind,
        index: usize,
        log: &Path,
        origin_ns: u64,
    ) -> Result<Child, DemoFailure> {
        let step_s = START_STEP_S.min(STARTS_S / self.players as f64);
        let mut command = Command::new(&self.player);
        command
            .args(["--output", "none", "--loop"])
            .args(["--duration", &(self.seconds + REST_S).to_string()])
            .args(["--start-at", &origin_ns.to_string()])
            .args(["--start", &format!("{:.3}", index as f64 * step_s)])
            .arg("--log")
            .arg(log);
        match kind {
            Kind::Apart => command.arg("--no-consort"),
            Kind::Together => command
                .args(["--domain", DOMAIN])
                .env("CONSORT_HOST", self.host.word())
                // A domain of this run's own, of which nothing stays behind.
                .envs(log.parent().map(|folder| ("CONSORT_RUNTIME_DIR", folder))),
            Kind::One => command
                .args(["--no-consort", "--players", &self.players.to_string()])
                .args(["--start-step", &format!("{step_s:.3}")]),
        };
        command
            .arg(&self.film)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // SAFETY: between fork and exec, a system call about the child itself and nothing else.
        unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
        command.spawn().map_err(|source| DemoFailure::NoPlayer {
            path: self.player.clone(),
            source,
        })
    }
}

fn finish(child: Child) -> Result<(), DemoFailure> {
    let ended = child.wait_with_output();
    let ended = ended.map_err(|error| DemoFailure::Log {
        path: "a player".into(),
        what: error.to_string(),
    })?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(DemoFailure::Player {
            status: ended.status,
            said: String::from_utf8_lossy(&ended.stderr).trim().to_owned(),
        }),
    }
}

/// The first CPU that this may run on, for it and its children.
pub fn stay_on_one_cpu() -> Result<(), DemoFailure> {
    let failed = || DemoFailure::Pin(io::Error::last_os_error());
    // SAFETY: all bits zero is an empty set.
    let (mut mine, mut one): (libc::cpu_set_t, libc::cpu_set_t) = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid, and as large as said; below, a CPU's number is below that of its bits.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&mine), &mut mine) } != 0 {
        return Err(failed());
    }
    let is_mine = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &mine) };
    let first = (0..libc::CPU_SETSIZE as usize).find(is_mine);
    unsafe { libc::CPU_SET(first.unwrap_or(0), &mut one) };
    // SAFETY: as above.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&one), &one) } {
        0 => Ok(()),
        _ => Err(failed()),
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from);
    // The clock exists on every Linux.
    now.map_or(0, |now| now.as_nanos() as u64)
}
