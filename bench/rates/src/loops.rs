// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that always want the CPU, each with a promise, and what they had of it.

use crate::cpu_time::CpuClock;
use crate::promise::Prepared;
use consort_bench_player::clock::{now_ns, NS_PER_MS};
use consort_bench_player::error::Error;
use consort_bench_player::processes::{kill_all, spawn, Child};
use consort_bench_player::work::burn_ns;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many windows of a second pass before others' parts count: starting is not what is measured.
const WARMUP_WINDOWS: usize = 2;

/// Killed when this goes out of scope.
pub struct Loops(Vec<Child<()>>);

/// A reading: when, and the CPU time that each loop has had.
pub type Reading = (u64, Vec<u64>);

impl Loops {
    /// One for each of `number` promises, from `first` on.
    ///
    /// # Errors
    /// When a process cannot be started; what keeps it from its promise ends the process.
    pub fn start(prepared: &Prepared, first: usize, number: usize) -> Result<Self, Error> {
        let mut loops = Self(Vec::new());
        for index in 0..number {
            loops.0.push(spawn(move || {
                prepared.take(first + index)?;
                loop {
                    burn_ns(NS_PER_MS);
                }
            })?);
        }
        Ok(loops)
    }

    /// Does the work, and reads meanwhile, about once a second, what the loops have had.
    ///
    /// # Errors
    /// When a loop has ended before.
    pub fn watched<Done: Send>(
        &self,
        work: impl FnOnce() -> Done + Send,
    ) -> Result<(Done, Vec<Reading>), Error> {
        let clocks: Vec<CpuClock> = self
            .0
            .iter()
            .map(|one| CpuClock::of(one.pid))
            .collect::<Result<_, _>>()?;
        let ended = AtomicBool::new(false);
        let mut readings = Vec::new();
        let done = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let done = work();
                ended.store(true, Ordering::Release);
                done
            });
            while !ended.load(Ordering::Acquire) {
                readings.push((now_ns(), clocks.iter().map(CpuClock::now_ns).collect()));
                std::thread::sleep(Duration::from_secs(1));
            }
            worker.join()
        });
        let done = done.map_err(|_| Error::Usage("playing panicked".into()))?;
        Ok((done, readings))
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        kill_all(self.0.drain(..));
    }
}

/// The least part of the CPU that a loop had between two readings; 0 if there were not enough of them.
pub fn least(readings: &[Reading], number: usize) -> f64 {
    let parts = readings.windows(2).skip(WARMUP_WINDOWS).map(|pair| {
        let (before, after) = (&pair[0], &pair[1]);
        (after.1[number] - before.1[number]) as f64 / (after.0 - before.0) as f64
    });
    parts.min_by(f64::total_cmp).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_window_counts() {
        let readings: Vec<Reading> = [(0, 0), (10, 0), (20, 0), (30, 5), (40, 7), (50, 12)]
            .map(|(at, had)| (at, vec![had]))
            .to_vec();
        assert_eq!(least(&readings, 0), 0.2);
    }
}
