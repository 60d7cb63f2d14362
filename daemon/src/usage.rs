// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reservation has used lately.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::rate::{Rate, MILLION};

/// Samples are at least so far apart, and kept for the longest window.
const STEP: Duration = Duration::from_millis(900);
/// The windows that are told.
pub const WINDOWS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(60),
];
const SAMPLES_MAX: usize = 68;

/// CPU time used, sample by sample.
#[derive(Debug, Default)]
pub struct History {
    samples: VecDeque<(Instant, u64)>,
}

impl History {
    /// Takes in how much CPU time was used until `now`.
    pub fn note(&mut self, now: Instant, ran_ns: u64) {
        let last = self.samples.back().map(|(at, _)| *at);
        if last.is_some_and(|last| now.saturating_duration_since(last) < STEP) {
            return;
        }
        self.samples.push_back((now, ran_ns));
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
    }

    /// The rate of use over about the last `window`, or since the first sample if that is later; `None` before that.
    pub fn rate(&self, window: Duration, now: Instant, ran_ns: u64) -> Option<Rate> {
        let age = |at: &Instant| now.saturating_duration_since(*at);
        // The youngest sample that is a window old, else the oldest.
        let old_enough = self.samples.iter().rev().find(|(at, _)| age(at) >= window);
        let (at, then_ns) = old_enough.or(self.samples.front())?;
        let passed_ns = age(at).as_nanos();
        if passed_ns == 0 {
            return None;
        }
        let used_ns = u128::from(ran_ns.saturating_sub(*then_ns));
        let rate = used_ns * u128::from(MILLION) / passed_ns;
        u64::try_from(rate).ok().map(Rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn windows_follow_demand() {
        let start = Instant::now();
        let mut history = History::default();
        assert_eq!(history.rate(WINDOWS[0], start, 0), None);
        let mut ran_ns = 0;
        for tick in 0..480u32 {
            let now = start + tick * Duration::from_millis(250);
            history.note(now, ran_ns);
            // 20 % in the first minute, 60 % in the second.
            ran_ns += if tick < 240 {
                SECOND_NS / 20
            } else {
                3 * SECOND_NS / 20
            };
        }
        let now = start + Duration::from_secs(120);
        let rate = |window| history.rate(window, now, ran_ns).unwrap().value();
        assert!(
            (rate(WINDOWS[0]) - 0.6).abs() < 1e-3,
            "{}",
            rate(WINDOWS[0])
        );
        assert!((rate(WINDOWS[1]) - 0.6).abs() < 1e-3);
        assert!(
            (rate(WINDOWS[2]) - 0.6).abs() < 0.01,
            "{}",
            rate(WINDOWS[2])
        );
        assert!(history.samples.len() <= SAMPLES_MAX);
    }
}
