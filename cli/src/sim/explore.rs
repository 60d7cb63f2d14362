// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort sim explore`.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use consort_sim::{
    consort::Library,
    explore::{explore as search, Exploration, ExploreOptions, Failure, Kind, Verdict},
    setup::Setup,
};

use super::{
    args::ExploreArgs,
    failure::SimFailure,
    files::{make_folder, print, write_text},
    userlevel,
};

/// Runs that making a scenario smaller may take: a minute or two.
const SHRINK_RUNS_MAX: u32 = 400;
/// Fresh first seeds are multiples of this, so that runs of this many do not overlap.
const FRESH_STEP: u64 = 1_000_000;

pub fn explore(args: &ExploreArgs) -> Result<(), SimFailure> {
    if args.user_level {
        return userlevel::explore(args, args.first.unwrap_or_else(fresh_seed));
    }
    let mut options = ExploreOptions {
        kind: match args.mixes {
            true => Kind::Mixes,
            false => Kind::Anything,
        },
        first_seed: args.first.unwrap_or_else(fresh_seed),
        seeds: args.seeds,
        time_max: args
            .minutes
            .map(|minutes| Duration::from_secs_f64(minutes * 60.0)),
        shrink_runs_max: 0,
        ..ExploreOptions::default()
    };
    options.jobs = args.jobs.map_or(options.jobs, u64::from).min(args.seeds);
    let library = Library::built_in();
    let found = watched(&options, &library)?;
    let head = format!("{} scenarios, from seed {}", found.done, options.first_seed);
    let Some(failure) = found.failure else {
        return print(&format!("{head}: no promise was broken\n"));
    };
    // Written down at once: making it small takes a while, and somebody may not want to wait.
    let path = write(&failure.setup, failure.seed, &args.save)?;
    let _ = writeln!(
        io::stderr(),
        "consort: seed {} broke a promise: {}. Making it smaller ...",
        failure.seed,
        path.display()
    );
    let smaller = make_small(failure, options.kind, &library)?;
    write(&smaller.setup, smaller.seed, &args.save)?;
    Err(SimFailure::Found(format!(
        "{head}: {}",
        story(&smaller, &path)
    )))
}

/// Searches, with a bar for who looks on.
fn watched(options: &ExploreOptions, library: &Library) -> Result<Exploration, SimFailure> {
    let is_watched = io::stderr().is_terminal();
    let found = search(options, library, &mut |done| {
        if is_watched {
            draw(done, options.seeds);
        }
    });
    if is_watched {
        // Who cannot see it misses nothing.
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    Ok(found?)
}

/// The same failure, of the smallest scenario that is found.
fn make_small(failure: Failure, kind: Kind, library: &Library) -> Result<Failure, SimFailure> {
    let options = ExploreOptions {
        kind,
        first_seed: failure.seed,
        seeds: 1,
        jobs: 1,
        time_max: None,
        shrink_runs_max: SHRINK_RUNS_MAX,
    };
    let found = search(&options, library, &mut |_| {})?;
    Ok(found.failure.unwrap_or(failure))
}

/// Another one each time; it is printed.
fn fresh_seed() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    since.as_secs() * FRESH_STEP
}

fn draw(done: u64, seeds: u64) {
    const WIDTH: usize = 40;
    let filled = (u128::from(done) * WIDTH as u128 / u128::from(seeds.max(1))) as usize;
    let bar = format!("{:.<WIDTH$}", "#".repeat(filled.min(WIDTH)));
    let _ = write!(io::stderr(), "\r[{bar}] {done} of {seeds} scenarios ");
}

/// What broke, and how to see it again.
fn story(failure: &Failure, path: &Path) -> String {
    let seed = failure.seed;
    let what = match (&failure.violation, failure.verdict) {
        (Some(violation), _) => format!(
            "broke the rule {} at {} ns: {}",
            violation.rule, violation.at_ns, violation.detail
        ),
        (None, Verdict::Died(signal)) => format!("ended the simulator with signal {signal}"),
        (None, _) => "broke a rule that it did not break again".to_owned(),
    };
    format!(
        "the scenario of seed {seed}, made small, {what}. Replay it with: consort sim run {}",
        path.display()
    )
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
    use consort_sim::{explore::generate, trace::Violation};

    #[test]
    fn a_failure_is_told_with_the_command_that_replays_it() {
        let mut failure = Failure {
            seed: 7,
            verdict: Verdict::Broken(1),
            setup: generate(7),
            violation: Some(Violation {
                at_ns: 12,
                rule: "lost-task",
                detail: "t1".into(),
                state: Vec::new(),
            }),
        };
        let path = Path::new("found/broken-7.json");
        assert_eq!(
            story(&failure, path),
            "the scenario of seed 7, made small, broke the rule lost-task at 12 ns: t1. \
             Replay it with: consort sim run found/broken-7.json"
        );
        failure.violation = None;
        failure.verdict = Verdict::Died(11);
        assert!(story(&failure, path).contains("ended the simulator with signal 11"));
    }

    #[test]
    fn what_cannot_be_broken_again_is_told_as_it_was() {
        // Nothing is wrong with this seed: the search finds nothing to make small.
        let failure = Failure {
            seed: 0,
            verdict: Verdict::Broken(1),
            setup: generate(0),
            violation: None,
        };
        let same = make_small(failure, Kind::Anything, &Library::built_in()).unwrap();
        assert_eq!((same.seed, same.setup), (0, generate(0)));
        assert_eq!(same.verdict, Verdict::Broken(1));
    }

    #[test]
    fn what_was_written_is_the_setup() {
        let folder = std::env::temp_dir().join(format!("consort-explore-{}", std::process::id()));
        let setup = generate(3);
        let path = write(&setup, 3, &folder).unwrap();
        let read = consort_sim::scenario::load(&path, None).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read.setup, setup);
    }
}
