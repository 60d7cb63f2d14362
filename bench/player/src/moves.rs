// SPDX-License-Identifier: MIT OR Apache-2.0
//! Players that play on while a daemon comes and goes: they move to the kernel's scheduler and back to user level.

use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use crate::error::Error;
use crate::fleet::{self, FleetOptions, FleetResult};
use crate::processes::spawn;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Loading waits for the kernel, which verifies the program.
const MOVE_MAX_NS: u64 = 60 * NS_PER_S;
const LOOK_NS: u64 = 5 * NS_PER_MS;

#[derive(Clone, Debug, Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    fleet: FleetOptions,
    /// The command that is the daemon
    #[arg(long, default_value = "consort")]
    daemon: String,
    /// How often the members move, to the kernel's scheduler or back
    #[arg(long, default_value_t = 100)]
    moves: u64,
    /// How long they stay where they are
    #[arg(long, default_value_t = 200)]
    stay_ms: u64,
    /// A due event that is served more than this late counts
    #[arg(long, default_value_t = 4.0)]
    late_ms: f64,
}

#[derive(Serialize)]
pub struct Moves {
    options: Options,
    moves: u64,
    /// From the daemon's start, or end, until the last member has moved.
    slowest_move_ms: f64,
    late_events: u64,
    fleet: FleetResult,
}

#[derive(Serialize, Deserialize)]
struct Driven {
    moves: u64,
    slowest_ns: u64,
}

/// The members move within the window, as often as was asked for or as there is time for.
pub fn run(options: Options) -> Result<Moves, Error> {
    let (from_ns, until_ns) = options.fleet.window_ns(now_ns());
    let driver = options.clone();
    let driver = spawn(move || {
        sleep_until_ns(from_ns);
        drive(&driver, until_ns)
    })?;
    let fleet = fleet::run(options.fleet.clone())?;
    let driven = driver.wait()?;
    Ok(Moves {
        moves: driven.moves,
        slowest_move_ms: driven.slowest_ns as f64 / NS_PER_MS as f64,
        late_events: fleet.later_than(options.late_ms),
        fleet,
        options,
    })
}

fn drive(options: &Options, until_ns: u64) -> Result<Driven, Error> {
    let mut driven = Driven {
        moves: 0,
        slowest_ns: 0,
    };
    while driven.moves < options.moves {
        let mut daemon = start(options)?;
        let moved = driven.until(options, 0, until_ns);
        end(&mut daemon)?;
        if !(moved && driven.until(options, options.fleet.players, until_ns)) {
            break;
        }
    }
    Ok(driven)
}

/// With the greatest nice value: what is measured are the moves, not the kernel's verifying of the program beside the players.
fn start(options: &Options) -> Result<Child, Error> {
    let mut daemon = Command::new(&options.daemon);
    daemon
        .arg("serve")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: a system call about the child itself, and nothing else, between fork and exec.
    unsafe {
        daemon.pre_exec(|| {
            libc::setpriority(libc::PRIO_PROCESS, 0, 19);
            Ok(())
        });
    }
    let started = daemon.spawn();
    started.map_err(|source| Error::io(format!("start {}", options.daemon), source))
}

fn end(daemon: &mut Child) -> Result<(), Error> {
    // SAFETY: a child of ours that was not waited for.
    unsafe { libc::kill(daemon.id() as i32, libc::SIGTERM) };
    daemon
        .wait()
        .map_err(|source| Error::io("wait for the daemon", source))?;
    Ok(())
}

impl Driven {
    /// Waits until so many members are at user level, and stays a while. False: there is no time for more.
    fn until(&mut self, options: &Options, members: usize, until_ns: u64) -> bool {
        let begin_ns = now_ns();
        while at_user_level(&options.fleet.membership.domain) != members {
            if now_ns() > until_ns || now_ns() > begin_ns + MOVE_MAX_NS {
                return false;
            }
            sleep_until_ns(now_ns() + LOOK_NS);
        }
        self.slowest_ns = self.slowest_ns.max(now_ns() - begin_ns);
        self.moves += 1;
        sleep_until_ns(now_ns() + options.stay_ms * NS_PER_MS);
        now_ns() < until_ns
    }
}

fn at_user_level(domain: &str) -> usize {
    let domains = consort_userlevel::inspect::domains(consort_userlevel::Runtime::of_user().path());
    let named = domains.iter().find(|it| it.name == domain);
    named.map_or(0, |it| it.members.len())
}
