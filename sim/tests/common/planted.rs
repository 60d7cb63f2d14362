// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulers in which a bug is planted.

use consort_sim::consort::Library;
use consort_sim::mutate::{build, Mutation};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};

/// The scheduler with the bug, built in a folder of its own.
pub fn plant(mutation: &Mutation) -> Library {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(mutation.name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir_all(&folder).unwrap();
    build(repository, &folder, &[*mutation]).unwrap()
}

/// Checks all, as many at a time as there are CPUs: tests of a file run side by side, what is in a loop in one does not.
pub fn side_by_side<T: Sync>(all: &[T], check: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let take = || {
        while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            check(one);
        }
    };
    scope(|threads| {
        for _ in 0..available_parallelism().map_or(1, NonZero::get) {
            threads.spawn(take);
        }
    });
}
