// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort sim`: the scheduler in a simulated kernel.

pub mod args;
mod compare;
mod explore;
mod failure;
mod files;
mod mixes;
mod run;
mod simulate;
mod userlevel;

use args::SimCommand;
pub use failure::SimFailure;

/// Runs one of the commands.
///
/// # Errors
/// What is wrong with the scenario, what a file's trouble is, or which promise did not hold.
pub fn sim(command: &SimCommand) -> Result<(), SimFailure> {
    match command {
        SimCommand::Run(args) => run::run(args),
        SimCommand::Compare(args) => compare::compare(args),
        SimCommand::Mixes(args) => mixes::mixes(args),
        SimCommand::Explore(args) => explore::explore(args),
    }
}
