// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of a scenario under a configuration, with its report's trace where one is wanted.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use consort_sim::{
    report::{Recorder, Recording, Summary, Trace},
    run_against_ideal,
    scenario::{without_effect, Configuration, Scenario},
    setup::Setup,
    trace::{Event, Observer, Outcome},
};

use super::{args::Choice, failure::SimFailure, files::writing};

/// A recording gets no longer; what would be more is counted in it.
const RECORDING_BYTES_MAX: u64 = 1 << 30;

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
            // A reader who has gone misses only that.
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

/// The files to write while a run goes on.
#[derive(Debug, Default, Clone, Copy)]
pub struct Written<'a> {
    /// The report's, for viewers.
    pub trace: Option<&'a Path>,
    /// For `consort trace`.
    pub recording: Option<&'a Path>,
}

/// Runs `scenario`, and writes those files.
pub fn simulate(
    scenario: &Scenario,
    configuration: &Configuration,
    written: Written<'_>,
) -> Result<Simulated, SimFailure> {
    let mut setup = scenario.setup.clone();
    configuration.apply(&mut setup);
    let mut recorder = Recorder::new(&setup, scenario.warmup_ns);
    let mut trace = written
        .trace
        .map(|path| trace_into(&setup, path))
        .transpose()?;
    let system = format!("{}, {configuration}", scenario.name);
    let recording = written
        .recording
        .map(|path| recording_into(&setup, &system, path));
    let mut recording = recording.transpose()?;
    let mut observers: Vec<&mut dyn Observer> = vec![&mut recorder];
    observers.extend(trace.as_mut().map(|it| it as &mut dyn Observer));
    observers.extend(recording.as_mut().map(|it| it as &mut dyn Observer));
    let mut all = |event: &Event| observers.iter_mut().for_each(|it| it.event(event));
    let scheduler = configuration.scheduler();
    let outcome = run_against_ideal(&setup, scenario.warmup_ns, scheduler, &mut all)?;
    let mut trace_is_whole = true;
    if let (Some(trace), Some(path)) = (trace, written.trace) {
        trace_is_whole = trace.finish(end_ns(&outcome)).map_err(writing(path))?;
    }
    if let (Some(recording), Some(path)) = (recording, written.recording) {
        recording.finish(end_ns(&outcome)).map_err(writing(path))?;
    }
    recorder.finish(end_ns(&outcome));
    let title = format!("{}, {configuration}", scenario.name);
    let summary = Summary {
        limits: notes(scenario, configuration),
        ..Summary::new(&title, &recorder, &outcome)
    };
    Ok(Simulated {
        recorder,
        summary,
        trace_is_whole,
    })
}

fn trace_into(setup: &Setup, path: &Path) -> Result<Trace<BufWriter<File>>, SimFailure> {
    let file = File::create(path).map_err(writing(path))?;
    Trace::new(setup, BufWriter::new(file)).map_err(writing(path))
}

fn recording_into(
    setup: &Setup,
    system: &str,
    path: &Path,
) -> Result<Recording<BufWriter<File>>, SimFailure> {
    let file = File::create(path).map_err(writing(path))?;
    let made = Recording::new(setup, system, BufWriter::new(file), RECORDING_BYTES_MAX);
    made.map_err(writing(path))
}

/// What the numbers do not show, and what the scenario says in vain.
fn notes(scenario: &Scenario, configuration: &Configuration) -> Vec<String> {
    let mut notes = configuration.limits(&scenario.setup);
    notes.extend(without_effect(&scenario.setup));
    notes
}

/// A run that breaks a promise ends with that.
fn end_ns(outcome: &Outcome) -> u64 {
    let violation = outcome.violation.as_ref();
    violation.map_or(outcome.end_ns, |violation| violation.at_ns)
}
