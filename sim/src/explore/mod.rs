// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks for broken promises in random scenarios: one a seed, on all CPUs; what fails is made small.

mod child;
mod exits;
mod generate;
mod generator;
mod groups;
mod kind;
mod limits;
mod locks;
mod rated;
mod seldom;
mod shrink;
mod timers;

pub use child::{try_apart, Verdict};
pub use generate::generate;
pub use kind::Kind;

use crate::consort::{Consort, Library};
use crate::error::Error;
use crate::setup::Setup;
use crate::trace::Violation;
use child::Worker;
use shrink::shrink;
use std::time::{Duration, Instant};

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
pub struct ExploreOptions {
    pub kind: Kind,
    pub first_seed: u64,
    /// How many, at most.
    pub seeds: u64,
    /// No new seeds after this time.
    pub time_max: Option<Duration>,
    /// Processes.
    pub jobs: u64,
    /// Runs that making a failure small may take.
    pub shrink_runs_max: u32,
}

impl Default for ExploreOptions {
    fn default() -> Self {
        Self {
            kind: Kind::Anything,
            first_seed: 0,
            seeds: 100_000,
            time_max: None,
            jobs: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
            shrink_runs_max: 2_000,
        }
    }
}

/// A seed whose scenario breaks a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub verdict: Verdict,
    /// The smallest scenario found that breaks the same promise.
    pub setup: Setup,
    /// What it breaks; none if the run dies of it.
    pub violation: Option<Violation>,
}

#[derive(Clone, Debug)]
pub struct Exploration {
    /// Seeds that were tried.
    pub done: u64,
    pub failure: Option<Failure>,
}

/// Runs a setup under a build of the scheduler; what broke, if anything did.
pub fn try_setup(setup: &Setup, library: &Library) -> Option<Violation> {
    match crate::run(setup, Box::new(Consort::new(library)), &mut ()) {
        Ok(outcome) => outcome.violation,
        // No memory for the start, by a fault: the scheduler has said so, as it should.
        Err(_) => None,
    }
}

/// Tries seed after seed until one fails, all are done, or the time is over. `progress` is told now and then how
/// many are done.
///
/// # Errors
/// No process or memory to be had.
pub fn explore(
    options: &ExploreOptions,
    library: &Library,
    progress: &mut dyn FnMut(u64),
) -> Result<Exploration, Error> {
    let (done, failed) = search(options, library, progress)?;
    let Some((seed, verdict)) = failed else {
        return Ok(Exploration {
            done,
            failure: None,
        });
    };
    let kind = options.kind;
    let fails = |setup: &Setup| child::try_as(kind, setup, library).is_ok_and(|it| it == verdict);
    let setup = shrink(&kind.generate(seed), options.shrink_runs_max, fails);
    let violation = match verdict {
        Verdict::Broken(_) => kind.attempt(&setup, library),
        _ => None,
    };
    Ok(Exploration {
        done,
        failure: Some(Failure {
            seed,
            verdict,
            setup,
            violation,
        }),
    })
}

fn search(
    options: &ExploreOptions,
    library: &Library,
    progress: &mut dyn FnMut(u64),
) -> Result<(u64, Option<(u64, Verdict)>), Error> {
    let begin = Instant::now();
    let jobs = options.jobs.clamp(1, 1024);
    let end = options.first_seed.saturating_add(options.seeds);
    let mut workers = Vec::new();
    for job in 0..jobs {
        let first = options.first_seed + job;
        workers.push(Worker::start(first, jobs, end, library, options.kind)?);
    }
    loop {
        let mut running = 0;
        for worker in &mut workers {
            match worker.look()? {
                None => running += 1,
                Some(Verdict::Fine) => {}
                Some(verdict) => {
                    let found = (worker.seed(), verdict);
                    return Ok((workers.iter().map(Worker::done).sum(), Some(found)));
                }
            }
        }
        let done = workers.iter().map(Worker::done).sum();
        progress(done);
        let is_over = options.time_max.is_some_and(|max| begin.elapsed() >= max);
        if running == 0 || is_over {
            return Ok((done, None));
        }
        std::thread::sleep(LOOK);
    }
}
