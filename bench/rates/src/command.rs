// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consort command, as an operator gives it.

use consort_bench_player::error::Error;
use std::io::Write;
use std::process::{Command, Stdio};

/// What a command says on its standard output; it must end well.
///
/// # Errors
/// When it cannot be started, or does not end well.
pub fn said(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Error::io(format!("start {program}"), source))?;
    if !output.status.success() {
        // What it said belongs to the messages: standard output is the measurement's.
        let _ = std::io::stderr().write_all(&output.stdout);
        return Err(Error::Usage(format!(
            "{program} ended with {}, expected success",
            output.status
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where the command is.
///
/// # Errors
/// When nobody has said it.
pub fn needed(consort: Option<&str>) -> Result<&str, Error> {
    consort.ok_or_else(|| Error::Usage("this needs --consort COMMAND".into()))
}
