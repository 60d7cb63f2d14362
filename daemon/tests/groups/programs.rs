// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that announce their threads, through the socket.

use std::{
    ffi::c_char,
    fs,
    path::PathBuf,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use consort_abi::{consort_request, CONSORT_ANNOUNCE};
use consort_daemon::wire::{self, CONTROL_TEXT_BYTES_MAX};
use serde_json::{json, Value};

use crate::common::{gettid, join, leave, request, Daemon, Program};

pub fn announce(tid: i32, slot: u32, name: &str) -> consort_request {
    let mut request = consort_request {
        tid,
        slot,
        ..request(CONSORT_ANNOUNCE)
    };
    for (to, from) in request.domain.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    request
}

pub fn apply(program: &Program, text: &str) -> Result<Value, String> {
    let command = json!({"command": "group", "doing": "apply", "name": "film", "text": text});
    program
        .control(&command.to_string())
        .map_err(|reply| reply.text)
}

fn rows(program: &Program) -> Vec<Value> {
    let command = json!({"command": "group", "doing": "show"});
    let answer = program
        .control(&command.to_string())
        .map_err(|reply| reply.text);
    answer.unwrap()["rows"].as_array().unwrap().clone()
}

/// Threads by the name that they are bound to.
pub fn bound(program: &Program) -> Vec<(String, i64)> {
    let threads = rows(program).into_iter().filter(|row| row["bound"] == true);
    threads
        .map(|row| {
            (
                row["name"].as_str().unwrap().to_owned(),
                row["tid"].as_i64().unwrap(),
            )
        })
        .collect()
}

/// A thread of the test's own that lives until it is dropped.
pub struct Sleeper {
    pub tid: i32,
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    pub fn new() -> Sleeper {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            tell.send(gettid()).unwrap();
            let _: Result<(), _> = ended.recv();
        });
        Sleeper {
            tid: told.recv().unwrap(),
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end.take();
        let _ = self.thread.take().unwrap().join();
    }
}

const FILE: &str = "[group.a]\nmembers = [\"show\", \"read\"]\n[group.talk]\nfunction = \"coop\"\nmembers = [\"talker\"]";

#[test]
fn whichever_comes_first_waits_for_the_other() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let (show, read) = (Sleeper::new(), Sleeper::new());
    assert_eq!(program.ask(&announce(show.tid, 0, "show")).error, 0);
    let strays: Vec<Value> = rows(&program);
    assert_eq!((strays.len(), &strays[0]["kind"]), (1, &json!("stray")));
    apply(&program, FILE).unwrap();
    assert_eq!(bound(&program), [("show".to_owned(), show.tid.into())]);
    assert_eq!(program.ask(&announce(read.tid, 1, "read")).error, 0);
    let talker = Sleeper::new();
    assert_eq!(program.ask(&announce(talker.tid, 2, "talker")).error, 0);
    assert_eq!(bound(&program).len(), 3);
    let record = daemon.host.record();
    let binds: Vec<_> = record
        .groups
        .values()
        .flat_map(|group| group.threads.values())
        .collect();
    for bind in binds {
        assert_eq!(bind.polls, bind.thread.tid == talker.tid);
        assert_eq!(bind.role.is_none(), bind.polls);
        assert!(bind.page.is_some());
    }
    drop(record);
    // One leaves, the rest goes with the program.
    assert_eq!(program.ask(&leave(show.tid, 0)).error, 0);
    let other = daemon.connect();
    assert_eq!(bound(&other).len(), 2);
    drop(program);
    daemon.wait_until("all are unbound", |record| {
        record.groups.values().all(|group| group.threads.is_empty())
    });
    assert_eq!(bound(&other), []);
    // The groups stay: names outlive those who have them.
    assert_eq!(daemon.host.record().groups.len(), 2);
}

