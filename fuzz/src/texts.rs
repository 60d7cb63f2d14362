// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that people write: read, or refused with words.

use std::{fs, path::PathBuf};

use consort_daemon::config::Division;
use consort_groups::{difference, read, Description, MEMBERS_MAX};

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

/// A group file: what is right can be applied, and is then what it says.
pub fn groups(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match read("fuzzed.toml", "fuzzed", &text) {
        Ok(read) => {
            let threads: u32 = read.members().map(|(_, _, member)| member.count).sum();
            assert!(threads as usize <= MEMBERS_MAX);
            assert!(!difference::steps(&Description::default(), &read).is_empty());
            assert!(difference::steps(&read, &read).is_empty());
        }
        Err(problems) => assert!(problems.list.iter().all(|problem| problem.line > 0)),
    }
}

fn own_file(name: &str) -> PathBuf {
    let thread = std::thread::current().id();
    std::env::temp_dir().join(format!(
        "consort-fuzz-{}-{thread:?}-{name}",
        std::process::id()
    ))
}
