// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run, from a setup to its outcome.

use crate::error::Error;
use crate::kernel::Kernel;
use crate::scheduler::Scheduler;
use crate::setup::Setup;
use crate::trace::{Observer, Outcome};

/// Runs `setup` under `scheduler`. The same setup gives the same events to the nanosecond.
///
/// # Errors
/// A setup that does not fit together, or that the scheduler cannot do. A broken promise is not an error: the outcome
/// says so.
pub fn run(
    setup: &Setup,
    scheduler: Box<dyn Scheduler>,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    setup.check()?;
    let mut kernel = Kernel::new(setup, scheduler, observer)?;
    kernel.run()
}
