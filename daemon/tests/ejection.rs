// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the daemon does when the kernel ejects the scheduler.

mod common;

use std::{fs, path::Path, time::Duration};

use common::{gettid, join, request, stall, Daemon, Program};
use consort_abi::{CONSORT_HELLO, CONSORT_RESERVE, CONSORT_USAGE};
use consort_daemon::{
    ejection::{Mode, Restarts},
    serve, End, ServeError,
};
use consort_kernel::ExitReport;

fn other_fault() -> ExitReport {
    ExitReport {
        kind: 1025,
        reason: "scx_bpf_error".to_owned(),
        ..stall("a broken invariant")
    }
}

fn status(daemon: &Daemon) -> serde_json::Value {
    daemon
        .connect()
        .control(r#"{"command": "status"}"#)
        .unwrap()
}

/// In safe mode, as after two stalls.
fn in_safe_mode() -> Daemon {
    let daemon = Daemon::start();
    daemon.eject_and_await(stall("hog[77] failed to run for 30.001s"));
    daemon.eject_and_await(stall("cat[78] failed to run for 30.002s"));
    assert_eq!(
        daemon.host.record().loads,
        [Mode::Full, Mode::Full, Mode::Safe]
    );
    daemon
}

#[test]
fn the_scheduler_comes_back_and_programs_join_again() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    daemon.eject_and_await(stall("hog[77] failed to run for 30.001s"));
    assert!(
        program.receive().is_none(),
        "programs learn of it by the closed connection"
    );
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    assert_eq!(daemon.host.record().loads, [Mode::Full, Mode::Full]);
}

/// It holds until the daemon ends, be the scheduler another one.
#[test]
fn what_was_set_is_set_again() {
    let daemon = Daemon::start();
    let set = r#"{"command": "set", "granularity_ns": 10000000, "min_slice_ns": 300000}"#;
    daemon.connect().control(set).unwrap();
    let held = daemon.host.record().tunables;
    for fault in [stall("hog[77] failed to run for 30.001s"), other_fault()] {
        daemon.eject_and_await(fault);
        daemon.hello();
        assert_eq!(daemon.host.record().tunables, held);
    }
}

#[test]
fn status_tells_of_the_last_ejection() {
    let daemon = Daemon::start();
    assert_eq!(status(&daemon)["ejections"]["count"], 0);
    assert!(status(&daemon)["ejections"]["last"].is_null());
    let requests = status(&daemon)["daemon"]["requests"].as_u64().unwrap();
    daemon.eject_and_await(stall("hog[77] failed to run for 30.001s"));
    let status = status(&daemon);
    assert_eq!(status["scheduler"]["mode"], "full");
    assert_eq!(status["scheduler"]["state"], "running");
    let last = &status["ejections"]["last"];
    assert_eq!(status["ejections"]["count"], 1);
    assert_eq!(last["mode"], "full");
    assert_eq!(last["kind"], 1026);
    assert_eq!(last["reason"], "runnable task stall");
    assert_eq!(last["message"], "hog[77] failed to run for 30.001s");
    let dump = fs::read_to_string(Path::new(last["dump"].as_str().unwrap())).unwrap();
    for part in ["runnable task stall", "hog[77]", "CPU states"] {
        assert!(dump.contains(part), "{dump}");
    }
    assert!(
        status["daemon"]["requests"].as_u64().unwrap() > requests,
        "the daemon's own counts go on"
    );
}

#[test]
fn the_same_fault_twice_brings_safe_mode_and_another_one_does_not() {
    let daemon = Daemon::start();
    daemon.eject_and_await(stall("hog[77] failed to run for 30.001s"));
    daemon.eject_and_await(other_fault());
    assert_eq!(
        daemon.host.record().loads,
        [Mode::Full, Mode::Full, Mode::Full]
    );
    daemon.eject_and_await(stall("cat[78] failed to run for 30.001s"));
    assert_eq!(daemon.host.record().loads.last(), Some(&Mode::Safe));
    let status = status(&daemon);
    assert_eq!(status["scheduler"]["mode"], "safe");
    assert_eq!(status["ejections"]["count"], 3);
}

