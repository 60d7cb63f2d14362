// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bugs planted in the scheduler are found by the search, each within a minute.

use consort_sim::consort::Library;
use consort_sim::explore::{explore, generate, try_apart, ExploreOptions, Verdict};
use consort_sim::mutate::{build, Mutation, MUTATIONS};
use std::path::Path;
use std::time::{Duration, Instant};

const TIME_MAX: Duration = Duration::from_secs(60);

/// The seed that tells the scheduler with the bug from the one without.
fn find(broken: &Library) -> Option<u64> {
    let sound = Library::built_in();
    let begin = Instant::now();
    let mut first_seed = 0;
    loop {
        let options = ExploreOptions {
            first_seed,
            time_max: Some(TIME_MAX.checked_sub(begin.elapsed())?),
            shrink_runs_max: 0,
            ..ExploreOptions::default()
        };
        let seed = explore(&options, broken, &mut |_| {})
            .unwrap()
            .failure?
            .seed;
        if try_apart(&generate(seed), &sound).unwrap() == Verdict::Fine {
            return Some(seed);
        }
        first_seed = seed + 1;
    }
}

fn plant(mutation: &Mutation) -> Library {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(mutation.name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir_all(&folder).unwrap();
    build(repository, &folder, &[*mutation]).unwrap()
}

#[test]
fn each_planted_bug_is_found_within_a_minute() {
    assert!(MUTATIONS.len() >= 10);
    let mut missed = Vec::new();
    for mutation in &MUTATIONS {
        let begin = Instant::now();
        let broken = plant(mutation);
        match find(&broken) {
            Some(seed) => println!("{}: seed {seed}, {:?}", mutation.name, begin.elapsed()),
            None => missed.push(mutation.name),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
