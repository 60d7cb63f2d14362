// SPDX-License-Identifier: MIT OR Apache-2.0
//! One process of `consort sim explore`: runs seed after seed, and says so in lines that workers.rs reads.
//!
//! A process of its own, since a broken scheduler may break the process, and two cannot run in one.

use std::io::{self, Write};

use consort_sim::{
    consort::Library,
    explore::{generate, try_setup},
};

use super::{args::WorkerArgs, failure::SimFailure};

/// A seed is about to be run.
pub const TRYING: &str = "trying";
/// It broke a rule, whose name follows, and what happened.
pub const BROKE: &str = "broke";

pub fn work(args: &WorkerArgs) -> Result<(), SimFailure> {
    let library = Library::built_in();
    let mut out = io::stdout().lock();
    let mut say = |line: String| {
        writeln!(out, "{line}")
            .and_then(|()| out.flush())
            .map_err(SimFailure::Output)
    };
    for number in 0..args.count {
        let seed = args.first.wrapping_add(number.wrapping_mul(args.step));
        say(format!("{TRYING} {seed}"))?;
        if let Some(violation) = try_setup(&generate(seed), &library) {
            let detail = violation.detail.replace('\n', " ");
            say(format!("{BROKE} {seed} {} {detail}", violation.rule))?;
        }
    }
    Ok(())
}
