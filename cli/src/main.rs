// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `consort` command.

mod args;
mod class;
mod connection;
mod demo;
mod df;
mod failure;
mod groups;
mod keep;
mod late;
mod man;
mod rate;
mod reserve;
mod run;
mod serve;
mod set;
mod sim;
mod status;
mod table;
mod trace;
mod usage;
mod user_level;

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
        Command::Trace { command } => return end(trace::trace(&command)),
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
        Command::Apply(args) => groups::apply(&args),
        Command::Delete(args) => groups::delete(&args),
        Command::Show(args) => groups::show(&args),
        Command::Plan { command } => groups::plan(&command),
        Command::Accessors(args) => groups::accessors(&args),
        Command::Df { command } => df::df(&command),
        Command::Demo(args) => demo::demo(&args),
        Command::Late(args) => late::late(&args),
        Command::Keep(args) => keep::keep(&args),
        Command::Sim { command } => sim::sim(&command).map_err(Failure::from),
        Command::Man { folder } => man::write(&folder),
        Command::Completions { folder } => man::write_completions(&folder),
    };
    end(outcome.map(|()| ExitCode::SUCCESS))
}

fn end(outcome: Result<ExitCode, Failure>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            // Not eprintln, which panics when nobody reads.
            let _ = writeln!(io::stderr(), "consort: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
