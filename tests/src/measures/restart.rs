// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon that ends, and is started anew among many processes: how long until it answers?

use std::time::{Duration, Instant};

use nix::{sys::signal::Signal, unistd::Pid};
use serde_json::{json, Value};

use super::number;
use crate::{
    check,
    suite::{
        client::Client,
        consort::{await_state, reservations, Daemon},
        manager::Manager,
        process::{wait_until, PATIENCE},
        sleepers::Sleepers,
        Outcome,
    },
};

/// Of each, so that all fit.
const RATE: f64 = 0.005;
const PERIOD_NS: u64 = 30_000_000;

/// `restart RESERVATIONS PROCESSES TIMES`: from the start of the next daemon, the one before having been killed, until it
/// answers HELLO. A service manager keeps the scheduler meanwhile; and once nobody does, so that it is loaded anew.
pub fn restart(arguments: &[&str]) -> Result<Value, String> {
    let held = number(arguments, 0, "a number of reservations")? as usize;
    let processes = number(arguments, 1, "a number of processes")? as usize;
    let times = number(arguments, 2, "a number of restarts")?;
    check!(
        times > 0 && held <= processes,
        "expected restarts, and a process for each reservation"
    );
    let sleepers = Sleepers::start(processes)?;
    let manager = Manager::start()?;
    let mut daemon = manager.start_daemon(&[])?;
    reserve_for(&sleepers.0[..held])?;
    let mut kept_ms = Vec::new();
    for _ in 0..times {
        end(&mut daemon)?;
        let began = Instant::now();
        daemon = manager.spawn_daemon(&[])?;
        kept_ms.push(answered_ms(began)?);
        check_held(held)?;
    }
    // As if there were no service manager.
    end(&mut daemon)?;
    manager.let_go();
    await_state("disabled")?;
    let began = Instant::now();
    daemon = Daemon::start(&[])?;
    let anew_ms = ms(began.elapsed());
    check_held(held)?;
    drop(daemon);
    Ok(json!({
        "reservations": held,
        "processes": processes,
        "restart_ms": kept_ms.iter().copied().fold(0.0, f64::max),
        "all_ms": kept_ms,
        "loaded_anew_ms": anew_ms,
    }))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn end(daemon: &mut Daemon) -> Outcome {
    daemon.signal(Signal::SIGKILL)?;
    daemon.exit_code().map(|_| ())
}

fn answered_ms(began: Instant) -> Result<f64, String> {
    wait_until(PATIENCE, "an answer", || Ok(Client::hello().is_ok()))?;
    Ok(ms(began.elapsed()))
}

fn reserve_for(pids: &[Pid]) -> Outcome {
    let client = Client::hello()?;
    for pid in pids {
        let command = json!({
            "command": "reserve", "number": pid.as_raw(), "class": "adaptive", "rate": RATE, "period_ns": PERIOD_NS,
        });
        client.command(&command)?;
    }
    check_held(pids.len())
}

fn check_held(number: usize) -> Outcome {
    let held = reservations()?.len();
    check!(held == number, "{held} reservations instead of {number}");
    Ok(())
}
