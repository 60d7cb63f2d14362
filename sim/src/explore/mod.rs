// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks for broken promises in random scenarios.

mod generate;
mod shrink;

pub use generate::generate;
pub use shrink::shrink;

use crate::consort::{Consort, Library};
use crate::setup::Setup;
use crate::trace::Violation;

/// Runs a setup under a build of the scheduler; what broke, if anything did.
pub fn try_setup(setup: &Setup, library: &Library) -> Option<Violation> {
    match crate::run(setup, Box::new(Consort::new(library)), &mut ()) {
        Ok(outcome) => outcome.violation,
        // No memory for the start, by a fault: the scheduler has said so, as it should.
        Err(_) => None,
    }
}
