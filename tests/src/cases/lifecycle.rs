// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loading, unloading, and who may.

use std::{
    fs, os::unix::fs::MetadataExt, os::unix::process::CommandExt, path::Path, time::Duration,
};

use nix::sys::signal::Signal;

use super::effects::preemptions_per_ms;
use crate::{
    check,
    suite::{
        board::Field,
        consort::{
            await_members, await_state, consort, consort_as, status, Daemon, DAEMON_LOG, SOCKET,
        },
        machine::{is_under_sched_ext, scheduler_state},
        process::{shares, Role, ALICE},
        Cpus, Needs, Outcome, Test,
    },
};

/// Loading is slow in an emulator: the tests start as few daemons as they can, and the last of those without one leaves
/// its daemon to those with one.
pub const TESTS: &[Test] = &[
    Test::on_one("lifecycle.no_daemon", Needs::NoDaemon, no_daemon),
    Test::on_one("lifecycle.not_root", Needs::NoDaemon, not_root),
    Test::on_one(
        "lifecycle.root_without_capabilities",
        Needs::NoDaemon,
        capabilities,
    ),
    Test::on_one("lifecycle.bad_options", Needs::NoDaemon, bad_options),
    Test::on_one("lifecycle.sigterm", Needs::NoDaemon, sigterm),
    Test::on_one(
        "lifecycle.options_partial_sigint",
        Needs::NoDaemon,
        options_partial_sigint,
    ),
    Test::on_one("lifecycle.detached_by_sysrq", Needs::NoDaemon, detached),
    Test::on_one("lifecycle.everybody", Needs::Daemon, everybody),
    Test::on_one("lifecycle.second_serve", Needs::Daemon, second_serve),
    Test::on_one("lifecycle.other_scheduler", Needs::Daemon, other_scheduler),
    Test::on_one(
        "lifecycle.socket_permissions",
        Needs::Daemon,
        socket_permissions,
    ),
    Test {
        name: "lifecycle.verifier_steps",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: verifier_steps,
    },
];

/// Of the million steps that the kernel's verifier takes for a program: the rest is for kernels that take more of them.
const VERIFIER_STEPS_MAX: u32 = 600_000;

/// Starts a daemon with these options, looks at it, and ends it by a signal.
fn unloads_on(signal: Signal, options: &[&str], look: impl FnOnce() -> Outcome) -> Outcome {
    let mut daemon = Daemon::start(options)?;
    look()?;
    daemon.signal(signal)?;
    let code = daemon.exit_code()?;
    check!(code == 0, "{signal} ends the daemon with exit code {code}");
    let state = scheduler_state();
    check!(
        state == "disabled",
        "the daemon has ended, the scheduler is {state}"
    );
    check!(
        !Path::new(SOCKET).exists(),
        "the daemon left its socket behind"
    );
    Ok(())
}

/// The slices and the words of the log are those that the daemon was started with; other slices can be set.
fn sigterm() -> Outcome {
    let said = log_from_here();
    let options = ["--granularity=12ms", "--min-slice=12ms", "--log=error"];
    unloads_on(Signal::SIGTERM, &options, || {
        let hogs = (0..6).map(|_| Role::ready("hog"));
        let hogs = hogs.collect::<Result<Vec<_>, _>>()?;
        let long = preemptions_per_ms(&hogs)?;
        consort(&["set", "min-slice", "500us"])?.expect(0, &[])?;
        let short = preemptions_per_ms(&hogs)?;
        consort(&["set", "granularity", "60ms"])?.expect(0, &[])?;
        let longer = preemptions_per_ms(&hogs)?;
        // 12 ms, a sixth of that, and a sixth of 60 ms.
        check!(
            short > 2.5 * long && short > 2.5 * longer,
            "hogs are preempted {long:.3} times a millisecond by shortest slices of 12 ms, {short:.3} times by the \
             granularity of 12 ms, {longer:.3} times by one of 60 ms"
        );
        Ok(())
    })?;
    let said = said();
    check!(said.is_empty(), "asked for errors, it logs {said:?}");
    Ok(())
}

/// For several CPUs it takes most.
fn verifier_steps() -> Outcome {
    let log = fs::read_to_string(DAEMON_LOG).map_err(|error| error.to_string())?;
    let told = log.split("verifier_steps=").nth(1).unwrap_or_default();
    let told = told.split_whitespace().next().unwrap_or_default();
    let steps: u32 = told
        .parse()
        .map_err(|error| format!("{error}: verifier_steps={told:?} in {log}"))?;
    check!(
        (1..=VERIFIER_STEPS_MAX).contains(&steps),
        "the verifier took {steps} steps, at most {VERIFIER_STEPS_MAX} are expected"
    );
    println!("{steps} steps");
    Ok(())
}

