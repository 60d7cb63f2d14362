// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loading, unloading, and who may.

use std::{fs, os::unix::fs::MetadataExt, os::unix::process::CommandExt, path::Path};

use nix::sys::signal::Signal;

use crate::{
    check,
    suite::{
        consort::{await_state, consort, consort_as, status, Daemon, SOCKET},
        machine::{is_under_sched_ext, scheduler_state},
        process::{Role, ALICE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test { name: "lifecycle.sigterm", cpus: Cpus::Any, needs: Needs::NoDaemon, run: sigterm },
    Test { name: "lifecycle.sigint_and_options", cpus: Cpus::One, needs: Needs::NoDaemon, run: sigint_and_options },
    Test { name: "lifecycle.no_daemon", cpus: Cpus::One, needs: Needs::NoDaemon, run: no_daemon },
    Test { name: "lifecycle.not_root", cpus: Cpus::One, needs: Needs::NoDaemon, run: not_root },
    Test { name: "lifecycle.root_without_capabilities", cpus: Cpus::One, needs: Needs::NoDaemon, run: capabilities },
    Test { name: "lifecycle.bad_options", cpus: Cpus::One, needs: Needs::NoDaemon, run: bad_options },
    Test { name: "lifecycle.partial", cpus: Cpus::Any, needs: Needs::NoDaemon, run: partial },
    Test { name: "lifecycle.everybody", cpus: Cpus::One, needs: Needs::Daemon, run: everybody },
    Test { name: "lifecycle.second_serve", cpus: Cpus::One, needs: Needs::Daemon, run: second_serve },
    Test { name: "lifecycle.other_scheduler", cpus: Cpus::One, needs: Needs::Daemon, run: other_scheduler },
    Test { name: "lifecycle.socket_permissions", cpus: Cpus::One, needs: Needs::Daemon, run: socket_permissions },
];

/// Starts a daemon with these options, looks at it, and ends it by a signal. Loading is slow in an emulator: once each.
fn unloads_on(signal: Signal, options: &[&str], look: fn() -> Outcome) -> Outcome {
    check!(scheduler_state() == "disabled", "before: {}", scheduler_state());
    let mut daemon = Daemon::start(options)?;
    look()?;
    daemon.signal(signal)?;
    let code = daemon.exit_code()?;
    check!(code == 0, "{signal} ends the daemon with exit code {code}");
    check!(scheduler_state() == "disabled", "the daemon has ended, the scheduler is {}", scheduler_state());
    check!(!Path::new(SOCKET).exists(), "the daemon left its socket behind");
    Ok(())
}

fn sigterm() -> Outcome {
    unloads_on(Signal::SIGTERM, &[], || Ok(()))
}

fn sigint_and_options() -> Outcome {
    unloads_on(Signal::SIGINT, &["--granularity", "10ms", "--min-slice", "200us"], || {
        let tunables = &status()?["tunables"];
        check!(tunables["granularity_ns"] == 10_000_000 && tunables["min_slice_ns"] == 200_000, "{tunables}");
        Ok(())
    })
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
    check!(scheduler_state() == "disabled", "the scheduler is {}", scheduler_state());
    // The place of the socket was not what kept her from it.
    let mut elsewhere = std::process::Command::new("consort");
    elsewhere.arg("serve").env("CONSORT_SOCKET", "/tmp/alice.sock").uid(ALICE).gid(ALICE);
    crate::suite::consort::run(elsewhere)?.expect(4, &["root", "sudo"])?;
    check!(scheduler_state() == "disabled", "the scheduler is {}", scheduler_state());
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
    check!(scheduler_state() == "disabled", "the scheduler is {}", scheduler_state());
    Ok(())
}

fn bad_options() -> Outcome {
    consort(&["serve", "--granularity", "10parsecs"])?.expect(2, &["parsecs", "ms"])?;
    consort(&["serve", "--granularity", "1ns"])?.expect(2, &["granularity", "100us", "1s"])?;
    consort(&["serve", "--min-slice", "30ms", "--granularity", "20ms"])?.expect(2, &["min-slice", "20ms"])?;
    consort(&["serve", "--frobnicate"])?.expect(2, &["--frobnicate"])?;
    check!(scheduler_state() == "disabled", "the scheduler is {}", scheduler_state());
    Ok(())
}

fn partial() -> Outcome {
    let daemon = Daemon::start(&["--partial"])?;
    check!(status()?["scheduler"]["partial"] == true, "status does not say that it is partial");
    let outsider = Role::ready("hog")?;
    let mut insider = std::process::Command::new("consort")
        .args(["run", "--", "sleep", "1000"])
        .spawn()
        .map_err(|error| error.to_string())?;
    let in_ext = crate::suite::process::wait_until(crate::suite::process::PATIENCE, "the opted-in task", || {
        is_under_sched_ext(insider.id())
    });
    let _ = insider.kill();
    let _ = insider.wait();
    in_ext?;
    check!(!is_under_sched_ext(outsider.pid())?, "a task that has not opted in is under the scheduler");
    check!(!is_under_sched_ext(1)?, "process 1 is under the scheduler");
    // Who has not opted in may not join, and is told how.
    let client = crate::suite::client::Client::hello()?;
    let reply = client.join(crate::suite::client::gettid(), 0, "partial")?;
    check!(reply.error != 0 && reply.text.contains("consort run"), "{reply:?}");
    drop(daemon);
    await_state("disabled")
}

fn everybody() -> Outcome {
    let hog = Role::ready_as(ALICE, "hog")?;
    for pid in [1, hog.pid(), std::process::id()] {
        check!(is_under_sched_ext(pid)?, "process {pid} is not under the scheduler");
    }
    Ok(())
}

fn second_serve() -> Outcome {
    let first = Daemon::running_pid()?;
    consort(&["serve"])?.expect(6, &["another consort daemon", &first.to_string(), "consort status"])?;
    check!(Daemon::running_pid()? == first, "another daemon serves now");
    Ok(())
}

/// A second daemon with a socket of its own meets the first one's scheduler.
fn other_scheduler() -> Outcome {
    let first = Daemon::running_pid()?;
    let mut second = std::process::Command::new("consort");
    second.arg("serve").env("CONSORT_SOCKET", "/run/second/consort.sock");
    crate::suite::consort::run(second)?.expect(6, &["another sched_ext scheduler", "consort", "stop it first"])?;
    check!(Daemon::running_pid()? == first, "another daemon serves now");
    Ok(())
}

fn socket_permissions() -> Outcome {
    let socket = fs::metadata(SOCKET).map_err(|error| format!("{SOCKET}: {error}"))?;
    check!(socket.mode() & 0o777 == 0o666, "the socket's mode is {:o}", socket.mode());
    let folder = fs::metadata("/run/consort").map_err(|error| format!("/run/consort: {error}"))?;
    check!(folder.uid() == 0 && folder.mode() & 0o777 == 0o755, "the folder's mode is {:o}", folder.mode());
    consort_as(ALICE, &["status"])?.expect(0, &[])?;
    consort_as(ALICE, &["set", "granularity", "10ms"])?.expect(4, &["only root", "sudo"])?;
    let tunables = &status()?["tunables"];
    check!(tunables["granularity_ns"] != 10_000_000, "a user changed the granularity");
    // Each user sees the own programs only; root sees all.
    let _member = Role::ready_as(crate::suite::process::BOB, "joiner")?;
    let shown = consort_as(ALICE, &["status", "--json"])?;
    let shown: serde_json::Value = serde_json::from_str(&shown.out).map_err(|error| error.to_string())?;
    let sees_bob = |status: &serde_json::Value| {
        let domains = status["domains"].as_array().cloned().unwrap_or_default();
        domains.iter().any(|domain| domain["uid"] == crate::suite::process::BOB)
    };
    check!(!sees_bob(&shown), "alice sees bob's domain: {shown}");
    check!(sees_bob(&status()?), "root does not see bob's domain");
    Ok(())
}
