// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of a scenario under a configuration, with its report's trace where one is wanted.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use consort_sim::{
    report::{Both, Recorder, Summary, Trace},
    run_against_ideal,
    scenario::{Configuration, Scenario},
    trace::{Observer, Outcome},
};

use super::{args::Choice, failure::SimFailure, files::writing};

/// What came of a run.
pub struct Simulated {
    pub recorder: Recorder,
    pub summary: Summary,
    /// A very long trace is cut.
    trace_is_whole: bool,
}

impl Simulated {
    /// An error if the run broke a promise, or was not what the scenario asks for, for whoever has shown all else.
    pub fn verdict(&self) -> Result<(), SimFailure> {
        if !self.trace_is_whole {
            let title = &self.summary.title;
            // Who does not read this misses only that.
            let _ = writeln!(
                io::stderr(),
                "consort: {title}: the trace ends early: what follows would be more than viewers take"
            );
        }
        let title = self.summary.title.clone();
        match (&self.summary.violation, self.summary.refused_reservations) {
            (Some(violation), _) => Err(SimFailure::Violation {
                title,
                rule: violation.rule,
            }),
            (None, 0) => Ok(()),
            (None, count) => Err(SimFailure::Refused { title, count }),
        }
    }
}

/// Reads a scenario and changes it as the command line asks.
pub fn load(path: &Path, choice: &Choice) -> Result<Scenario, SimFailure> {
    let mut scenario = consort_sim::scenario::load(path, choice.seed)?;
    if let Some(kernel) = choice.kernel {
        scenario.setup.machine.kernel = kernel;
    }
    Ok(scenario)
}

/// Runs `scenario`; `trace` is the file to write its trace to.
pub fn simulate(
    scenario: &Scenario,
    configuration: &Configuration,
    trace: Option<&Path>,
) -> Result<Simulated, SimFailure> {
    let mut setup = scenario.setup.clone();
    configuration.apply(&mut setup);
    let mut recorder = Recorder::new(&setup, scenario.warmup_ns);
    let run = |scheduler, observer: &mut dyn Observer| {
        run_against_ideal(&setup, scenario.warmup_ns, scheduler, observer)
    };
    let (outcome, trace_is_whole) = match trace {
        None => (run(configuration.scheduler(), &mut recorder)?, true),
        Some(path) => {
            let file = File::create(path).map_err(writing(path))?;
            let mut trace = Trace::new(&setup, BufWriter::new(file)).map_err(writing(path))?;
            let mut both = Both(&mut recorder, &mut trace);
            let outcome = run(configuration.scheduler(), &mut both)?;
            let is_whole = trace.finish(end_ns(&outcome)).map_err(writing(path))?;
            (outcome, is_whole)
        }
    };
    recorder.finish(end_ns(&outcome));
    let title = format!("{}, {configuration}", scenario.name);
    let summary = Summary {
        limits: configuration.limits(&scenario.setup),
        ..Summary::new(&title, &recorder, &outcome)
    };
    Ok(Simulated {
        recorder,
        summary,
        trace_is_whole,
    })
}

/// A run that breaks a promise ends with that.
fn end_ns(outcome: &Outcome) -> u64 {
    let violation = outcome.violation.as_ref();
    violation.map_or(outcome.end_ns, |violation| violation.at_ns)
}
