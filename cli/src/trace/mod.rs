// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort trace`: what the scheduler did, and what programs said of themselves, on one clock.

pub mod args;
mod export;
mod names;
mod record;
mod report;

use std::process::ExitCode;

use crate::{failure::Failure, trace::args::TraceCommand};

pub fn trace(command: &TraceCommand) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        TraceCommand::Record(args) => record::record(args),
        TraceCommand::Report(args) => report::report(args).map(done),
        TraceCommand::Export(args) => export::export(args).map(done),
    }
}
