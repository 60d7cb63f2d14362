// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the consort command asks.

mod common;

use std::time::Instant;

use common::{gettid, join, write_thread, Daemon, FakeHost, Folder};
use consort_daemon::{limits::Limits, peer::Processes, requests::Next, service::Service, wire};

#[test]
fn status_has_the_documented_fields() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 2, "video")).error, 0);
    let status = program.control(r#"{"command": "status"}"#).unwrap();
    assert_eq!(status["version"], 1);
    assert_eq!(status["scheduler"]["state"], "running");
    assert_eq!(status["scheduler"]["partial"], false);
    assert!(status["scheduler"]["kernel"].is_string());
    assert_eq!(status["tunables"]["granularity_ns"], 20_000_000);
    assert_eq!(status["counters"]["polls"], 42);
    assert_eq!(status["daemon"]["pid"], std::process::id());
    assert_eq!(status["daemon"]["joins"], 1);

    let domains = program.control(r#"{"command": "domains"}"#).unwrap();
    assert_eq!(domains["more"], false);
    assert_eq!(domains["domains"][0]["name"], "video");
    assert_eq!(domains["domains"][0]["event_ns"], 2_000_000);
    assert_eq!(domains["domains"][0]["members"][0], gettid());
    let clients = program
        .control(r#"{"command": "clients", "after": null}"#)
        .unwrap();
    let own = clients["clients"].as_array().unwrap().last().unwrap();
    assert_eq!(own["pid"], std::process::id());
    assert_eq!(own["members"][0]["slot"], 2);
}

#[test]
fn set_changes_what_is_named_and_answers_what_holds() {
    // The daemon's own user may control it, whichever user runs this test.
    let daemon = Daemon::start();
    let program = daemon.connect();
    let now = program
        .control(r#"{"command": "set", "granularity_ns": 10000000}"#)
        .unwrap();
    assert_eq!(now["granularity_ns"], 10_000_000);
    assert_eq!(now["min_slice_ns"], 500_000);
    assert_eq!(daemon.host.record().tunables.granularity_ns, 10_000_000);
    let refused = program
        .control(r#"{"command": "set", "min_slice_ns": 1}"#)
        .unwrap_err();
    assert_eq!(refused.error, libc::ERANGE);
    assert!(refused.text.contains("min-slice 1ns"), "{}", refused.text);
    assert_eq!(daemon.host.record().tunables.min_slice_ns, 500_000);
}

#[test]
fn what_is_no_command_is_refused() {
    let daemon = Daemon::start();
    let program = daemon.connect();
    for text in [
        "",
        "[]",
        "{}",
        "status",
        r#"{"command": "reboot"}"#,
        r#"{"command": "set", "nice": 3}"#,
    ] {
        let refused = program.control(text).unwrap_err();
        assert_eq!(refused.error, libc::EINVAL, "{text:?}");
        assert!(!refused.text.is_empty());
    }
}

/// A service with a program of each of two users, neither of them the daemon's.
fn service_with_strangers(proc_root: &Folder) -> Service {
    let processes = Processes::at(&proc_root.0);
    let mut service = Service::new(
        Box::new(FakeHost::default()),
        processes.clone(),
        Limits::default(),
    );
    for (connection, uid) in [(10, 70_001), (11, 70_002)] {
        let pid = 1000 + connection as i32;
        write_thread(&proc_root.0, pid, &[pid], uid, 5);
        let peer = processes.peer(pid, uid).unwrap();
        service.connect(connection, peer, Instant::now()).unwrap();
    }
    service
}

fn ask(service: &mut Service, connection: u64, message: &[u8]) -> wire::Reply {
    let (reply, next) = service.handle(connection, message, message.len(), Instant::now());
    assert_eq!(next, Next::Listen);
    reply
}

fn ask_json(service: &mut Service, connection: u64, text: &str) -> serde_json::Value {
    let reply = ask(service, connection, &wire::control_message(text));
    assert_eq!(reply.error, 0, "{}", reply.text);
    serde_json::from_slice(&reply.rest).unwrap()
}

#[test]
fn strangers_neither_set_nor_see_nor_enter_each_others() {
    let proc_root = Folder::new();
    let mut service = service_with_strangers(&proc_root);
    let set = wire::control_message(r#"{"command": "set", "granularity_ns": 10000000}"#);
    assert_eq!(ask(&mut service, 10, &set).error, libc::EPERM);
    let hand_over = wire::control_message(r#"{"command": "hand_over"}"#);
    assert_eq!(ask(&mut service, 10, &hand_over).error, libc::EPERM);

    for (connection, tid) in [(10, 1010), (11, 1011)] {
        let hello = wire::request_bytes(common::request(consort_abi::CONSORT_HELLO));
        assert_eq!(ask(&mut service, connection, &hello).error, 0);
        let join = wire::request_bytes(join(tid, 0, "video"));
        let reply = ask(&mut service, connection, &join);
        assert_eq!(reply.error, 0, "{}", reply.text);
    }
    let domains = ask_json(&mut service, 10, r#"{"command": "domains"}"#);
    let domains = domains["domains"].as_array().unwrap();
    assert_eq!(domains.len(), 1, "one's own only");
    assert_eq!(domains[0]["uid"], 70_001);
    assert_eq!(
        domains[0]["members"],
        serde_json::json!([1010]),
        "not the stranger's thread"
    );
    let clients = ask_json(&mut service, 11, r#"{"command": "clients"}"#);
    assert_eq!(clients["clients"].as_array().unwrap().len(), 1);
    let status = ask_json(&mut service, 11, r#"{"command": "status"}"#);
    assert_eq!(
        status["daemon"]["domains"], 2,
        "the same name of two users is two domains"
    );

    let foreign = wire::request_bytes(join(1011, 1, ""));
    assert_eq!(
        ask(&mut service, 10, &foreign).error,
        libc::ESRCH,
        "a stranger's thread"
    );
}

#[test]
fn lists_come_in_pages_that_fit_a_message() {
    let proc_root = Folder::new();
    let processes = Processes::at(&proc_root.0);
    let limits = Limits {
        clients: 1000,
        requests_per_s: 1_000_000,
        ..Limits::default()
    };
    let mut service = Service::new(Box::new(FakeHost::default()), processes.clone(), limits);
    let now = Instant::now();
    let name = "n".repeat(60);
    for connection in 0..450u64 {
        let pid = 2000 + connection as i32;
        write_thread(&proc_root.0, pid, &[pid], 70_001, 5);
        let peer = processes.peer(pid, 70_001).unwrap();
        service.connect(connection, peer, now).unwrap();
        let hello = wire::request_bytes(common::request(consort_abi::CONSORT_HELLO));
        assert_eq!(ask(&mut service, connection, &hello).error, 0);
        let join = wire::request_bytes(join(pid, 0, &format!("{name}{connection:03}")));
        assert_eq!(ask(&mut service, connection, &join).error, 0);
    }
    for (list, key) in [("domains", "id"), ("clients", "connection")] {
        let mut seen = Vec::new();
        loop {
            let after = seen.last().map_or("null".to_owned(), u64::to_string);
            let text = format!(r#"{{"command": "{list}", "after": {after}}}"#);
            let reply = ask(&mut service, 0, &wire::control_message(&text));
            assert!(reply.rest.len() <= wire::ANSWER_BYTES_MAX);
            let page: serde_json::Value = serde_json::from_slice(&reply.rest).unwrap();
            let entries = page[list].as_array().unwrap();
            seen.extend(entries.iter().map(|entry| entry[key].as_u64().unwrap()));
            if page["more"] == false {
                break;
            }
            assert!(!entries.is_empty());
        }
        assert_eq!(seen.len(), 450, "{list}");
        assert!(seen.is_sorted_by(|a, b| a < b), "{list}");
    }
}
