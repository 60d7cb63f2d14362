// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `consort` command.

mod args;
mod class;
mod connection;
mod failure;
mod man;
mod rate;
mod reserve;
mod run;
mod serve;
mod set;
mod sim;
mod status;
mod usage;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;

use crate::{
    args::{Cli, Command},
    failure::Failure,
};

fn main() -> ExitCode {
    let outcome: Result<(), Failure> = match Cli::parse().command {
        Command::Serve(args) => serve::serve(&args),
        Command::Status(args) => status::status(&args),
        Command::Set(args) => set::set(&args),
        Command::Run(args) => run::run(&args).map(|never| match never {}),
        Command::Reserve(args) => reserve::reserve(&args),
        Command::Release(args) => reserve::release(&args),
        Command::Lend(args) => reserve::lend(&args),
        Command::Recollect(args) => reserve::recollect(&args),
        Command::Usage(args) => usage::usage(&args),
        Command::Class(args) => class::class(&args.command),
        Command::Sim { command } => sim::sim(&command).map_err(Failure::from),
        Command::Man { folder } => man::write(&folder),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Not eprintln, which panics when nobody reads.
            let _ = writeln!(io::stderr(), "consort: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
