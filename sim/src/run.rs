// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run, from a setup to its outcome.

use crate::error::Error;
use crate::fluid::{self, Lag};
use crate::kernel::Kernel;
use crate::report::Both;
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

/// The same, and how far anybody was behind the fluid ideal, where that [is defined](fluid::is_defined); what the ideal gave to
/// each is added up from `from_ns` on.
///
/// # Errors
/// As of [`run`].
pub fn run_against_ideal(
    setup: &Setup,
    from_ns: u64,
    scheduler: Box<dyn Scheduler>,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    if !fluid::is_defined(setup) {
        return run(setup, scheduler, observer);
    }
    setup.check()?;
    let mut lag = Lag::new(setup, from_ns);
    let mut both = Both(observer, &mut lag);
    let mut outcome = Kernel::new(setup, scheduler, &mut both)?.run()?;
    let end_ns = match &outcome.violation {
        Some(violation) => violation.at_ns,
        None => outcome.end_ns,
    };
    outcome.fluid_lag = Some(lag.worst(end_ns));
    outcome.fluid_given_ns = lag.given_ns();
    Ok(outcome)
}
