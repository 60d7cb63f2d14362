// SPDX-License-Identifier: MIT OR Apache-2.0
//! The corpus, and what changes make of it, for less than a minute in all: always the same ones. CONSORT_FUZZ_CASES: so many
//! others of each, at random. fuzz/hours goes on for longer.

use std::{fs, path::Path};

use consort_fuzz::{target, Target};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRng, TestRunner},
};

const CASES: u32 = 1200;

/// All files of a target's corpus.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name);
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no corpus for {}", target.name);
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// One change: at a place (a part of 65536), what, and how much of it.
#[derive(Debug, Clone)]
enum Change {
    Set(u16, u8),
    Flip(u16, u8),
    Remove(u16, u8),
    Insert(u16, Vec<u8>),
    Repeat(u16, u8),
    Cut(u16),
    /// A number that is at a bound.
    Bound(u16, u64, u8),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<u16>;
    let bounds = prop_oneof![
        Just(0u64),
        Just(1),
        Just(u64::MAX),
        Just(1 << 31),
        Just(1 << 63),
        Just(0x7fff_ffff)
    ];
    prop_oneof![
        3 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        3 => (at(), 0u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        1 => (at(), any::<u8>()).prop_map(|(at, count)| Change::Remove(at, count)),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        1 => (at(), any::<u8>()).prop_map(|(at, count)| Change::Repeat(at, count)),
        1 => at().prop_map(Change::Cut),
        2 => (at(), bounds, prop_oneof![Just(2u8), Just(4), Just(8)]).prop_map(|(at, bound, size)| Change::Bound(at, bound, size)),
    ]
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: u16| usize::from(at) * bytes.len() / 65536;
        let end = |from: usize, count: u8| (from + usize::from(count)).min(bytes.len());
        match self {
            _ if bytes.is_empty() => {}
            Change::Set(at, byte) => {
                let at = place(*at);
                bytes[at] = *byte;
            }
            Change::Flip(at, bit) => {
                let at = place(*at);
                bytes[at] ^= 1 << bit;
            }
            Change::Remove(at, count) => {
                let from = place(*at);
                let to = end(from, *count);
                bytes.drain(from..to);
            }
            Change::Insert(at, more) => {
                let at = place(*at);
                bytes.splice(at..at, more.iter().copied());
            }
            Change::Repeat(at, count) => {
                let from = place(*at);
                let part = bytes[from..end(from, *count)].to_vec();
                bytes.splice(from..from, part);
            }
            Change::Cut(at) => bytes.truncate(place(*at)),
            Change::Bound(at, bound, size) => {
                let from = place(*at);
                let to = end(from, *size);
                bytes[from..to].copy_from_slice(&bound.to_ne_bytes()[..to - from]);
            }
        }
    }
}

fn fuzz(name: &str) {
    let target = target(name).unwrap();
    let corpus = corpus(target);
    corpus.iter().for_each(|bytes| (target.run)(bytes));
    let asked = std::env::var("CONSORT_FUZZ_CASES").ok();
    let config = Config {
        cases: asked.as_ref().map_or(CASES, |cases| cases.parse().unwrap()),
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = match asked {
        Some(_) => TestRunner::new(config),
        None => {
            let random = TestRng::deterministic_rng(config.rng_algorithm);
            TestRunner::new_with_rng(config, random)
        }
    };
    let input = (0..corpus.len(), prop::collection::vec(change(), 0..12));
    let ran = runner.run(&input, |(file, changes)| {
        let mut bytes = corpus[file].clone();
        changes.iter().for_each(|change| change.apply(&mut bytes));
        (target.run)(&bytes);
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn wire() {
    fuzz("wire");
}

#[test]
fn journal() {
    fuzz("journal");
}

#[test]
fn classes() {
    fuzz("classes");
}

#[test]
fn slots() {
    fuzz("slots");
}

#[test]
fn scenario() {
    fuzz("scenario");
}

#[test]
fn groups() {
    fuzz("groups");
}
