// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort sim explore`: random scenarios, until one breaks a promise; that one is then made small.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use consort_sim::{
    consort::Library,
    explore::{generate, shrink, try_setup},
    setup::Setup,
};

use super::{
    args::ExploreArgs,
    failure::SimFailure,
    files::{make_folder, print, write_text},
    workers::{Broken, News, Workers},
};

/// Runs that making a scenario smaller may take.
const SHRINK_RUNS_MAX: u32 = 3_000;
/// How often the progress is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(200);
/// Fresh first seeds are multiples of this, so that runs of this many do not overlap.
const FRESH_STEP: u64 = 1_000_000;

pub fn explore(args: &ExploreArgs) -> Result<(), SimFailure> {
    let first = args.first.unwrap_or_else(fresh_seed);
    let mut search = Search::new(first, args);
    let mut workers = Workers::start(first, args.seeds, jobs(args))?;
    while !workers.are_done() && !search.is_over() {
        match workers.next(DRAW_EVERY) {
            Some(News::Kept) => search.kept += 1,
            Some(News::Broke(broken)) => search.broken.push(broken),
            None => {}
        }
        search.draw();
    }
    drop(workers);
    search.erase();
    search.report(&args.save)
}

/// Another one each time; it is printed.
fn fresh_seed() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    since.as_secs() * FRESH_STEP
}

fn jobs(args: &ExploreArgs) -> u64 {
    let cpus = || thread::available_parallelism().map_or(1, |count| count.get() as u64);
    args.jobs.map_or_else(cpus, u64::from)
}

/// How far it has got.
struct Search {
    first: u64,
    seeds: u64,
    goes_on: bool,
    deadline: Option<Instant>,
    kept: u64,
    broken: Vec<Broken>,
    drawn: Option<Instant>,
    is_watched: bool,
}

impl Search {
    fn new(first: u64, args: &ExploreArgs) -> Self {
        let minutes = args
            .minutes
            .map(|minutes| Duration::from_secs_f64(minutes * 60.0));
        Self {
            first,
            seeds: args.seeds,
            goes_on: args.all,
            deadline: minutes.map(|minutes| Instant::now() + minutes),
            kept: 0,
            broken: Vec::new(),
            drawn: None,
            is_watched: io::stderr().is_terminal(),
        }
    }

    fn is_over(&self) -> bool {
        let is_late = self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline);
        is_late || (!self.goes_on && !self.broken.is_empty())
    }

    fn done(&self) -> u64 {
        self.kept + self.broken.len() as u64
    }

    fn draw(&mut self) {
        const WIDTH: u64 = 40;
        let is_due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= DRAW_EVERY);
        if !self.is_watched || !is_due {
            return;
        }
        self.drawn = Some(Instant::now());
        let filled = (self.done() * WIDTH / self.seeds.max(1)).min(WIDTH) as usize;
        let bar = format!(
            "{}{}",
            "#".repeat(filled),
            ".".repeat(WIDTH as usize - filled)
        );
        // Who cannot see it misses nothing.
        let _ = write!(
            io::stderr(),
            "\r[{bar}] {} of {} scenarios, {} broke a promise ",
            self.done(),
            self.seeds,
            self.broken.len()
        );
    }

    fn erase(&self) {
        if self.is_watched {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    fn report(&self, save: &Path) -> Result<(), SimFailure> {
        let head = format!("{} scenarios, from seed {}", self.done(), self.first);
        let Some(broken) = self.broken.first() else {
            return print(&format!("{head}: no promise was broken\n"));
        };
        if self.goes_on {
            print(&kinds(&self.broken))?;
        }
        let text = format!(
            "{head}: {} broke a promise. {}",
            self.broken.len(),
            smallest(broken, save)?
        );
        Err(SimFailure::Found(text))
    }
}

/// Each rule that was broken: how often, and by which seed first.
fn kinds(broken: &[Broken]) -> String {
    let mut kinds: BTreeMap<&str, (u64, &Broken)> = BTreeMap::new();
    for one in broken {
        kinds.entry(&one.rule).or_insert((0, one)).0 += 1;
    }
    let line = |(rule, (count, first)): (&&str, &(u64, &Broken))| {
        format!(
            "{count:>6} x {rule}: first seed {}: {}\n",
            first.seed, first.detail
        )
    };
    kinds.iter().map(line).collect()
}

/// Makes the scenario small, writes it, and says how to replay it.
fn smallest(broken: &Broken, save: &Path) -> Result<String, SimFailure> {
    let Broken { seed, rule, detail } = broken;
    if rule == "crash" || rule == "hang" {
        return Ok(format!(
            "Seed {seed}: {rule}: {detail}. Run it again with: consort sim explore --first {seed} --seeds 1"
        ));
    }
    let library = Library::built_in();
    let breaks = |setup: &Setup| try_setup(setup, &library).is_some_and(|it| it.rule == rule);
    let setup = shrink(&generate(*seed), SHRINK_RUNS_MAX, breaks);
    let found = try_setup(&setup, &library);
    let (at_ns, detail) = found.map_or((0, detail.clone()), |it| (it.at_ns, it.detail));
    let path = write(&setup, *seed, save)?;
    Ok(format!(
        "Seed {seed}: {rule}: {detail}, at {at_ns} ns of the smallest scenario that does it. Replay it with: consort sim run {}",
        path.display()
    ))
}

fn write(setup: &Setup, seed: u64, save: &Path) -> Result<PathBuf, SimFailure> {
    make_folder(save)?;
    let path = save.join(format!("broken-{seed}.json"));
    let text = serde_json::to_string_pretty(setup);
    let text = text.map_err(|error| SimFailure::Output(error.into()))?;
    write_text(&path, &(text + "\n"))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_with_their_first_seed() {
        let broken = |seed, rule: &str| Broken {
            seed,
            rule: rule.into(),
            detail: format!("of {seed}"),
        };
        let text = kinds(&[
            broken(7, "lost-task"),
            broken(9, "idle"),
            broken(3, "lost-task"),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[1].ends_with("2 x lost-task: first seed 7: of 7"),
            "{text}"
        );
    }
}
