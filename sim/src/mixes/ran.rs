// SPDX-License-Identifier: MIT OR Apache-2.0
//! One of a mix's runs, in the numbers that are judged.

use crate::error::Error;
use crate::report::{Distribution, Recorder};
use crate::run::run_against_ideal;
use crate::scenario::{Configuration, Scenario};
use crate::setup::TaskIndex;
use crate::trace::Outcome;

/// What a task of the setup had in the window from the warm-up to the end.
#[derive(Clone, Debug, Default)]
pub struct Had {
    pub run_ns: f64,
    pub wait_ms: f64,
    pub tardiness: Distribution,
}

pub struct Ran {
    pub outcome: Outcome,
    /// By task of the setup. Of several that were forked from one, the sum, and the worst.
    pub tasks: Vec<Had>,
    pub switches_per_s: f64,
    pub from_ns: u64,
    pub to_ns: u64,
}

impl Ran {
    /// Runs the scenario under a configuration.
    ///
    /// # Errors
    /// As of [`crate::run`].
    pub fn new(scenario: &Scenario, configuration: &str) -> Result<Self, Error> {
        let configuration: Configuration = configuration.parse().unwrap_or_default();
        let mut setup = scenario.setup.clone();
        configuration.apply(&mut setup);
        let mut recorder = Recorder::new(&setup, scenario.warmup_ns);
        let outcome = run_against_ideal(
            &setup,
            scenario.warmup_ns,
            configuration.scheduler(),
            &mut recorder,
        )?;
        let violation = outcome.violation.as_ref();
        let to_ns = violation.map_or(setup.duration_ns, |violation| violation.at_ns);
        recorder.finish(to_ns);
        let mut tasks = vec![Had::default(); setup.tasks.len()];
        for (index, had) in tasks.iter_mut().enumerate() {
            had.count(&recorder, index);
        }
        let window_s = (recorder.window_ns() as f64 / 1e9).max(f64::MIN_POSITIVE);
        Ok(Self {
            outcome,
            tasks,
            switches_per_s: recorder.switches() as f64 / window_s,
            from_ns: scenario.warmup_ns,
            to_ns,
        })
    }

    pub fn window_ns(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64
    }

    /// What the ideal gave to a task while it was runnable; none: not known.
    pub fn given(&self, task: TaskIndex) -> Option<f64> {
        let given_ns = self.outcome.fluid_given_ns.get(task)?;
        Some(given_ns / self.window_ns().max(1.0))
    }

    /// Of one CPU.
    pub fn share(&self, task: TaskIndex) -> f64 {
        self.tasks[task].run_ns / self.window_ns().max(1.0)
    }
}

impl Had {
    fn count(&mut self, recorder: &Recorder, index: TaskIndex) {
        let mut late_ns = Vec::new();
        let records = recorder.tasks().iter();
        for record in records.filter(|record| record.of == index && !record.name.is_empty()) {
            self.run_ns += record.run_ns as f64;
            self.wait_ms = self.wait_ms.max(record.wait_max_ns as f64 / 1e6);
            late_ns.extend_from_slice(&record.tardiness_ns);
        }
        late_ns.sort_unstable();
        self.tardiness = Distribution::of_sorted_ns(&late_ns);
    }
}
