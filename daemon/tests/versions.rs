// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of other versions than the daemon's: what the version before sent and checked, and what later ones may.

mod common;

use common::{gettid, join, leave, request, Daemon, Program};
use consort_abi::{
    consort_request, CONSORT_ANNOUNCE, CONSORT_HELLO, CONSORT_JOIN, CONSORT_LEAVE, CONSORT_LEND,
    CONSORT_RECOLLECT, CONSORT_RELEASE, CONSORT_RESERVE, CONSORT_USAGE, CONSORT_WIRE_VERSION,
};
use consort_daemon::wire::{self, Reply, REPLY_BYTES};

/// Messages as version 1 of libconsort sent them, byte for byte: magic, version, type, tid, slot, event_ns, order, flags,
/// and 64 bytes of name.
fn version_1(kind: u16, tid: i32, slot: u32, event_ns: u64, order: u32, name: &str) -> Vec<u8> {
    let mut bytes = b"CNST\x01\x00".to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(tid.to_ne_bytes());
    bytes.extend(slot.to_ne_bytes());
    bytes.extend(event_ns.to_ne_bytes());
    bytes.extend(order.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(name.bytes());
    bytes.resize(32 + 64, 0);
    bytes
}

/// What version 1 of libconsort checked of a reply.
fn accepted_by_version_1(program: &Program, message: &[u8], kind: u16, bytes: usize) -> Reply {
    program.send(message).unwrap();
    let raw = program.receive_raw().expect("a reply");
    assert_eq!(raw.len(), bytes, "the length of a reply to {kind}");
    assert_eq!(raw[..4], *b"CNST");
    assert_eq!(raw[4..8], [1, 0, kind as u8, 0]);
    wire::parse_reply(&raw).unwrap()
}

#[test]
fn the_version_before_is_served_as_it_was() {
    let daemon = Daemon::start();
    let program = daemon.connect();
    let say = |kind: u32, message: Vec<u8>| {
        let bytes = match kind {
            CONSORT_USAGE => REPLY_BYTES + 40,
            _ => REPLY_BYTES,
        };
        let reply = accepted_by_version_1(&program, &message, kind as u16, bytes);
        assert_eq!(reply.error, 0, "{kind}: {}", reply.text);
    };
    say(CONSORT_HELLO, version_1(1, 0, 0, 0, 0, ""));
    say(CONSORT_JOIN, version_1(2, gettid(), 0, 0, 0, "video"));
    say(CONSORT_LEAVE, version_1(3, gettid(), 0, 0, 0, ""));
    say(
        CONSORT_RESERVE,
        version_1(5, 0, 0, 30_000_000, 100_000, "guaranteed"),
    );
    say(CONSORT_USAGE, version_1(9, 0, 0, 0, 0, ""));
    say(CONSORT_RELEASE, version_1(6, 0, 0, 0, 0, ""));
}

#[test]
fn both_sides_speak_the_greatest_version_that_both_can() {
    let daemon = Daemon::start();
    for (least, greatest, spoken) in [
        (0, 0, Some(1)),
        (1, 1, Some(1)),
        (1, 2, Some(2)),
        (2, 2, Some(2)),
        (1, 77, Some(CONSORT_WIRE_VERSION as u16)),
        (77, 99, None),
    ] {
        let program = daemon.connect();
        let hello = consort_request {
            slot: greatest,
            order: least,
            ..request(CONSORT_HELLO)
        };
        let reply = program.ask(&hello);
        match spoken {
            Some(version) => assert_eq!((reply.error, reply.version), (0, version)),
            None => {
                assert_eq!((reply.error, reply.version), (libc::EPROTO, 1));
                assert!(reply.text.contains("77 to 99"), "{}", reply.text);
                assert!(program.receive().is_none());
            }
        }
    }
}

/// Version 2 grows at its end, and says what it does not know.
#[test]
fn what_is_not_known_is_refused_only_if_it_says_something() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let later = |mut request: consort_request, tail: &[u8]| {
        request.version = 2;
        let mut message = wire::request_bytes(request).to_vec();
        message.extend_from_slice(tail);
        program.send(&message).unwrap();
        program.receive().unwrap()
    };
    assert_eq!(later(join(gettid(), 0, "video"), &[0; 40]).error, 0);
    let reply = later(join(gettid(), 1, "video"), &[0, 1]);
    assert_eq!((reply.error, reply.version), (libc::E2BIG, 2));
    assert_eq!(later(leave(gettid(), 0), &[]).error, 0);
    type Change = fn(&mut consort_request);
    let cases: [(u32, &str, Change); 8] = [
        (CONSORT_LEAVE, "event_ns", |r| r.event_ns = 1),
        (CONSORT_LEAVE, "order", |r| r.order = 1),
        (CONSORT_LEAVE, "flags", |r| r.flags = 1),
        (CONSORT_LEAVE, "domain", |r| r.domain[9] = 1),
        (CONSORT_RESERVE, "slot", |r| r.slot = 1),
        (CONSORT_LEND, "flags", |r| r.flags = 1),
        (CONSORT_RECOLLECT, "event_ns", |r| r.event_ns = 1),
        (CONSORT_USAGE, "order", |r| r.order = 1),
    ];
    for (kind, field, change) in cases {
        let mut changed = request(kind);
        change(&mut changed);
        let reply = later(changed, &[]);
        assert_eq!(reply.error, libc::EINVAL, "{field}: {}", reply.text);
        assert!(reply.text.contains(field), "{}", reply.text);
    }
}

/// What is behind a name means nothing yet: version 1 does not look at it, later ones say so.
#[test]
fn a_name_that_goes_on_after_its_end_is_refused_where_the_version_allows_it() {
    const REFUSED: &str = "name goes on after its end";
    let daemon = Daemon::start();
    let program = daemon.hello();
    for kind in [CONSORT_JOIN, CONSORT_RESERVE, CONSORT_ANNOUNCE] {
        let say = |version, behind| {
            let mut named = join(gettid(), 0, "guaranteed");
            (named.version, named.type_) = (version, kind as u16);
            named.domain[20] = behind;
            program.ask(&named)
        };
        let refused = say(2, 1);
        assert_eq!(refused.error, libc::EINVAL, "{kind}: {}", refused.text);
        assert!(refused.text.contains(REFUSED), "{}", refused.text);
        for (version, behind) in [(1, 1), (2, 0)] {
            let reply = say(version, behind);
            assert!(!reply.text.contains(REFUSED), "{kind}: {}", reply.text);
        }
    }
    assert_eq!(program.ask(&leave(gettid(), 0)).error, 0, "it has joined");
}
