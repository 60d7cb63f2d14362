// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timers that cannot be started, in random scenarios.

use crate::random::Random;
use crate::setup::Setup;

/// Draws apart from all else, so that the rest of each scenario stays as it was.
pub fn timers(setup: &mut Setup) {
    setup.faults.timer_fails = draw(setup.seed);
}

fn draw(seed: u64) -> f64 {
    *Random::derived(seed, 0x71_3e55).pick(&[0.0, 0.0, 0.0, 0.02, 0.3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_scenarios_have_timers_that_fail() {
        let with = (0..1000).filter(|seed| draw(*seed) > 0.0).count();
        assert!((300..500).contains(&with), "{with}");
        assert_eq!(draw(7), draw(7));
    }
}
