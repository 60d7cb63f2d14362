// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bugs planted in the scheduler are found by the search, most of them within seconds.

use crate::common::planted::plant;
use consort_sim::mutate::{find, Mutation, IN_GROUPS, IN_LIMITS, MUTATIONS};
use std::time::{Duration, Instant};

const TIME_MAX: Duration = Duration::from_secs(120);
/// Found by a search of minutes from 0 on: where it begins here.
const FIRST_SEEDS: [(&str, u64); 11] = [
    ("held-for-ever", 440),
    ("first-of-many-let-go", 1_130),
    ("burst-without-end", 103_650),
    ("leaves-its-shard-held", 150),
    ("filled-beyond-its-mark", 700),
    ("late-before-it-began", 700),
    ("lag-stays-awake", 6_100),
    ("not-due-while-it-waits", 900),
    ("runs-on-after-its-interval", 1_400),
    ("never-ahead-of-its-rate", 1_700),
    ("wakes-before-its-group", 1_795_700_000_005_400),
];

/// After so many runs of continuous integration each bug has been searched for: most of the time takes building them.
const TURNS: usize = 4;

/// Whether a bug is searched for: all are, but where CONSORT_TURN says which.
fn is_in_turn(number: usize) -> bool {
    let turn = std::env::var("CONSORT_TURN").ok();
    let turn = turn.map(|turn| turn.parse::<usize>().expect("CONSORT_TURN is a number"));
    turn.is_none_or(|turn| number % TURNS == turn % TURNS)
}

fn find_all(mutations: &[Mutation]) {
    assert!(mutations.len() >= 7);
    let mut missed = Vec::new();
    let numbered = mutations.iter().enumerate();
    for (_, mutation) in numbered.filter(|it| is_in_turn(it.0)) {
        let begin = Instant::now();
        let broken = plant(mutation);
        let known = FIRST_SEEDS.iter().find(|it| it.0 == mutation.name);
        match find(&broken, known.map_or(0, |it| it.1), TIME_MAX).unwrap() {
            Some(seed) => println!("{}: seed {seed}, {:?}", mutation.name, begin.elapsed()),
            None => missed.push(mutation.name),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn each_planted_bug_is_found() {
    find_all(&MUTATIONS);
}

#[test]
fn each_bug_planted_in_groups_is_found() {
    find_all(&IN_GROUPS);
}

#[test]
fn each_bug_planted_in_limits_is_found() {
    find_all(&IN_LIMITS);
}
