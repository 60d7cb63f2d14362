// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of requests, and how long they took.

use consort_bench_player::clock::now_ns;
use consort_bench_player::statistics::Distribution;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Granted,
    /// With this errno.
    Refused(i32),
    /// Its user asks too fast, and was not listened to.
    TurnedAway,
    /// Nobody knows whether it was done.
    None,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    granted: u64,
    /// By errno.
    refused: BTreeMap<i32, u64>,
    turned_away: u64,
    unanswered: u64,
    /// Of those that were granted or refused.
    took_ns: Vec<u64>,
}

/// What all clients together were told.
#[derive(Debug, Serialize)]
pub struct Storm {
    answered_per_s: f64,
    granted: u64,
    /// By errno.
    refused: BTreeMap<i32, u64>,
    turned_away: u64,
    unanswered: u64,
    latency: Distribution,
}

impl Tally {
    /// Makes a request, and counts it.
    pub fn count(&mut self, ask: impl FnOnce() -> Answer) -> Answer {
        let asked_ns = now_ns();
        let answer = ask();
        let took_ns = now_ns() - asked_ns;
        match answer {
            Answer::Granted => self.granted += 1,
            Answer::Refused(errno) => *self.refused.entry(errno).or_default() += 1,
            Answer::TurnedAway => self.turned_away += 1,
            Answer::None => self.unanswered += 1,
        }
        if matches!(answer, Answer::Granted | Answer::Refused(_)) {
            self.took_ns.push(took_ns);
        }
        answer
    }

    pub fn sum(tallies: impl Iterator<Item = Tally>) -> Tally {
        let mut sum = Tally::default();
        for one in tallies {
            sum.granted += one.granted;
            sum.turned_away += one.turned_away;
            sum.unanswered += one.unanswered;
            sum.took_ns.extend(one.took_ns);
            for (errno, count) in one.refused {
                *sum.refused.entry(errno).or_default() += count;
            }
        }
        sum
    }

    /// In so many seconds.
    pub fn over(self, seconds: u64) -> Storm {
        Storm {
            answered_per_s: self.took_ns.len() as f64 / seconds as f64,
            granted: self.granted,
            refused: self.refused,
            turned_away: self.turned_away,
            unanswered: self.unanswered,
            latency: Distribution::of_ns(self.took_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_take_time_and_all_are_counted() {
        let mut one = Tally::default();
        for answer in [
            Answer::Granted,
            Answer::Refused(libc::ENOSPC),
            Answer::Refused(libc::ENOSPC),
            Answer::TurnedAway,
            Answer::None,
        ] {
            assert_eq!(one.count(|| answer), answer);
        }
        let storm = Tally::sum([one.clone(), one].into_iter()).over(2);
        assert_eq!(
            (storm.granted, storm.turned_away, storm.unanswered),
            (2, 2, 2)
        );
        assert_eq!(storm.refused[&libc::ENOSPC], 4);
        assert_eq!((storm.latency.count, storm.answered_per_s), (6, 3.0));
    }
}
