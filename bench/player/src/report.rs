// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line that a workload prints: what was asked, who scheduled before and after, and the result.

use crate::counters;
use crate::error::Error;
use serde_json::{json, Value};
use std::process::ExitCode;

/// Runs `work`, and tells what it returned; `consort` is the path of the command, if there is one to ask.
///
/// # Errors
/// Those of `work`, and of reading the counters.
pub fn around(
    consort: Option<&str>,
    work: impl FnOnce() -> Result<Value, Error>,
) -> Result<Value, Error> {
    let before = counters::scheduler(consort)?;
    let result = work()?;
    let after = counters::scheduler(consort)?;
    Ok(json!({
        "arguments": std::env::args().skip(1).collect::<Vec<_>>(),
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "scheduler": { "before": before, "after": after },
        "result": result,
    }))
}

/// Prints the line, or for `program` why there is none.
pub fn print(program: &str, line: Result<Value, Error>) -> ExitCode {
    match line {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}