/// Returns what the daemons log from now on.
fn log_from_here() -> impl Fn() -> String {
    let log = || fs::read_to_string(DAEMON_LOG).unwrap_or_default();
    let before = log().len();
    move || log().split_off(before)
}

fn options_partial_sigint() -> Outcome {
    let options = ["--partial", "--granularity", "10ms", "--min-slice", "200us"];
    let said = log_from_here();
    unloads_on(Signal::SIGINT, &options, || {
        let tunables = &status()?["tunables"];
        let as_asked =
            tunables["granularity_ns"] == 10_000_000 && tunables["min_slice_ns"] == 200_000;
        check!(as_asked, "{tunables}");
        partial()?;
        partial_under_load()
    })?;
    let said = said();
    check!(said.contains("serving"), "the daemon logs {said:?}");
    Ok(())
}

/// Those that opted in share among themselves by weight, and have what a program of the stock scheduler leaves.
fn partial_under_load() -> Outcome {
    let opted_in = || Role::ready_by("consort run --", "hog");
    let (heavy, light) = (opted_in()?, opted_in()?);
    super::fairness::set_nice(&light, 5)?;
    let got = shares(&[&heavy, &light], Duration::from_secs(1))?;
    check!(
        (got[1] - 0.247).abs() < 0.05,
        "of two that opted in one has nice 5: {got:.3?}"
    );
    let outsider = Role::ready("hog")?;
    let got = shares(&[&outsider, &heavy, &light], Duration::from_secs(1))?;
    check!(
        got[0] > 0.8,
        "one that has not opted in runs before those that have: {got:.3?}"
    );
    Ok(())
}

/// The kernel takes the scheduler away: the daemon says so and ends with an exit code of its own, and the members are
/// back with the next one.
fn detached() -> Outcome {
    let log = || fs::read_to_string(DAEMON_LOG).unwrap_or_default();
    let log_before = log().len();
    let mut daemon = Daemon::start(&[])?;
    let roles = [
        Role::ready("member ejected")?,
        Role::ready("ticker ejected 10")?,
    ];
    fs::write("/proc/sysrq-trigger", "S").map_err(|error| format!("no sysrq: {error}"))?;
    let code = daemon.exit_code()?;
    check!(
        code == 7,
        "the daemon ended with exit code {code} instead of 7"
    );
    await_state("disabled")?;
    let log = log();
    let said = log.get(log_before..).unwrap_or_default();
    for word in ["ejected", "stock scheduler", "start `consort serve` again"] {
        check!(
            said.contains(word),
            "the daemon's last words lack {word:?}: {said}"
        );
    }
    let progress = || {
        roles
            .iter()
            .try_for_each(|role| role.await_progress(Field::Polls, 20))
    };
    progress()?;
    Daemon::start(&[])?.keep();
    await_members(2)?;
    progress()
}

fn no_daemon() -> Outcome {
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["set", "granularity", "10ms"],
        &["run", "--", "true"],
    ] {
        consort(arguments)?.expect(3, &[SOCKET, "consort serve"])?;
    }
    Ok(())
}

fn not_root() -> Outcome {
    consort_as(ALICE, &["serve"])?.expect(4, &["root"])?;
    check!(
        scheduler_state() == "disabled",
        "the scheduler is {}",
        scheduler_state()
    );
    // The place of the socket was not what kept her from it.
    let mut elsewhere = std::process::Command::new("consort");
    elsewhere
        .arg("serve")
        .env("CONSORT_SOCKET", "/tmp/alice.sock")
        .uid(ALICE)
        .gid(ALICE);
    crate::suite::consort::run(elsewhere)?.expect(4, &["root", "sudo"])?;
    check!(
        scheduler_state() == "disabled",
        "the scheduler is {}",
        scheduler_state()
    );
    Ok(())
}

