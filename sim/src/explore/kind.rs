// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is searched, and by which rules.

use super::{generate, try_setup};
use crate::consort::{Consort, Library};
use crate::fluid::LAG_MAX_SLICES;
use crate::setup::Setup;
use crate::trace::{Outcome, Violation};
use crate::{mixes, run_against_ideal};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Small machines, few tasks, faults, and everything that can happen to them.
    #[default]
    Anything,
    /// What people run. Nobody may be further behind the fluid ideal than its bound, either.
    Mixes,
}

impl Kind {
    /// The scenario of a seed; always the same.
    pub fn generate(self, seed: u64) -> Setup {
        match self {
            Kind::Anything => generate(seed),
            Kind::Mixes => mixes::generate(seed).setup,
        }
    }

    /// Runs a setup under a build of the scheduler; what broke, if anything did.
    pub fn attempt(self, setup: &Setup, library: &Library) -> Option<Violation> {
        if self == Kind::Anything {
            return try_setup(setup, library);
        }
        let outcome = run_against_ideal(setup, 0, Box::new(Consort::new(library)), &mut ()).ok()?;
        outcome
            .violation
            .clone()
            .or_else(|| too_far_behind(&outcome))
    }
}

/// The rule `fluid-lag`.
fn too_far_behind(outcome: &Outcome) -> Option<Violation> {
    let lag = outcome
        .fluid_lag
        .as_ref()
        .filter(|lag| lag.slices > LAG_MAX_SLICES)?;
    let detail = format!(
        "{} is {:.1} slices behind the fluid ideal, {:.1} ms, from {:.3} s on",
        lag.task, lag.slices, lag.lag_ms, lag.from_s
    );
    Some(Violation {
        at_ns: (lag.to_s * 1e9) as u64,
        rule: "fluid-lag",
        detail,
        state: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fluid::Behind;

    #[test]
    fn who_is_too_far_behind_breaks_a_rule() {
        let behind = |slices: f64| Outcome {
            fluid_lag: Some(Behind {
                slices,
                to_s: 2.0,
                task: "t".into(),
                ..Behind::default()
            }),
            ..Outcome::default()
        };
        assert_eq!(too_far_behind(&behind(LAG_MAX_SLICES)), None);
        let violation = too_far_behind(&behind(LAG_MAX_SLICES + 0.1)).unwrap();
        assert_eq!(
            (violation.rule, violation.at_ns),
            ("fluid-lag", 2_000_000_000)
        );
    }

    #[test]
    fn kinds_draw_scenarios_of_their_own() {
        assert_ne!(Kind::Anything.generate(1), Kind::Mixes.generate(1));
    }
}
