// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client that asks the kernel for SCHED_DEADLINE, for too much of it, and gives it back. Users who are not root are
//! refused. It does not change what it has: on Linux 7.2.13 a thread that does so while others do may never run again,
//! runnable on an idle CPU.

use super::tally::{Answer, Tally};
use super::Times;
use consort_bench_player::clock::{now_ns, NS_PER_MS};
use consort_bench_player::deadline::{become_deadline, leave_deadline};
use consort_bench_player::error::Error;
use consort_sim::random::Random;

const PERIODS_MS: [u64; 3] = [1, 10, 100];
const RATES: std::ops::Range<f64> = 0.01..0.05;
/// More than the kernel admits in all.
const TOO_MUCH: f64 = 0.99;

/// Asks until the window's end.
pub fn storm(seed: u64, times: Times) -> Result<Tally, Error> {
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    while now_ns() < times.schedule.window_end_ns {
        let period_ns = random.pick(&PERIODS_MS) * NS_PER_MS;
        let rate = RATES.start + (RATES.end - RATES.start) * random.unit();
        tally.count(|| answer(become_deadline(TOO_MUCH, period_ns)));
        let asked = tally.count(|| answer(become_deadline(rate, period_ns)));
        if asked == Answer::Granted {
            tally.count(|| answer(leave_deadline()));
        }
    }
    Ok(tally)
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