/// Root in name only, as in a container.
fn capabilities() -> Outcome {
    let mut command = std::process::Command::new("consort");
    command.arg("serve");
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            const CAP_SYS_ADMIN: libc::c_ulong = 21;
            const CAP_PERFMON: libc::c_ulong = 38;
            const CAP_BPF: libc::c_ulong = 39;
            for capability in [CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF] {
                if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    crate::suite::consort::run(command)?.expect(4, &["CAP_BPF", "sudo"])?;
    check!(
        scheduler_state() == "disabled",
        "the scheduler is {}",
        scheduler_state()
    );
    Ok(())
}

fn bad_options() -> Outcome {
    consort(&["serve", "--granularity", "10parsecs"])?.expect(2, &["parsecs", "ms"])?;
    consort(&["serve", "--granularity", "1ns"])?.expect(2, &["granularity", "100us", "1s"])?;
    consort(&["serve", "--min-slice", "30ms", "--granularity", "20ms"])?
        .expect(2, &["min-slice", "20ms"])?;
    consort(&["serve", "--watchdog", "31s"])?.expect(2, &["watchdog", "5s", "30s"])?;
    consort(&["serve", "--frobnicate"])?.expect(2, &["--frobnicate"])?;
    check!(
        scheduler_state() == "disabled",
        "the scheduler is {}",
        scheduler_state()
    );
    Ok(())
}

/// Only who has opted in is under the scheduler.
fn partial() -> Outcome {
    check!(
        status()?["scheduler"]["partial"] == true,
        "status does not say that it is partial"
    );
    // It sleeps: Linux 6.18 runs no task of sched_ext while one of the stock scheduler is runnable.
    let mut outsider = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut insider = std::process::Command::new("consort")
        .args(["run", "--", "sleep", "1000"])
        .spawn()
        .map_err(|error| error.to_string())?;
    let in_ext = crate::suite::process::wait_until(
        crate::suite::process::PATIENCE,
        "the opted-in task",
        || is_under_sched_ext(insider.id()),
    );
    let outsider_in_ext = is_under_sched_ext(outsider.id());
    for child in [&mut insider, &mut outsider] {
        let _ = child.kill();
        let _ = child.wait();
    }
    in_ext?;
    check!(
        !outsider_in_ext?,
        "a task that has not opted in is under the scheduler"
    );
    check!(!is_under_sched_ext(1)?, "process 1 is under the scheduler");
    // A program that has not opted in may not join, and is told how.
    let client = crate::suite::client::Client::hello()?;
    let reply = client.join(crate::suite::client::gettid(), 0, "partial")?;
    check!(
        reply.error != 0 && reply.text.contains("consort run"),
        "{reply:?}"
    );
    Ok(())
}

fn everybody() -> Outcome {
    let hog = Role::ready_as(ALICE, "hog")?;
    for pid in [1, hog.pid(), std::process::id()] {
        check!(
            is_under_sched_ext(pid)?,
            "process {pid} is not under the scheduler"
        );
    }
    Ok(())
}

fn second_serve() -> Outcome {
    let first = Daemon::running_pid()?;
    consort(&["serve"])?.expect(
        6,
        &[
            "another consort daemon",
            &first.to_string(),
            "consort status",
        ],
    )?;
    check!(Daemon::running_pid()? == first, "another daemon serves now");
    Ok(())
}

/// A second daemon with a socket of its own meets the first one's scheduler.
fn other_scheduler() -> Outcome {
    let first = Daemon::running_pid()?;
    let mut second = std::process::Command::new("consort");
    second
        .arg("serve")
        .env("CONSORT_SOCKET", "/run/second/consort.sock");
    crate::suite::consort::run(second)?.expect(
        6,
        &["another sched_ext scheduler", "consort", "stop it first"],
    )?;
    check!(Daemon::running_pid()? == first, "another daemon serves now");
    Ok(())
}

fn socket_permissions() -> Outcome {
    let socket = fs::metadata(SOCKET).map_err(|error| format!("{SOCKET}: {error}"))?;
    check!(
        socket.mode() & 0o777 == 0o666,
        "the socket's mode is {:o}",
        socket.mode()
    );
    let folder = fs::metadata("/run/consort").map_err(|error| format!("/run/consort: {error}"))?;
    check!(
        folder.uid() == 0 && folder.mode() & 0o777 == 0o755,
        "the folder's mode is {:o}",
        folder.mode()
    );
    consort_as(ALICE, &["status"])?.expect(0, &[])?;
    consort_as(ALICE, &["set", "granularity", "10ms"])?.expect(4, &["only root", "sudo"])?;
    let tunables = &status()?["tunables"];
    check!(
        tunables["granularity_ns"] != 10_000_000,
        "a user changed the granularity"
    );
    // Each user sees the own programs only; root sees all.
    let _member = Role::ready_as(crate::suite::process::BOB, "joiner")?;
    let shown = consort_as(ALICE, &["status", "--json"])?;
    let shown: serde_json::Value =
        serde_json::from_str(&shown.out).map_err(|error| error.to_string())?;
    let sees_bob = |status: &serde_json::Value| {
        let domains = status["domains"].as_array().cloned().unwrap_or_default();
        domains
            .iter()
            .any(|domain| domain["uid"] == crate::suite::process::BOB)
    };
    check!(!sees_bob(&shown), "alice sees bob's domain: {shown}");
    check!(sees_bob(&status()?), "root does not see bob's domain");
    Ok(())
}
