// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that people write: read, or refused with words.

use std::{fs, path::PathBuf};

use consort_daemon::config::Division;

/// The operator's file.
pub fn classes(bytes: &[u8]) {
    let path = own_file("classes.toml");
    fs::write(&path, bytes).expect("a file of the test's own");
    match Division::read(Some(&path), 2) {
        Ok(division) => assert!(division.classes.flexible() > consort_daemon::rate::Rate(0)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A scenario of the simulator.
pub fn scenario(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = consort_sim::scenario::parse("fuzzed.json", &text) {
        assert!(!error.to_string().is_empty());
    }
}

fn own_file(name: &str) -> PathBuf {
    let thread = std::thread::current().id();
    std::env::temp_dir().join(format!(
        "consort-fuzz-{}-{thread:?}-{name}",
        std::process::id()
    ))
}
