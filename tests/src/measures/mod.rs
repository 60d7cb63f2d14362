// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the bench measures of a whole machine, with the programs that tests start. Each measure starts the daemons that it
//! needs, and says one line of JSON.

mod attacks;
mod kills;
mod replace;
mod restart;

use std::{process::ExitCode, time::Duration};

use serde_json::{json, Value};

use crate::suite::consort::Daemon;

type Measure = fn(&[&str]) -> Result<Value, String>;

const MEASURES: &[(&str, Measure)] = &[
    ("attacks", attacks::attacks),
    ("kills", kills::kills),
    ("replace", replace::replace),
    ("restart", restart::restart),
];

/// The body of `consort-tests measure NAME [ARG...]`.
pub fn run(name: &str, arguments: &[&str]) -> ExitCode {
    let Some((_, measure)) = MEASURES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = MEASURES.iter().map(|(known, _)| *known).collect();
        eprintln!("there is no measure {name}: expected one of {known:?}");
        return ExitCode::from(2);
    };
    let measured = Daemon::end_any().and_then(|()| measure(arguments));
    // What comes next finds a machine without a daemon.
    match measured.and_then(|value| Daemon::end_any().map(|()| value)) {
        Ok(value) => {
            println!("{}", json!({"kernel": kernel(), "result": value}));
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{name}: {text}");
            ExitCode::FAILURE
        }
    }
}

/// Its version.
fn kernel() -> String {
    let said = nix::sys::utsname::uname().ok();
    let release = said.map(|names| names.release().to_string_lossy().into_owned());
    release.unwrap_or_default()
}

/// The number at a place of the arguments.
fn number(arguments: &[&str], index: usize, what: &str) -> Result<u64, String> {
    let given = arguments.get(index).copied().unwrap_or("");
    given
        .parse()
        .map_err(|_| format!("expected {what}, a whole number, not {given:?}"))
}

fn ms(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64() * 1e3
}