#[test]
fn in_safe_mode_programs_are_refused_and_told_why() {
    let daemon = in_safe_mode();
    let is_refused = |reply: consort_daemon::wire::Reply| {
        assert_eq!(reply.error, libc::EHOSTDOWN, "{}", reply.text);
        assert!(reply.text.contains("safe mode"), "{}", reply.text);
    };
    let program = daemon.connect();
    for kind in [CONSORT_HELLO, CONSORT_RESERVE, CONSORT_USAGE] {
        is_refused(program.ask(&request(kind)));
    }
    is_refused(program.ask(&join(gettid(), 0, "video")));
    for change in [
        r#"{"command": "set", "granularity_ns": 5000000}"#,
        r#"{"command": "class_remove", "name": "adaptive"}"#,
        r#"{"command": "reserve", "number": 1, "class": "guaranteed", "rate": 0.1, "period_ns": 30000000}"#,
    ] {
        is_refused(daemon.connect().control(change).unwrap_err());
    }
    for question in ["status", "domains", "clients", "classes", "reservations"] {
        let text = format!(r#"{{"command": "{question}"}}"#);
        daemon.connect().control(&text).unwrap();
    }
}

/// What is reserved is taken up by the next full scheduler, though safe mode has none of it.
#[test]
fn safe_mode_leaves_the_journal_as_it_is() {
    let daemon = Daemon::start();
    let reserve = format!(
        r#"{{"command": "reserve", "number": {}, "class": "guaranteed", "rate": 0.1, "period_ns": 30000000}}"#,
        std::process::id()
    );
    daemon.connect().control(&reserve).unwrap();
    daemon.eject_and_await(stall("hog[77] failed to run for 30.001s"));
    daemon.wait_until("the second scheduler has the reservation", |record| {
        record.reservations.len() == 1
    });
    let journal = daemon.config.socket.with_extension("journal");
    let before = fs::read(&journal).unwrap();
    daemon.eject_and_await(stall("cat[78] failed to run for 30.002s"));
    assert_eq!(daemon.host.record().loads.last(), Some(&Mode::Safe));
    assert!(daemon.host.record().reservations.is_empty());
    assert_eq!(fs::read(&journal).unwrap(), before);
}

#[test]
fn a_fault_in_safe_mode_ends_the_daemon() {
    let daemon = in_safe_mode();
    let socket = daemon.config.socket.clone();
    daemon.eject(other_fault());
    match daemon.end() {
        Ok(End::Ejected {
            mode,
            report,
            count,
        }) => {
            assert_eq!((mode, count), (Mode::Safe, 3));
            assert_eq!(report, other_fault());
        }
        other => panic!("{other:?}"),
    }
    assert!(!socket.exists());
}

#[test]
fn a_scheduler_that_cannot_be_loaded_again_gives_way_to_safe_mode() {
    let daemon = Daemon::start();
    daemon.host.record().unloadable = Some(Mode::Full);
    daemon.eject_and_await(stall("hog[77] failed to run for 30.001s"));
    assert_eq!(daemon.host.record().loads, [Mode::Full, Mode::Safe]);
    daemon.host.record().unloadable = Some(Mode::Safe);
    daemon.eject(stall("cat[78] failed to run for 30.002s"));
    assert!(matches!(daemon.end(), Ok(End::Ejected { .. })));
}

#[test]
fn a_signal_ends_the_pause() {
    let folder = common::Folder::new();
    let config = consort_daemon::Config {
        socket: folder.0.join("consort.sock"),
        limits: Default::default(),
        classes: None,
        drops_privileges: false,
        replaces: false,
        division: consort_daemon::config::Division::by_default(1),
        restarts: Restarts {
            pause: Duration::from_secs(3600),
            ..Restarts::default()
        },
    };
    let host = common::FakeHost::default();
    let (for_thread, socket) = (host.clone(), config.socket.clone());
    let (send, receive) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || -> Result<End, ServeError> {
        send.send(nix::sys::pthread::pthread_self()).unwrap();
        serve(&config, |mode| for_thread.load(mode))
    });
    while Program::try_connect(&socket).is_none() {
        std::thread::yield_now();
    }
    host.record().exit = Some(stall("hog[77] failed to run for 30.001s"));
    while Program::try_connect(&socket).is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let daemon = receive.recv().unwrap();
    nix::sys::pthread::pthread_kill(daemon, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(matches!(thread.join().unwrap(), Ok(End::Signal(_))));
    assert_eq!(host.record().loads, [Mode::Full]);
}
