// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a daemon starts and ends.

mod common;

use std::{fs, os::unix::fs::PermissionsExt};

use common::{gettid, join, Daemon, FakeHost, Program};
use consort_daemon::{lock::LockError, serve, End, ServeError};

#[test]
fn a_second_daemon_names_the_first() {
    let daemon = Daemon::start();
    let second = serve(&daemon.config, |_| {
        panic!("the second daemon must not load a scheduler")
    });
    match second {
        Err(ServeError::Lock(LockError::Held { holder })) => {
            assert_eq!(holder, std::process::id().to_string());
        }
        other => panic!("{other:?}"),
    }
    // The first is not disturbed.
    daemon.hello();
}

#[test]
fn everybody_may_connect_and_nobody_else_may_write_the_lock() {
    let daemon = Daemon::start();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&daemon.config.socket), 0o666);
    assert_eq!(mode(&daemon.config.socket.with_extension("lock")), 0o644);
}

#[test]
fn a_daemon_that_cannot_load_leaves_no_socket_and_no_lock() {
    let folder = common::Folder::new();
    let config = consort_daemon::Config {
        socket: folder.0.join("below/consort.sock"),
        limits: Default::default(),
        classes: None,
        restarts: common::quick_restarts(),
    };
    for _ in 0..2 {
        let failed = serve(&config, |_| Err(consort_kernel::Error::NotPermitted));
        assert!(
            matches!(
                failed,
                Err(ServeError::Kernel(consort_kernel::Error::NotPermitted))
            ),
            "{failed:?}"
        );
        assert!(!config.socket.exists());
    }
}

#[test]
fn a_detached_scheduler_ends_the_daemon_and_the_reason_is_handed_on() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    let socket = daemon.config.socket.clone();
    let asked = common::unloaded();
    daemon.eject(asked.clone());
    match daemon.end() {
        Ok(End::Ejected { report, .. }) => assert_eq!(report, asked),
        other => panic!("{other:?}"),
    }
    assert!(!socket.exists());
    assert!(
        program.receive().is_none(),
        "programs learn of it by the closed connection"
    );
}

#[test]
fn a_daemon_replaces_the_socket_of_one_that_was_killed() {
    let folder = common::Folder::new();
    let path = folder.0.join("consort.sock");
    // A killed daemon leaves a socket on which nobody listens, and a lock file that nobody holds.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    fs::write(path.with_extension("lock"), "1234567\n").unwrap();
    let config = consort_daemon::Config {
        socket: path.clone(),
        limits: Default::default(),
        classes: None,
        restarts: common::quick_restarts(),
    };
    let host = FakeHost::default();
    let for_thread = host.clone();
    let thread = std::thread::spawn(move || serve(&config, |mode| for_thread.load(mode)));
    while Program::try_connect(&path).is_none() {
        std::thread::yield_now();
    }
    host.record().exit = Some(common::unloaded());
    assert!(matches!(thread.join().unwrap(), Ok(End::Ejected { .. })));
}
