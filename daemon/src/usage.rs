// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reservation has used lately, whether that was all that it was given, and what it should ask for.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::rate::{Rate, MILLION, RATE_MIN};

/// Samples are at least so far apart, and kept for the longest window.
const STEP: Duration = Duration::from_millis(900);
/// The windows that are told.
pub const WINDOWS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(60),
];
const SAMPLES_MAX: usize = 68;
/// Seconds by which a rate is suggested.
const RECENT: usize = 10;
/// Of what was given, in percent: who uses so much would have used more.
const ALL_PERCENT: u64 = 97;
/// So many seconds short of CPU time are no accident.
const LATE_MIN: usize = 2;
/// Beyond the most that was used in a second, and beyond what did not suffice, in percent.
const HEADROOM_PERCENT: u64 = 10;
const MORE_PERCENT: u64 = 50;

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    ran_ns: u64,
    /// Since the sample before.
    rate: Rate,
    /// It used all that it was given.
    late: bool,
}

/// CPU time used, sample by sample.
#[derive(Debug, Default)]
pub struct History {
    samples: VecDeque<Sample>,
}

impl History {
    /// Takes in how much CPU time was used until `now`, while `given` was what it could have. True when there is a new
    /// sample.
    pub fn note(&mut self, now: Instant, ran_ns: u64, given: Rate) -> bool {
        let mut rate = Rate(0);
        if let Some(last) = self.samples.back() {
            let passed = now.saturating_duration_since(last.at);
            if passed < STEP {
                return false;
            }
            rate = rate_of(ran_ns.saturating_sub(last.ran_ns), passed).unwrap_or_default();
        }
        let late = rate > Rate(0) && rate.0 >= given.0 * ALL_PERCENT / 100;
        self.samples.push_back(Sample {
            at: now,
            ran_ns,
            rate,
            late,
        });
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        true
    }

    /// The rate of use over about the last `window`, or since the first sample if that is later; `None` before that.
    pub fn rate(&self, window: Duration, now: Instant, ran_ns: u64) -> Option<Rate> {
        let age = |sample: &&Sample| now.saturating_duration_since(sample.at);
        // The youngest sample that is a window old, else the oldest.
        let old_enough = self
            .samples
            .iter()
            .rev()
            .find(|sample| age(sample) >= window);
        let then = old_enough.or(self.samples.front())?;
        rate_of(ran_ns.saturating_sub(then.ran_ns), age(&then))
    }

    /// Of about the last sixty seconds, those in which it used all that it was given, and would have used more.
    pub fn late_seconds(&self) -> usize {
        let window = WINDOWS[2];
        let newest = self.samples.back().map(|sample| sample.at);
        let is_recent = |sample: &&Sample| {
            newest.is_some_and(|newest| newest.saturating_duration_since(sample.at) < window)
        };
        let recent = self.samples.iter().filter(is_recent);
        // Samples may be a little less than a second apart.
        let late = recent.filter(|sample| sample.late).count();
        late.min(window.as_secs() as usize)
    }

    /// The nominal rate that would suit what was used lately, or lacked; `None` before that can be told. What is asked
    /// for already is good if it is close.
    pub fn suggested(&self, asked: Rate) -> Option<Rate> {
        if self.samples.len() <= LATE_MIN {
            return None;
        }
        let recent = || self.samples.iter().rev().take(RECENT);
        let peak = recent().map(|sample| sample.rate).max()?;
        let late = recent().filter(|sample| sample.late).count();
        let more = |rate: Rate, percent| Rate(rate.0 * (100 + percent) / 100);
        let wanted = match late >= LATE_MIN {
            true => more(asked.max(peak), MORE_PERCENT),
            false => more(peak, HEADROOM_PERCENT),
        };
        let close = asked.0 * HEADROOM_PERCENT / 100;
        if wanted.0.abs_diff(asked.0) <= close {
            return Some(asked);
        }
        Some(wanted.clamp(RATE_MIN, Rate::ONE))
    }

    /// Another rate holds from now on: what was lacking before says nothing about it.
    pub fn begin_anew(&mut self) {
        for sample in &mut self.samples {
            sample.late = false;
        }
    }
}

fn rate_of(used_ns: u64, passed: Duration) -> Option<Rate> {
    let passed_ns = passed.as_nanos();
    if passed_ns == 0 {
        return None;
    }
    let rate = u128::from(used_ns) * u128::from(MILLION) / passed_ns;
    u64::try_from(rate).ok().map(Rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// A history of seconds with these rates, in percent, of 50 % that were given.
    fn history(percents: &[u64]) -> History {
        let start = Instant::now();
        let mut history = History::default();
        let mut ran_ns = 0;
        history.note(start, 0, Rate(500_000));
        for (second, percent) in percents.iter().enumerate() {
            ran_ns += SECOND_NS / 100 * percent;
            let now = start + Duration::from_secs(second as u64 + 1);
            assert!(history.note(now, ran_ns, Rate(500_000)));
        }
        history
    }

    #[test]
    fn windows_follow_demand() {
        let start = Instant::now();
        let mut history = History::default();
        assert_eq!(history.rate(WINDOWS[0], start, 0), None);
        let mut ran_ns = 0;
        for tick in 0..480u32 {
            let now = start + tick * Duration::from_millis(250);
            history.note(now, ran_ns, Rate::ONE);
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
        assert_eq!(history.late_seconds(), 0);
    }

    #[test]
    fn a_rate_is_suggested_by_what_was_used_and_by_what_lacked() {
        let asked = Rate(300_000);
        assert_eq!(history(&[]).suggested(asked), None);
        assert_eq!(history(&[10, 12, 11]).suggested(asked), Some(Rate(132_000)));
        // Close to what is asked for.
        assert_eq!(history(&[25, 27, 26]).suggested(asked), Some(asked));
        // More than asked for, less than given: the class has more.
        assert_eq!(history(&[40, 40, 40]).suggested(asked), Some(Rate(440_000)));
        // All that is given, once, and often.
        let once = history(&[50, 20, 20]);
        assert_eq!(
            (once.late_seconds(), once.suggested(asked)),
            (1, Some(Rate(550_000)))
        );
        let often = history(&[50, 50, 49]);
        assert_eq!(
            (often.late_seconds(), often.suggested(asked)),
            (3, Some(Rate(750_000)))
        );
        assert_eq!(history(&[0, 0, 0]).suggested(asked), Some(RATE_MIN));
        assert_eq!(history(&[50; 60]).suggested(Rate(900_000)), Some(Rate::ONE));
        assert_eq!(history(&[50; 67]).late_seconds(), 60);
        let mut changed = history(&[50; 20]);
        changed.begin_anew();
        assert_eq!(changed.late_seconds(), 0);
    }
}
