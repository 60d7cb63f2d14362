// SPDX-License-Identifier: MIT OR Apache-2.0
//! A storm of requests for parts of the CPU beside a video that has one: does the video notice, how soon are the requests
//! answered, and do the books say afterwards what those who asked were told?

mod books;
mod cgroups;
mod gate;
mod reservations;
mod tally;

use crate::cpu_time::CpuClock;
use crate::film::{Film, Seen, FRAMES_PER_S};
use crate::promise::{Division, Means, Part, Prepared};
use books::Books;
use clap::Args;
use consort_bench_player::clock::{no_timer_slack, now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use consort_bench_player::error::Error;
use consort_bench_player::fleet::{hog, Schedule};
use consort_bench_player::processes::{become_user, lock_memory, spawn, Child};
use consort_bench_player::statistics::Distribution;
use reservations::Told;
use serde::Serialize;
use tally::{Storm, Tally};

const WARMUP_NS: u64 = 2 * NS_PER_S;
/// Until the last requests have been answered, or given up.
const ANSWERED_NS: u64 = 2 * NS_PER_S;
/// The daemon looks a few times a second for reservations that nobody uses.
const AFTER_NS: u64 = 4 * NS_PER_S;
/// Who asks: root, and the users alice and bob of the guest.
const USERS: [u32; 3] = [0, 1000, 1001];

#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    division: Division,
    /// The video's own
    #[arg(long, default_value = "guaranteed=0.3")]
    promised: Part,
    /// What the video needs, as a fraction of the CPU
    #[arg(long, default_value_t = 0.25)]
    load: f64,
    /// Processes that ask the daemon as fast as they can, or make cgroups
    #[arg(long, default_value_t = 0)]
    clients: usize,
    /// Hogs that have reserved nothing
    #[arg(long, default_value_t = 0)]
    hogs: usize,
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Chooses the film, and what is asked for
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Serialize)]
pub struct Outcome {
    frames_per_s: f64,
    /// From when a frame was to be shown until it was.
    delay: Distribution,
    /// What the video had of a CPU.
    video_percent: f64,
    storm: Storm,
    books: Option<Books>,
    options: Options,
}

pub fn run(options: Options, consort: Option<&str>) -> Result<Outcome, Error> {
    let promises = [options.promised.clone()];
    let prepared = options.division.prepare(&promises)?;
    let schedule = schedule(&options);
    gate::close()?;
    let video = spawn(|| {
        lock_memory();
        prepared.take(0)?;
        let seen = film(&options, schedule).play(schedule)?;
        gate::wait();
        Ok(seen)
    })?;
    let hogs = start_hogs(&options, &prepared, schedule)?;
    let clients = start_clients(&options, &prepared, schedule)?;
    let pids: Vec<i32> = clients.iter().map(|client| client.pid).collect();
    let video_percent = watch(video.pid, schedule)?;
    let asks_daemon = options.division.means() == Means::Consort && options.clients > 0;
    let consort = consort.filter(|_| asks_daemon);
    sleep_until_ns(schedule.window_end_ns + ANSWERED_NS);
    let held = consort.map(books::read).transpose()?;
    for pid in &pids {
        gate::open(*pid)?;
    }
    let answers: Vec<(Tally, Told)> = clients
        .into_iter()
        .map(Child::wait)
        .collect::<Result<_, _>>()?;
    let books = match (consort, held) {
        (Some(consort), Some(held)) => {
            let told = pids.into_iter().zip(answers.iter().map(|answer| answer.1));
            let left = books::read_until(consort, now_ns() + AFTER_NS, &[video.pid])?;
            Some(Books::compare(&held, told, &left, video.pid))
        }
        _ => None,
    };
    for hog in hogs {
        hog.wait()?;
    }
    gate::open(video.pid)?;
    let seen = video.wait()?;
    let tallies = answers.into_iter().map(|answer| answer.0);
    let storm = Tally::sum(tallies).over(options.seconds);
    Ok(outcome(options, &seen, video_percent, storm, books))
}

fn schedule(options: &Options) -> Schedule {
    let begin_ns = now_ns() + NS_PER_S;
    let window_start_ns = begin_ns + WARMUP_NS;
    Schedule {
        begin_ns,
        window_start_ns,
        window_end_ns: window_start_ns + options.seconds * NS_PER_S,
    }
}

fn start_hogs(
    options: &Options,
    prepared: &Prepared,
    schedule: Schedule,
) -> Result<Vec<Child<()>>, Error> {
    let start = |_| {
        spawn(|| {
            prepared.take_none()?;
            hog(schedule)
        })
    };
    (0..options.hogs).map(start).collect()
}

fn start_clients(
    options: &Options,
    prepared: &Prepared,
    schedule: Schedule,
) -> Result<Vec<Child<(Tally, Told)>>, Error> {
    let mut before = None;
    let start = |number| {
        let client = spawn(|| {
            prepared.take_none()?;
            be_client(options, prepared, number, before, schedule)
        })?;
        before = Some(client.pid as u32);
        Ok(client)
    };
    (0..options.clients).map(start).collect()
}

/// The client before this one is its partner: it lends to it.
fn be_client(
    options: &Options,
    prepared: &Prepared,
    number: usize,
    before: Option<u32>,
    schedule: Schedule,
) -> Result<(Tally, Told), Error> {
    let seed = options.seed << 16 | number as u64;
    become_user(USERS[number % USERS.len()])?;
    no_timer_slack();
    sleep_until_ns(schedule.window_start_ns);
    match options.division.means() {
        Means::Consort => reservations::storm(seed, before, schedule),
        Means::Cgroup => {
            let class = &options.promised.class;
            let tally = cgroups::storm(seed, prepared, class, schedule);
            Ok((tally, Told::Nothing))
        }
        Means::Deadline => {
            let text = "--means deadline promises to one thread, and a video has two: expected consort or cgroup";
            Err(Error::Usage(text.into()))
        }
    }
}

/// What the video has of a CPU in the window; returns at its end.
fn watch(video: libc::pid_t, schedule: Schedule) -> Result<f64, Error> {
    let clock = CpuClock::of(video)?;
    sleep_until_ns(schedule.window_start_ns);
    let (from_ns, before_ns) = (now_ns(), clock.now_ns());
    sleep_until_ns(schedule.window_end_ns);
    let (until_ns, after_ns) = (now_ns(), clock.now_ns());
    Ok(100.0 * (after_ns - before_ns) as f64 / (until_ns - from_ns) as f64)
}

fn film(options: &Options, schedule: Schedule) -> Film {
    Film {
        seed: options.seed,
        load: options.load,
        first_due_ns: schedule.begin_ns + NS_PER_S / FRAMES_PER_S + options.seed % 10 * NS_PER_MS,
    }
}

fn outcome(
    options: Options,
    seen: &Seen,
    video_percent: f64,
    storm: Storm,
    books: Option<Books>,
) -> Outcome {
    Outcome {
        frames_per_s: seen.shown as f64 / options.seconds as f64,
        delay: Distribution::of_ns(seen.late_ns()),
        video_percent,
        storm,
        books,
        options,
    }
}
