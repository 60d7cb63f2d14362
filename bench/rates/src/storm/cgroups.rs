// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client that does with cgroups what others ask the daemon for: makes one beside the video's, enters it, changes its
//! weight, leaves and removes it. Nobody admits that: root may, and others are refused.

use super::tally::{Answer, Tally};
use crate::promise::Prepared;
use consort_bench_player::clock::now_ns;
use consort_bench_player::error::Error;
use consort_bench_player::fleet::Schedule;
use consort_sim::random::Random;

/// Of a thousand for a CPU: rates as those of [`super::reservations`].
const WEIGHTS: std::ops::Range<u64> = 1..50;

/// Asks until the window's end.
pub fn storm(seed: u64, prepared: &Prepared, class: &str, schedule: Schedule) -> Tally {
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    let name = format!("client-{seed}");
    while now_ns() < schedule.window_end_ns {
        let [first, then] = [0; 2].map(|_| random.between(WEIGHTS.start, WEIGHTS.end));
        let mut made = None;
        tally.count(|| {
            answer(prepared.cgroup_in(class, &name, first).and_then(|cgroup| {
                cgroup.enter()?;
                made = Some(cgroup);
                Ok(())
            }))
        });
        if let Some(cgroup) = made {
            tally.count(|| answer(cgroup.set_weight(then)));
            tally.count(|| {
                let left = prepared.take_none();
                drop(cgroup);
                answer(left)
            });
        }
    }
    tally
}

fn answer(done: Result<(), Error>) -> Answer {
    match done {
        Ok(()) => Answer::Granted,
        Err(Error::Io { source, .. }) => {
            source.raw_os_error().map_or(Answer::None, Answer::Refused)
        }
        Err(_) => Answer::None,
    }
}
