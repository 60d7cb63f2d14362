// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a scenario is scheduled: `coop`, `fair`, `eevdf`, `rr`, `rc` or `frc`, and tunables, such as `fair,granularity=2ms`.

use crate::{
    duration::parse_ns,
    models::{Algorithm, Eevdf, RateControlled, RoundRobin},
    scheduler::Scheduler,
    setup::{Program, Setup, Step},
};

/// Who schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// Consort, as the scenario says.
    Coop,
    /// Consort, without any domain.
    Fair,
    /// The model of the stock scheduler.
    Eevdf,
    /// The model of SCHED_RR.
    RoundRobin,
    /// An algorithm of 004.
    RateControlled(Algorithm),
}

const BASES: [(&str, Base); 6] = [
    ("coop", Base::Coop),
    ("fair", Base::Fair),
    ("eevdf", Base::Eevdf),
    ("rr", Base::RoundRobin),
    ("rc", Base::RateControlled(Algorithm::Rc)),
    ("frc", Base::RateControlled(Algorithm::Frc)),
];

/// What can be set, for each base.
const CONSORT_KEYS: &[&str] = &["granularity", "min-slice", "window"];
const EEVDF_KEYS: &[&str] = &["slice"];
const QUANTUM_KEYS: &[&str] = &["quantum"];

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    text: String,
    pub(super) base: Base,
    /// Times in ns, by name.
    times: Vec<(&'static str, u64)>,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            text: "coop".into(),
            base: Base::Coop,
            times: Vec::new(),
        }
    }
}

impl std::str::FromStr for Configuration {
    type Err = String;

    /// # Errors
    /// What is wrong with the text, and what was expected.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',').peekable();
        let named = |name: &str| BASES.iter().find(|(known, _)| *known == name);
        let base = parts.next_if(|part| !part.contains('=')).map(|name| {
            named(name).map(|(_, base)| *base).ok_or_else(|| {
                format!("no scheduler is called {name:?}: expected coop, fair, eevdf, rr, rc or frc, and tunables such as granularity=2ms")
            })
        });
        let base = base.transpose()?.unwrap_or(Base::Coop);
        let times = parts
            .map(|part| setting(base, part))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            text: text.to_owned(),
            base,
            times,
        })
    }
}

impl std::fmt::Display for Configuration {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.text)
    }
}

/// `granularity=2ms`, for a base that has that.
fn setting(base: Base, part: &str) -> Result<(&'static str, u64), String> {
    let keys = match base {
        Base::Coop | Base::Fair => CONSORT_KEYS,
        Base::Eevdf => EEVDF_KEYS,
        Base::RoundRobin | Base::RateControlled(_) => QUANTUM_KEYS,
    };
    let (key, value) = part.split_once('=').unwrap_or((part, ""));
    let known = keys.iter().find(|known| **known == key);
    let key = known.ok_or_else(|| {
        format!(
            "{key:?} cannot be set there: expected one of {}, such as {}=2ms",
            keys.join(", "),
            keys[0]
        )
    })?;
    match parse_ns(value) {
        Ok(ns) if ns > 0 => Ok((key, ns)),
        _ => Err(format!(
            "{value:?} is no time: expected a number and a unit, such as {key}=2ms"
        )),
    }
}

impl Configuration {
    fn time_ns(&self, key: &str) -> Option<u64> {
        let found = self.times.iter().rev().find(|(known, _)| *known == key);
        found.map(|(_, ns)| *ns)
    }

    /// Changes a scenario to be scheduled like this.
    pub fn apply(&self, setup: &mut Setup) {
        let tunables = &mut setup.tunables;
        tunables.granularity_ns = self.time_ns("granularity").or(tunables.granularity_ns);
        tunables.min_slice_ns = self.time_ns("min-slice").or(tunables.min_slice_ns);
        tunables.window_ns = self.time_ns("window").or(tunables.window_ns);
        if self.base != Base::Coop {
            for task in &mut setup.tasks {
                part_from_domains(&mut task.program);
            }
            setup.domains.clear();
            setup.groups.clear();
        }
    }

    /// The scheduler.
    pub fn scheduler(&self) -> Box<dyn Scheduler> {
        match self.base {
            Base::Coop | Base::Fair => crate::consort(),
            Base::Eevdf => Box::new(Eevdf::new(self.time_ns("slice"))),
            Base::RoundRobin => Box::new(RoundRobin::new(self.time_ns("quantum"))),
            Base::RateControlled(algorithm) => {
                Box::new(RateControlled::new(algorithm, self.time_ns("quantum")))
            }
        }
    }
}

/// The same program where there is nobody to cooperate with.
fn part_from_domains(program: &mut Program) {
    match program {
        Program::Player(player) => player.domain = None,
        Program::Steps(steps) => part_steps(steps),
        // A task that lies in a domain is a hog outside.
        Program::MuteLiar { .. }
        | Program::PoliteLiar { .. }
        | Program::Garbage { .. }
        | Program::Script { .. } => {
            *program = Program::Hog;
        }
        Program::Hog => {}
    }
}

fn part_steps(steps: &mut Vec<Step>) {
    steps.retain(|step| !matches!(step, Step::Join(_) | Step::Leave));
    for step in steps {
        if let Step::Loop { steps, .. } = step {
            part_steps(steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    #[test]
    fn a_configuration_is_a_scheduler_and_tunables() {
        let read = |text: &str| text.parse::<Configuration>().unwrap();
        assert_eq!(read("coop").base, Base::Coop);
        assert_eq!(read("granularity=2ms").base, Base::Coop);
        let fair = read("fair,granularity=2ms,min-slice=200us,granularity=1ms");
        assert_eq!(
            (fair.base, fair.time_ns("granularity")),
            (Base::Fair, Some(1_000_000))
        );
        assert_eq!(fair.time_ns("min-slice"), Some(200_000));
        assert_eq!(read("rr,quantum=10ms").time_ns("quantum"), Some(10_000_000));
        assert_eq!(read("eevdf,slice=0.1ms").to_string(), "eevdf,slice=0.1ms");
    }

    #[test]
    fn others_are_refused_with_what_was_expected() {
        for (text, part) in [
            ("cfs", "expected coop, fair, eevdf, rr, rc or frc"),
            ("", "no scheduler is called"),
            ("rr,granularity=2ms", "expected one of quantum"),
            ("fair,granularity", "\"\" is no time"),
            ("fair,min-slice=2", "\"2\" is no time"),
            ("eevdf,slice=0ms", "is no time"),
            ("fair,coop", "\"coop\" cannot be set there"),
        ] {
            let error = text.parse::<Configuration>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn without_domains_nobody_joins_one() {
        let text = r#"{"tasks": {"p": {"player": {"domain": "d"}}, "l": {"mute_liar": "d"},
            "s": {"join": "d", "phases": {"a": {"loop": 2, "join": "d", "poll": 5, "leave": ""}}}}}"#;
        let text = text.replace("\"join\": \"d\", \"phases\"", "\"phases\"");
        let mut setup = parse("a.json", &text).unwrap().setup;
        "fair,window=3ms"
            .parse::<Configuration>()
            .unwrap()
            .apply(&mut setup);
        assert!(setup.domains.is_empty());
        assert_eq!(setup.tunables.window_ns, Some(3_000_000));
        assert_eq!(setup.tasks[1].program, Program::Hog);
        let written = format!("{:?}", setup.tasks);
        assert!(
            written.contains("Poll") && !written.contains("Join"),
            "{written}"
        );
        assert!(written.contains("domain: None"));
    }
}