#[test]
fn the_second_of_a_name_waits_for_the_first_to_go() {
    let daemon = Daemon::start();
    let (one, other) = (daemon.hello(), daemon.hello());
    apply(&one, FILE).unwrap();
    let (first, second) = (Sleeper::new(), Sleeper::new());
    assert_eq!(one.ask(&announce(first.tid, 0, "show")).error, 0);
    assert_eq!(other.ask(&announce(second.tid, 0, "show")).error, 0);
    assert_eq!(bound(&one), [("show".to_owned(), first.tid.into())]);
    let member = rows(&one)
        .into_iter()
        .find(|row| row["kind"] == "member")
        .unwrap();
    assert_eq!(
        (&member["bound"], &member["waiting"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(one.ask(&leave(first.tid, 0)).error, 0);
    assert_eq!(bound(&one), [("show".to_owned(), second.tid.into())]);
    // A thread that ends without a word makes room, too.
    let third = Sleeper::new();
    assert_eq!(one.ask(&announce(third.tid, 0, "show")).error, 0);
    drop(second);
    let binds = |record: &crate::common::Record, tid: i32| {
        record
            .groups
            .values()
            .any(|group| group.threads.contains_key(&tid))
    };
    daemon.wait_until("the third is bound", |record| binds(record, third.tid));
}

/// A thread is one thing: a member of a domain, or what it has announced.
#[test]
fn a_thread_is_called_one_thing() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let thread = Sleeper::new();
    let errno = |request: &consort_request| program.ask(request).error;
    assert_eq!(errno(&announce(thread.tid, 0, "show")), 0);
    assert_eq!(errno(&announce(thread.tid, 1, "read")), libc::EEXIST);
    assert_eq!(errno(&join(thread.tid, 1, "studio")), libc::EEXIST);
    let other = Sleeper::new();
    assert_eq!(errno(&join(other.tid, 0, "studio")), libc::EBUSY);
    assert_eq!(errno(&join(other.tid, 1, "studio")), 0);
    assert_eq!(errno(&announce(other.tid, 2, "show")), libc::EEXIST);
    assert_eq!(errno(&leave(thread.tid, 0)), 0);
    assert_eq!(errno(&leave(thread.tid, 0)), libc::ENOENT);
    for (request, expected) in [
        (announce(1, 3, "show"), libc::ESRCH),
        (announce(-1, 3, "show"), libc::EINVAL),
        (announce(thread.tid, 63, "show"), libc::EINVAL),
        (announce(thread.tid, 3, ""), libc::EINVAL),
        (announce(thread.tid, 3, "a b"), libc::EINVAL),
        (announce(thread.tid, 3, &"x".repeat(64)), libc::ENAMETOOLONG),
    ] {
        assert_eq!(errno(&request), expected, "{:?}", request.tid);
    }
    assert_eq!(
        daemon.connect().ask(&announce(thread.tid, 0, "show")).error,
        libc::ENOTCONN
    );
}

/// A rule has found a thread that then says itself what it is, or joins a domain.
#[test]
fn what_a_thread_says_goes_before_what_is_found() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let exe: PathBuf = fs::read_link("/proc/self/exe").unwrap();
    let thread = Sleeper::new();
    let by_rule = format!(
        "[group.b]\nmembers = [{{ name = \"any\", count = 64, rule = {{ executable = {:?} }} }}, \"show\"]",
        exe.to_str().unwrap()
    );
    apply(&program, &by_rule).unwrap();
    let is_found = |record: &crate::common::Record| {
        let all = record.groups.values();
        let mut all = all.flat_map(|group| group.threads.keys());
        all.any(|tid| *tid == thread.tid)
    };
    daemon.wait_until("the rule finds the thread", is_found);
    assert_eq!(program.ask(&announce(thread.tid, 0, "show")).error, 0);
    let show = ("show".to_owned(), thread.tid.into());
    assert!(bound(&program).contains(&show));
    assert_eq!(program.ask(&leave(thread.tid, 0)).error, 0);
    daemon.wait_until("the rule finds it again", is_found);
    assert_eq!(program.ask(&join(thread.tid, 0, "studio")).error, 0);
    assert!(!is_found(&daemon.host.record()));
}

/// As long a file as may be goes through; a longer message ends the connection.
#[test]
fn a_long_file_is_one_message() {
    let daemon = Daemon::start();
    let program = daemon.connect();
    let mut text = String::from("[group.a]\nmembers = [\n");
    for number in 0..1000 {
        text += &format!("    {{ name = \"member-{number:04}\", rule = {{ thread = \"w-{number:04}\", parent = \"make\" }} }},\n");
    }
    text += "]\n";
    let answer = apply(&program, &text).unwrap();
    assert_eq!(answer["changes"].as_array().unwrap().len(), 1001);
    let mut after = None;
    let mut told = 0;
    loop {
        let command = json!({"command": "group", "doing": "show", "after": after});
        let page = program
            .control(&command.to_string())
            .map_err(|reply| reply.text)
            .unwrap();
        let rows = page["rows"].as_array().unwrap();
        told += rows.len();
        after = rows.last().map(|row| row["row"].clone());
        if page["more"] == false {
            break;
        }
    }
    assert_eq!(told, 1001);
    let huge = apply(
        &program,
        &format!("[group.a]\nmembers = [\"x\"]\n#{}", "x".repeat(100_000)),
    );
    assert!(huge.unwrap_err().contains("expected at most"));
    let long = wire::control_message(&"x".repeat(CONTROL_TEXT_BYTES_MAX + 1));
    program.send(&long).unwrap();
    assert_eq!(program.receive().unwrap().error, libc::EMSGSIZE);
    assert!(program.receive().is_none());
}

/// A thread that executes a program gets its process' number, and stays in the scheduler where it was.
#[test]
fn a_member_that_executes_a_program_is_unbound() {
    for name in ["show", "talker"] {
        let daemon = Daemon::start();
        let program = daemon.hello();
        apply(&program, FILE).unwrap();
        let thread = Sleeper::new();
        assert_eq!(program.ask(&announce(thread.tid, 0, name)).error, 0);
        assert_eq!(bound(&program).len(), 1);
        daemon.host.record().execute(thread.tid);
        drop(program);
        daemon.wait_until(name, |record| {
            record.groups.values().all(|group| group.threads.is_empty())
        });
    }
}
