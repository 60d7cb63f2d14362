// SPDX-License-Identifier: MIT OR Apache-2.0
//! Some that have reserved, beside many threads that have not: for how long do they wait? (004 section 5)

use crate::promise::{Division, Part};
use crate::trace::{gaps_ns, work_until};
use clap::{Args, ValueEnum};
use consort_bench_player::clock::{no_timer_slack, now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use consort_bench_player::error::Error;
use consort_bench_player::fleet::{hog, Schedule};
use consort_bench_player::processes::spawn;
use consort_bench_player::statistics::Distribution;
use serde::Serialize;

/// 004's `periodic`: so much work, so often.
const PERIOD_NS: u64 = 30 * NS_PER_MS;
const WORK_NS: u64 = 2_500_000;
/// For a thousand threads to be made, and to have run once.
const START_NS: u64 = 8 * NS_PER_S;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Pattern {
    /// Wants the CPU always
    Greedy,
    /// Works 2.5 ms every 30 ms
    Periodic,
}

#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    division: Division,
    #[arg(long, default_value = "guaranteed=0.3")]
    promised: Part,
    /// Processes that have reserved that, each for itself
    #[arg(long, default_value_t = 1)]
    reserved: usize,
    #[arg(long, value_enum)]
    pattern: Pattern,
    /// Threads that have reserved nothing and want the CPU always
    #[arg(long, default_value_t = 1000)]
    threads: usize,
    /// The slice that so many runnable threads have
    #[arg(long, default_value_t = 500)]
    quantum_us: u64,
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

#[derive(Serialize)]
pub struct Wait {
    longest_ms: f64,
    waits: Distribution,
    /// q + q / r: a quantum of the flexible class, and one of its own at its effective rate while all classes are busy.
    bound_ms: f64,
    over_bound: f64,
    options: Options,
}

pub fn run(options: Options) -> Result<Wait, Error> {
    let promises = vec![options.promised.clone(); options.reserved];
    let prepared = options.division.prepare(&promises)?;
    let begin_ns = now_ns() + START_NS;
    let schedule = Schedule::after_a_second(begin_ns, options.seconds);
    let pattern = options.pattern;
    let reserved = (0..options.reserved)
        .map(|number| {
            let prepared = &prepared;
            spawn(move || {
                no_timer_slack();
                prepared.take(number)?;
                sleep_until_ns(schedule.window_start_ns);
                Ok(match pattern {
                    Pattern::Greedy => be_greedy(schedule),
                    Pattern::Periodic => be_periodic(schedule),
                })
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let threads = options.threads;
    let crowd = spawn(|| {
        prepared.take_none()?;
        let all: Vec<_> = (0..threads)
            .map(|_| std::thread::spawn(move || hog(schedule)))
            .collect();
        for one in all {
            one.join()
                .map_err(|_| Error::Usage("a hog panicked".into()))??;
        }
        Ok(())
    })?;
    let mut waits_ns: Vec<u64> = Vec::new();
    for one in reserved {
        waits_ns.extend(one.wait()?);
    }
    crowd.wait()?;
    let bound_ms = bound_ms(&options, &promises)?;
    let waits = Distribution::of_ns(waits_ns);
    Ok(Wait {
        longest_ms: waits.max_ms,
        bound_ms,
        over_bound: waits.max_ms / bound_ms,
        waits,
        options,
    })
}

/// Parts of the machine are CPUs, where there are several; nobody has more than one.
fn bound_ms(options: &Options, promises: &[Part]) -> Result<f64, Error> {
    let cpus = std::thread::available_parallelism()
        .map_err(|source| Error::io("count the CPUs", source))?
        .get();
    let rate = (options.division.effective(promises, true)[0] * cpus as f64).min(1.0);
    let quantum_ms = options.quantum_us as f64 / 1000.0;
    Ok(quantum_ms + quantum_ms / rate)
}

fn be_greedy(schedule: Schedule) -> Vec<u64> {
    let mut ran = Vec::new();
    work_until(schedule.window_end_ns, &mut ran);
    gaps_ns(&ran, schedule.window_start_ns..schedule.window_end_ns).collect()
}

/// Waits after waking up count, too.
fn be_periodic(schedule: Schedule) -> Vec<u64> {
    let mut ran = Vec::new();
    let mut waits_ns = Vec::new();
    let mut due_ns = schedule.window_start_ns;
    while due_ns < schedule.window_end_ns {
        sleep_until_ns(due_ns);
        let now = now_ns();
        waits_ns.push(now - due_ns);
        ran.clear();
        work_until(now + WORK_NS, &mut ran);
        waits_ns.extend(gaps_ns(&ran, now..u64::MAX));
        due_ns = (due_ns + PERIOD_NS).max(now_ns());
    }
    waits_ns
}
