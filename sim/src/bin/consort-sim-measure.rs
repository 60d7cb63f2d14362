// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the simulator is, how much memory a large machine takes, and how many planted bugs it finds: JSON, for
//! the bench. `consort-sim-measure hour|cpus256|cpus1024|mutations`; and `run LIBRARY SEEDS`, random scenarios under another
//! build of the scheduler, for sim/coverage.

use consort_sim::consort::Library;
use consort_sim::explore::{generate, try_setup};
use consort_sim::setup::*;
use consort_sim::{consort, mutate, run};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const PLAYERS: u64 = 12;
const PERIOD_NS: u64 = S / 24;
/// A planted bug counts as found within this time.
const SEARCH_MAX: Duration = Duration::from_secs(60);

/// Tasks of the large machine.
const TASKS: usize = 10_000;

fn player(index: u64, load: f64, domain: DomainIndex) -> Task {
    let program = Program::Player(Player {
        load,
        chunk_ns: MS,
        seed: 1 + index,
        first_due_ns: S / 2 + PERIOD_NS + (index % PLAYERS + 1) * PERIOD_NS / PLAYERS,
        domain: Some(domain),
    });
    Task::new("player", program)
}

fn domain(number: usize) -> Domain {
    Domain {
        name: format!("d{number}"),
        event_ns: 1_200_000,
        order: 0,
        preempt: false,
    }
}

/// The scenario of the baseline: twelve adaptive players, one CPU, 1.85 times too much load.
fn players(duration_ns: u64) -> Setup {
    let mut setup = Setup::empty(Machine::simple(1, 1, Kernel::V7_2), duration_ns);
    setup.domains = vec![domain(0)];
    setup.tasks = (0..PLAYERS)
        .map(|index| player(index, 1.0 / 6.5, 0))
        .collect();
    setup
}

/// Two threads a core, 16 CPUs a cache, 64 a node: players in 300 domains, hogs, and sleepers of all lengths.
fn large(cpus: u32, duration_ns: u64) -> Setup {
    let each = |part: u32| (0..cpus).map(|cpu| cpu / part).collect();
    let machine = Machine {
        llc_of: each(16),
        core_of: each(2),
        node_of: each(64),
        offline: Vec::new(),
        is_virtual: false,
        kernel: Kernel::V7_2,
    };
    let mut setup = Setup::empty(machine, duration_ns);
    setup.domains = (0..300).map(domain).collect();
    let sleeper = |index: u64| {
        let sleep_ns = (20 + index % 80) * MS;
        Program::Steps(vec![Step::Loop {
            times: None,
            steps: vec![
                Step::Sleep(Length::Exponential { mean_ns: sleep_ns }),
                Step::Run(Length::Exponential {
                    mean_ns: sleep_ns / 40,
                }),
            ],
        }])
    };
    setup.tasks = (0..TASKS as u64)
        .map(|index| match index {
            0..128 => Task::new("hog", Program::Hog),
            128..3_728 => player(index, 0.02, (index as usize - 128) / 12),
            _ => Task::new("sleeper", sleeper(index)),
        })
        .collect();
    setup
}

/// What this process has had of its machine: CPU time in s, and the most memory at a time in MiB.
fn used() -> (f64, f64) {
    // SAFETY: a struct of numbers, which the call fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    (cpu_seconds, usage.ru_maxrss as f64 / 1024.0)
}

/// Of a run that broke no promise. Decisions are counted by CPU time: others may use the machine, too.
fn speed(setup: &Setup) -> Result<serde_json::Value, String> {
    let begin = Instant::now();
    let (before_s, _) = used();
    let outcome = run(setup, consort(), &mut ()).map_err(|error| error.to_string())?;
    let (after_s, memory_mib) = used();
    if let Some(violation) = outcome.violation {
        return Err(format!("{}: {}", violation.rule, violation.detail));
    }
    Ok(serde_json::json!({
        "decisions": outcome.decisions,
        "seconds": begin.elapsed().as_secs_f64(),
        "cpu_seconds": after_s - before_s,
        "decisions_per_s": outcome.decisions as f64 / (after_s - before_s),
        "guest_seconds": setup.duration_ns as f64 / S as f64,
        "memory_mib": memory_mib,
    }))
}

fn mutations(repository: &Path) -> Result<serde_json::Value, String> {
    let scratch = std::env::temp_dir().join(format!("consort-mutations-{}", std::process::id()));
    let mut found = Vec::new();
    let mut missed = Vec::new();
    for mutation in &mutate::MUTATIONS {
        let folder = scratch.join(mutation.name);
        let broken = std::fs::create_dir_all(&folder)
            .map_err(|error| format!("create {}: {error}", folder.display()))
            .and_then(|()| {
                mutate::build(repository, &folder, &[*mutation]).map_err(|error| error.to_string())
            })?;
        let begin = Instant::now();
        let seed = mutate::find(&broken, 0, SEARCH_MAX).map_err(|error| error.to_string())?;
        match seed {
            Some(seed) => found.push(serde_json::json!({
                "name": mutation.name, "seed": seed, "seconds": begin.elapsed().as_secs_f64(),
            })),
            None => missed.push(mutation.name),
        }
    }
    std::fs::remove_dir_all(&scratch)
        .map_err(|error| format!("remove {}: {error}", scratch.display()))?;
    Ok(serde_json::json!({
        "planted": mutate::MUTATIONS.len(),
        "found_percent": 100.0 * found.len() as f64 / mutate::MUTATIONS.len() as f64,
        "found": found,
        "missed": missed,
    }))
}

/// In this process, so that what the library notes about itself is written at its end.
fn scenarios(library: &str, seeds: &str) -> Result<serde_json::Value, String> {
    let library = Library::load(Path::new(library)).map_err(|error| error.to_string())?;
    let seeds: u64 = seeds
        .parse()
        .map_err(|error| format!("number of seeds: {error}"))?;
    let broken = (0..seeds)
        .filter(|seed| try_setup(&generate(*seed), &library).is_some())
        .count();
    Ok(serde_json::json!({ "seeds": seeds, "broken": broken }))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let result = match arguments[..] {
        ["hour"] => speed(&players(3_600 * S)),
        ["cpus256"] => speed(&large(256, 2 * S)),
        ["cpus1024"] => speed(&large(1024, 2 * S)),
        ["mutations"] => mutations(&repository),
        ["run", library, seeds] => scenarios(library, seeds),
        _ => Err("expected hour, cpus256, cpus1024, mutations, or run LIBRARY SEEDS".to_owned()),
    };
    match result {
        Ok(values) => {
            println!("{values}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("consort-sim-measure: {why}");
            ExitCode::FAILURE
        }
    }
}
