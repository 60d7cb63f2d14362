// SPDX-License-Identifier: MIT OR Apache-2.0
//! As programs ask: over the socket, by the command and by the library.

use consort_abi::{
    CONSORT_LEND, CONSORT_RECOLLECT, CONSORT_RELEASE, CONSORT_RESERVE, CONSORT_USAGE,
};
use consort_daemon::{limits::Limits, peer::Processes, service::Service};
use nix::errno::Errno;

use crate::{
    common::{gettid, join, write_thread, Daemon, FakeHost, Folder},
    world::{PERIOD_NS, UID, USER},
};

/// Over the socket, as the command asks.
#[test]
fn a_program_reserves_for_itself() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let ask =
        r#"{"command": "reserve", "class": "guaranteed", "rate": 0.25, "period_ns": 33000000}"#;
    let answer = program.control(ask).unwrap();
    assert_eq!(answer["reservation"], 1);
    let page = program.control(r#"{"command": "reservations"}"#).unwrap();
    let held = &page["reservations"][0];
    assert_eq!(held["number"], std::process::id());
    assert_eq!(
        (&held["asked"], &held["given"]),
        (&0.25.into(), &0.5.into())
    );
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    let classes = program.control(r#"{"command": "classes"}"#).unwrap();
    assert_eq!(classes["classes"][0]["asked"], 0.25);
    program.control(r#"{"command": "release"}"#).unwrap();
    let classes = program.control(r#"{"command": "classes"}"#).unwrap();
    assert_eq!(classes["classes"][0]["asked"], 0.0);
    // A member may reserve, too.
    assert_eq!(program.control(ask).unwrap()["reservation"], 2);
}

#[test]
fn only_the_operator_divides_the_machine() {
    let folder = Folder::new();
    let processes = Processes::at(&folder.0);
    let host = FakeHost::default();
    let mut service = Service::new(Box::new(host), processes.clone(), Limits::default());
    write_thread(&folder.0, USER, &[USER], UID, 5);
    let peer = processes.peer(USER, UID).unwrap();
    for text in [
        r#"{"command": "class_set", "name": "mine", "capacity": 0.2}"#,
        r#"{"command": "class_remove", "name": "adaptive"}"#,
    ] {
        let refusal = consort_daemon::control::answer(&mut service, &peer, text).unwrap_err();
        assert_eq!(refusal.errno, Errno::EPERM);
    }
    let listed = consort_daemon::control::answer(&mut service, &peer, r#"{"command": "classes"}"#);
    assert!(listed.is_ok());
}

/// As libconsort asks: by the fields of a request, without a page.
#[test]
fn a_library_reserves_for_its_program() {
    let daemon = Daemon::start();
    let program = daemon.connect();
    let ask = |kind, rate, flags, class: &str| {
        let mut request = join(0, 0, class);
        request.type_ = kind as u16;
        (request.order, request.flags, request.event_ns) = (rate, flags, PERIOD_NS);
        program.ask(&request)
    };
    let reply = ask(CONSORT_RESERVE, 250_000, 0, "guaranteed");
    assert_eq!((reply.error, reply.client), (0, 1), "{}", reply.text);
    let page = program.control(r#"{"command": "reservations"}"#).unwrap();
    assert_eq!(page["reservations"][0]["asked"], 0.25);
    assert_eq!(page["reservations"][0]["period_ns"], PERIOD_NS);
    for (kind, rate, flags, class, errno) in [
        (CONSORT_RESERVE, 0, 0, "guaranteed", libc::ERANGE),
        (CONSORT_RESERVE, 600_000, 0, "guaranteed", libc::ENOSPC),
        (CONSORT_RESERVE, 100_000, 2, "guaranteed", libc::EINVAL),
        (CONSORT_RESERVE, 100_000, 0, "", libc::ENOENT),
        (CONSORT_LEND, 100_000, 0, "", libc::EINVAL),
        (CONSORT_RECOLLECT, 0, 0, "", libc::ENOENT),
        (CONSORT_RELEASE, 0, 4, "", libc::EINVAL),
        (CONSORT_USAGE, 0, 4, "", libc::EINVAL),
    ] {
        let reply = ask(kind, rate, flags, class);
        assert_eq!(reply.error, errno, "{kind}: {}", reply.text);
        assert!(!reply.text.is_empty());
    }
    let told = ask(CONSORT_USAGE, 0, 0, "");
    let fields: Vec<u32> = told
        .rest
        .chunks_exact(4)
        .map(|it| u32::from_ne_bytes(it.try_into().unwrap()))
        .collect();
    assert_eq!(fields.len(), 10, "{}", told.text);
    // Asked, lent, held, given: alone in its class it has all of that.
    assert_eq!(fields[..4], [250_000, 0, 0, 500_000]);
    assert_eq!(ask(CONSORT_RELEASE, 0, 0, "").error, 0);
    assert_eq!(ask(CONSORT_RELEASE, 0, 0, "").error, libc::ENOENT);
    let refused = ask(CONSORT_USAGE, 0, 0, "");
    assert_eq!((refused.error, refused.rest.len()), (libc::ENOENT, 0));
}
