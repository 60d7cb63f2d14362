// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel ejects the scheduler: what the daemon and programs do then.
//!
//! What provokes it is a real-time program that never sleeps: no task of the scheduler runs for longer than the kernel's
//! watchdog waits.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::fairness::set_nice;
use crate::{
    check,
    suite::{
        board::Field,
        consort::{await_members, await_state, consort, status, Daemon, DAEMON_LOG},
        machine::{scheduler_state, EXT_SERVER},
        process::{shares, wait_until, Role, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[Test {
    name: "ejection.restart_safe_mode_end",
    cpus: Cpus::One,
    needs: Needs::Ejection,
    run: restart_safe_mode_end,
}];

/// RCU starves, too, and would have the scheduler ejected for that instead.
const RCU_IS_SILENT: &str = "/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress";
const RT_THROTTLE_US: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// The shortest that there is: starving an emulated machine takes as many instructions as running it.
const WATCHDOG: [&str; 2] = ["--watchdog", "5s"];
/// The watchdog's 5 s, and its going: Linux looks twice in the time that it allows.
const STARVED_S: u64 = 9;

/// A CPU on which real-time programs may starve all others; as before when it is dropped.
struct Unguarded {
    saved: Vec<(&'static str, String)>,
}

impl Unguarded {
    fn new() -> Result<Unguarded, String> {
        let mut unguarded = Unguarded { saved: Vec::new() };
        for (path, value) in [
            (RCU_IS_SILENT, "1"),
            (RT_THROTTLE_US, "-1"),
            (EXT_SERVER, "0"),
        ] {
            let Ok(before) = fs::read_to_string(path) else {
                continue;
            };
            fs::write(path, value).map_err(|error| format!("cannot write {path}: {error}"))?;
            unguarded.saved.push((path, before));
        }
        Ok(unguarded)
    }
}

impl Drop for Unguarded {
    fn drop(&mut self) {
        for (path, before) in &self.saved {
            let _ = fs::write(path, before.trim());
        }
    }
}

/// Starves everybody until the kernel ejects the scheduler.
fn starve() -> Outcome {
    let _unguarded = Unguarded::new()?;
    let mut hog = Role::start(&format!("fifo-hog {STARVED_S}"))?;
    hog.finish_within(4 * PATIENCE)
}

/// What the daemon has logged since its log was so long.
fn log_since(length: usize) -> String {
    let log = fs::read(DAEMON_LOG).unwrap_or_default();
    String::from_utf8_lossy(log.get(length..).unwrap_or_default()).into_owned()
}

/// The status of a daemon that has come back.
fn await_ejections(count: u64) -> Result<Value, String> {
    wait_until(
        4 * PATIENCE,
        &format!("{count} ejections and a daemon"),
        || Ok(consort(&["status"])?.code == 0 && status()?["ejections"]["count"] == count),
    )?;
    check!(
        scheduler_state() == "enabled",
        "the daemon serves, and the scheduler is {}",
        scheduler_state()
    );
    status()
}

/// First the scheduler comes back, and the members to it. The same again brings safe mode, in which everybody has a fair
/// share and members are on their own. After that the daemon gives up.
fn restart_safe_mode_end() -> Outcome {
    let logged = fs::metadata(DAEMON_LOG).map_or(0, |file| file.len() as usize);
    let mut daemon = Daemon::start(&WATCHDOG)?;
    let roles = [
        Role::ready("member ejected")?,
        Role::ready("ticker ejected 10")?,
    ];
    let progress = || {
        roles
            .iter()
            .try_for_each(|role| role.await_progress(Field::Polls, 20))
    };

    starve()?;
    let status = await_ejections(1)?;
    let last = &status["ejections"]["last"];
    check!(
        status["scheduler"]["mode"] == "full" && last["reason"] == "runnable task stall",
        "{status}"
    );
    let dump = last["dump"].as_str().unwrap_or_default();
    let dumped = fs::read_to_string(dump).map_err(|error| format!("{dump}: {error}"))?;
    for word in ["runnable task stall", "CPU states", "shard: runnable"] {
        check!(dumped.contains(word), "the dump lacks {word:?}: {dumped}");
    }
    await_members(2)?;
    progress()?;

    starve()?;
    let status = await_ejections(2)?;
    check!(status["scheduler"]["mode"] == "safe", "{status}");
    safe_mode(&roles)?;
    progress()?;

    starve()?;
    let code = daemon.exit_code()?;
    check!(code == 7, "the daemon ended with exit code {code}");
    await_state("disabled")?;
    let said = log_since(logged);
    for word in [
        "the scheduler will be loaded again",
        "safe mode comes instead",
        "gives up",
        dump,
    ] {
        check!(said.contains(word), "the log lacks {word:?}: {said}");
    }
    progress()?;

    // A new daemon begins anew, and the members with it.
    let daemon = Daemon::start(&[])?;
    await_members(2)?;
    progress()?;
    drop(roles);
    await_members(0)?;
    daemon.signal(Signal::SIGTERM)
}

fn safe_mode(members: &[Role]) -> Outcome {
    wait_until(PATIENCE, "the members to know that they are alone", || {
        Ok(members.iter().all(|role| role.get(Field::Standing) == 1))
    })?;
    let said = consort(&["status"])?;
    for word in ["safe mode", "runnable task stall", "dump"] {
        check!(
            said.out.contains(word),
            "status lacks {word:?}: {}",
            said.out
        );
    }
    let pid = std::process::id().to_string();
    for refused in [
        &["set", "granularity", "10ms"][..],
        &["reserve", &pid, "--class", "guaranteed", "--rate", "0.1"],
    ] {
        consort(refused)?.expect(1, &["safe mode", "restart the daemon"])?;
    }
    // A program that joins now is on its own, as without a daemon.
    let late = Role::start("member late")?;
    late.await_progress(Field::Polls, 20)?;
    check!(
        late.get(Field::Standing) <= 1,
        "somebody has become a member in safe mode"
    );
    drop(late);
    let hogs = [
        Role::ready("hog")?,
        Role::ready("hog")?,
        Role::ready("hog")?,
    ];
    set_nice(&hogs[2], 5)?;
    let shares = shares(
        &hogs.iter().collect::<Vec<_>>(),
        std::time::Duration::from_secs(4),
    )?;
    // Weights of nice 0, 0 and 5: 1024, 1024 and 335.
    let fair = (0.38..0.48).contains(&shares[0]) && (0.38..0.48).contains(&shares[1]);
    check!(fair, "in safe mode the hogs have {shares:?}");
    Ok(())
}
