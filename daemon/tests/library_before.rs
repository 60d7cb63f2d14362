// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that were built with the libconsort of the version before go on working: one that is built from the history of
//! this repository, and, where that is not there, what it has sent.

mod common;

use std::process::{Child, Command};

use common::{gettid, Daemon, Program};
use consort_abi::{
    CONSORT_JOIN, CONSORT_LEAVE, CONSORT_LEND, CONSORT_RECOLLECT, CONSORT_RELEASE, CONSORT_USAGE,
};
use consort_daemon::wire::{self, REPLY_BYTES};

/// Each line is a message, in hex, as `tests/library-before --record` prints them.
const MESSAGES: &str = include_str!("before/messages");
const BUILDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/library-before");
const NO_HISTORY: i32 = 3;
/// Of a message: its version and type, and the number of a thread or process.
const VERSION: std::ops::Range<usize> = 4..6;
const KIND: std::ops::Range<usize> = 6..8;
const NUMBER: std::ops::Range<usize> = 8..12;

#[test]
fn a_program_with_the_library_before_is_granted_all_it_asks_for() {
    let built = Command::new(BUILDER).output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    if built.status.code() == Some(NO_HISTORY) {
        eprintln!("not tested, but by what it has sent: {said}");
        return;
    }
    assert!(built.status.success(), "{said}");
    let daemon = Daemon::start();
    let program = String::from_utf8(built.stdout).unwrap();
    let ran = Command::new(program.trim())
        .env("CONSORT_SOCKET", &daemon.config.socket)
        .env_remove("CONSORT_HOST")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout),
        "all was granted\n",
        "{said}"
    );
    // Without a daemon it would have been content with less: it was one's member.
    assert!(ran.status.success(), "{said}");
}

/// Another process of the same user, to lend to.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_the_library_before_has_sent_is_granted_in_its_own_words() {
    let daemon = Daemon::start();
    let program = daemon.connect();
    let other = Other(Command::new("sleep").arg("60").spawn().unwrap());
    let mut kinds = Vec::new();
    for line in MESSAGES.lines() {
        let mut message = bytes(line);
        let kind = u16::from_ne_bytes(message[KIND].try_into().unwrap());
        assert_eq!(message[VERSION], 1_u16.to_ne_bytes(), "{line}");
        // Who recorded it has gone.
        if message[NUMBER] != [0; 4] {
            let number = match u32::from(kind) {
                CONSORT_LEND | CONSORT_RECOLLECT => other.0.id() as i32,
                _ => gettid(),
            };
            message[NUMBER].copy_from_slice(&number.to_ne_bytes());
        }
        check_reply(&program, &message, kind);
        kinds.push(u32::from(kind));
    }
    for kind in [
        CONSORT_JOIN,
        CONSORT_LEAVE,
        CONSORT_LEND,
        CONSORT_RECOLLECT,
        CONSORT_RELEASE,
        CONSORT_USAGE,
    ] {
        assert!(kinds.contains(&kind), "no message of type {kind} is kept");
    }
}

/// By what the library before checked.
fn check_reply(program: &Program, message: &[u8], kind: u16) {
    program.send(message).unwrap();
    let raw = program.receive_raw().expect("a reply");
    let more = if u32::from(kind) == CONSORT_USAGE {
        40
    } else {
        0
    };
    assert_eq!(raw.len(), REPLY_BYTES + more, "to {kind}");
    assert_eq!(raw[..8], message[..8], "to {kind}");
    let reply = wire::parse_reply(&raw).unwrap();
    assert_eq!(reply.error, 0, "to {kind}: {}", reply.text);
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}
