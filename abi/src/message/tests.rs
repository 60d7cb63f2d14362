// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Requests and replies come through as they were meant.

use super::*;

fn all() -> Vec<Request> {
    let name = Name::new("films").unwrap();
    let (tid, slot, number, flags, to, millionths) = (7, 3, 8, 1, 9, 300_000);
    vec![
        Request::Hello {
            greatest: 2,
            least: 1,
        },
        Request::Join(Join {
            tid,
            slot,
            event_ns: 1_000_000,
            order: 2,
            flags,
            domain: name,
        }),
        Request::Leave { tid, slot },
        Request::Control,
        Request::Reserve {
            number,
            flags,
            class: name,
            millionths,
            period_ns: 33,
        },
        Request::Release { number, flags },
        Request::Lend { to, millionths },
        Request::Recollect { to, millionths },
        Request::Usage { number, flags },
        Request::Announce { tid, slot, name },
    ]
}

#[test]
fn each_request_comes_through_as_it_was_meant() {
    for request in all() {
        let raw = request.encode(2);
        let bytes = raw.to_bytes();
        let received = consort_request::from_bytes(&bytes).unwrap();
        assert_eq!((received.magic, received.version), (CONSORT_ABI_MAGIC, 2));
        assert_eq!(Request::decode(&received), Some(request));
        assert_eq!(request.unused(&received), None);
        assert_eq!(consort_request::from_bytes(&bytes[1..]).map(|_| ()), None);
    }
    let unknown = consort_request {
        type_: 11,
        ..consort_request::default()
    };
    assert_eq!(Request::decode(&unknown), None);
}

/// In all fields at once: those that it does not use are named, one after the other.
#[test]
fn what_means_nothing_is_named() {
    let unused = |request: &Request| {
        let mut raw = consort_request {
            tid: 1,
            slot: 1,
            event_ns: 1,
            order: 1,
            flags: 1,
            domain: [1; NAME_BYTES],
            ..request.encode(2)
        };
        let mut named = Vec::new();
        while let Some(name) = Request::decode(&raw).unwrap().unused(&raw) {
            named.push(name);
            match name {
                "tid" => raw.tid = 0,
                "slot" => raw.slot = 0,
                "event_ns" => raw.event_ns = 0,
                "order" => raw.order = 0,
                "flags" => raw.flags = 0,
                _ => raw.domain = [0; NAME_BYTES],
            }
        }
        named.join(" ")
    };
    let named: Vec<String> = all().iter().map(unused).collect();
    assert_eq!(
        named,
        [
            "tid event_ns flags domain",
            "",
            "event_ns order flags domain",
            "tid slot event_ns order flags domain",
            "slot",
            "slot event_ns order domain",
            "slot event_ns flags domain",
            "slot event_ns flags domain",
            "slot event_ns order domain",
            "event_ns order flags",
        ]
    );
}

#[test]
fn names_have_an_end_and_texts_are_cut_between_characters() {
    assert!(Name::new(&"n".repeat(NAME_BYTES)).is_none());
    let longest = Name::new(&"n".repeat(NAME_BYTES - 1)).unwrap();
    assert_eq!(longest.bytes().unwrap().count(), NAME_BYTES - 1);
    assert!(Name([1; NAME_BYTES]).bytes().is_none());
    assert!(!longest.goes_on() && !Name([0; NAME_BYTES]).goes_on());
    let mut bytes = Name::new("films").unwrap().0;
    bytes[NAME_BYTES - 1] = 1;
    assert!(Name(bytes).goes_on());
    let mut reply = consort_reply::default();
    reply.say(&"ü".repeat(TEXT_BYTES));
    let said: Vec<u8> = reply.said().collect();
    assert_eq!(
        String::from_utf8(said).unwrap(),
        "ü".repeat((TEXT_BYTES - 1) / 2)
    );
    let usage = consort_usage_reply {
        used: [1, 2, 3],
        threads: 9,
        reply,
        ..consort_usage_reply::default()
    };
    let again = consort_usage_reply::from_bytes(&usage.to_bytes()).unwrap();
    assert_eq!((again.used, again.threads), ([1, 2, 3], 9));
    assert_eq!(again.reply.text, reply.text);
}
