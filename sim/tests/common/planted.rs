// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulers in which a bug is planted.

use consort_sim::consort::Library;
use consort_sim::mutate::{build, Mutation};
use std::path::Path;

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
