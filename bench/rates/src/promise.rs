// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a process comes by its part of the CPU: reserved under Consort, by weights of nested cgroups, or by
//! SCHED_DEADLINE.

use clap::{Args, ValueEnum};
use consort_bench_player::cgroup::Cgroup;
use consort_bench_player::clock::NS_PER_MS;
use consort_bench_player::deadline::become_deadline;
use consort_bench_player::error::Error;
use serde::Serialize;
use std::path::Path;
use std::str::FromStr;

/// Where the cgroup v2 hierarchy is mounted in guests.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// cpu.weight of a whole CPU: weights are whole numbers up to 10000.
const WEIGHT_ONE: f64 = 1000.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Means {
    Consort,
    Cgroup,
    Deadline,
}

/// A class and a part of a CPU: its capacity, or a rate in it. Written `guaranteed=0.3`.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    pub class: String,
    pub rate: f64,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || format!("'{text}': expected a class and a part of a CPU, as guaranteed=0.3");
        let (class, rate) = text.split_once('=').ok_or_else(expected)?;
        let rate: f64 = rate.parse().map_err(|_| expected())?;
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(expected());
        }
        let class = class.to_string();
        Ok(Part { class, rate })
    }
}

/// How the CPU is divided.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Division {
    /// What makes promises true
    #[arg(long, value_enum, default_value = "consort")]
    means: Means,
    /// Classes and their capacities, as the scheduler has them
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "guaranteed=0.5,adaptive=0.25,flexible=0.25"
    )]
    classes: Vec<Part>,
    /// Over which time a rate is promised
    #[arg(long, default_value_t = 30)]
    period_ms: u64,
}

const FLEXIBLE: &str = "flexible";

impl Division {
    pub fn means(&self) -> Means {
        self.means
    }

    fn capacity(&self, class: &str) -> f64 {
        let found = self.classes.iter().find(|part| part.class == class);
        found.map_or(0.0, |part| part.rate)
    }

    /// What each promise is worth while all want the CPU: the parts of classes without a promise go to the others in
    /// proportion. `others`: somebody without a promise wants it, too.
    pub fn effective(&self, promises: &[Part], others: bool) -> Vec<f64> {
        let is_active = |class: &str| {
            (class == FLEXIBLE && others) || promises.iter().any(|promise| promise.class == class)
        };
        let active: f64 = self
            .classes
            .iter()
            .filter(|part| is_active(&part.class))
            .map(|part| part.rate)
            .sum();
        promises
            .iter()
            .map(|promise| {
                let nominal: f64 = promises
                    .iter()
                    .filter(|other| other.class == promise.class)
                    .map(|other| other.rate)
                    .sum();
                self.capacity(&promise.class) / active * promise.rate / nominal
            })
            .collect()
    }

    /// What has to be there before anybody takes what was promised.
    pub fn prepare(&self, promises: &[Part]) -> Result<Prepared, Error> {
        let mut prepared = Prepared {
            division: self.clone(),
            promises: promises.to_vec(),
            flexible: None,
            reserved: Vec::new(),
            classes: Vec::new(),
        };
        if self.means == Means::Cgroup {
            prepared.make_cgroups()?;
        }
        Ok(prepared)
    }
}

/// Cgroups are removed in the order of the fields.
pub struct Prepared {
    division: Division,
    promises: Vec<Part>,
    flexible: Option<Cgroup>,
    reserved: Vec<Cgroup>,
    classes: Vec<Cgroup>,
}

impl Prepared {
    fn make_cgroups(&mut self) -> Result<(), Error> {
        let weight = |rate: f64| (rate * WEIGHT_ONE).round() as u64;
        let root = Path::new(CGROUP_ROOT);
        for class in &self.division.classes {
            let made = Cgroup::new(root, &format!("bench-{}", class.class), weight(class.rate))?;
            if class.class == FLEXIBLE {
                self.flexible = Some(made);
            } else {
                self.classes.push(made);
            }
        }
        for (number, promise) in self.promises.iter().enumerate() {
            let class = root.join(format!("bench-{}", promise.class));
            let made = Cgroup::new(&class, &number.to_string(), weight(promise.rate))?;
            self.reserved.push(made);
        }
        Ok(())
    }

    /// One more cgroup in that of a class, beside the promises.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn cgroup_in(&self, class: &str, name: &str, weight: u64) -> Result<Cgroup, Error> {
        Cgroup::new(
            &Path::new(CGROUP_ROOT).join(format!("bench-{class}")),
            name,
            weight,
        )
    }

    /// The calling process takes promise `number`.
    pub fn take(&self, number: usize) -> Result<(), Error> {
        let Some(promise) = self.promises.get(number) else {
            return self.take_none();
        };
        match self.division.means {
            Means::Consort => consort::Reservation::in_class(&promise.class)
                .rate(promise.rate)
                .period_ns(self.division.period_ms * NS_PER_MS)
                .reserve()
                .map_err(Error::Cooperation),
            Means::Cgroup => self.reserved[number].enter(),
            Means::Deadline => become_deadline(promise.rate, self.division.period_ms * NS_PER_MS),
        }
    }

    /// The calling process has been promised nothing.
    pub fn take_none(&self) -> Result<(), Error> {
        self.flexible.as_ref().map_or(Ok(()), Cgroup::enter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn division() -> Division {
        Division {
            means: Means::Consort,
            classes: ["guaranteed=0.5", "adaptive=0.25", "flexible=0.25"]
                .map(|text| text.parse().unwrap())
                .to_vec(),
            period_ms: 30,
        }
    }

    #[test]
    fn a_class_is_shared_by_nominal_rates_and_sleeping_classes_in_proportion() {
        let promises = ["guaranteed=0.3", "guaranteed=0.1"].map(|text| text.parse().unwrap());
        let with_others = division().effective(&promises, true);
        assert!((with_others[0] - 0.5).abs() < 1e-9 && (with_others[1] - 1.0 / 6.0).abs() < 1e-9);
        let alone = division().effective(&promises, false);
        assert!((alone[0] - 0.75).abs() < 1e-9 && (alone[1] - 0.25).abs() < 1e-9);
    }

    #[test]
    fn parts_are_parts() {
        for text in [
            "guaranteed",
            "guaranteed=x",
            "guaranteed=0",
            "guaranteed=1.1",
        ] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }
}
