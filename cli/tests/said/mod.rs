// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command beside a daemon of a test's, and what it said.
#![allow(dead_code)] // each test uses its part

use std::{
    path::Path,
    process::{Command, Output},
};

/// Runs the command against the daemon at `socket`.
pub fn consort(socket: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_consort"))
        .args(args)
        .env("CONSORT_SOCKET", socket)
        .output()
        .unwrap()
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("not killed")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
