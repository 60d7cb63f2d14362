// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deterministic scenarios (sim/validation) in the simulator and as guests have recorded them: the same callbacks
//! about the same tasks in the same order, and the same intervals in which each task runs. sim/validation/compare
//! records, and runs this.

mod common;

use common::recording::{is_other, Entry, Recording};
use common::MS;
use std::path::{Path, PathBuf};

/// Until then processes are started, join, and the shell that started them goes to sleep.
const FROM_NS: u64 = 350 * MS;
const UNTIL_NS: u64 = 950 * MS;
/// How much an interval may differ: the slack within which the kernel lets a timer wait for another one's interrupt,
/// and what the model takes for costs.
const INTERVAL_ERROR_MAX_NS: u64 = 150_000;
/// Fewer entries would show nothing.
const ENTRIES_MIN: usize = 100;

/// A folder for each kernel, in which there is one for each recording.
fn kernels() -> Vec<PathBuf> {
    let all = std::env::var_os("CONSORT_RECORDINGS")
        .expect("CONSORT_RECORDINGS: see sim/validation/compare --help");
    folders(Path::new(&all))
}

fn folders(all: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(all).unwrap();
    let mut folders: Vec<PathBuf> = entries
        .map(|it| it.unwrap().path())
        .filter(|it| it.is_dir())
        .collect();
    folders.sort();
    assert!(!folders.is_empty(), "{}: no recordings", all.display());
    folders
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("validation")
}

/// From the same entry on: programs start within the time that a guest's daemon takes, not to the microsecond.
fn side_by_side(
    recorded: &[Entry],
    simulated: &[Entry],
    until_ns: u64,
) -> (Vec<Entry>, Vec<Entry>) {
    let first = recorded.iter().position(|it| it.at_ns >= FROM_NS).unwrap();
    let recorded: Vec<Entry> = recorded[first..]
        .iter()
        .take_while(|it| it.at_ns < until_ns)
        .cloned()
        .collect();
    let same = simulated
        .iter()
        .enumerate()
        .filter(|(_, it)| it.text == recorded[0].text);
    let (start, _) = same
        .min_by_key(|(_, it)| it.at_ns.abs_diff(recorded[0].at_ns))
        .unwrap();
    let simulated: Vec<Entry> = simulated[start..]
        .iter()
        .take(recorded.len())
        .cloned()
        .collect();
    (recorded, simulated)
}

/// Who ran, and for how long.
fn intervals(entries: &[Entry]) -> Vec<(&str, u64)> {
    let switches = entries
        .iter()
        .filter_map(|it| Some((it.at_ns, it.text.strip_prefix("switch ")?)));
    let switches: Vec<_> = switches.collect();
    switches
        .windows(2)
        .map(|pair| (pair[0].1.rsplit(' ').next().unwrap(), pair[1].0 - pair[0].0))
        .collect()
}

/// As far as the two are the same. They may only differ where another task of the guest has just come between, which is
/// replayed, but not to the microsecond.
fn until_disturbed<'a>(
    recording: &Recording,
    recorded: &'a [Entry],
    simulated: &'a [Entry],
) -> Result<(&'a [Entry], &'a [Entry]), String> {
    let mut both = recorded.iter().zip(simulated);
    let Some(number) = both.position(|(one, other)| one.text != other.text) else {
        return Ok((recorded, simulated));
    };
    let around = |entries: &[Entry]| {
        let lines = entries.iter().skip(number.saturating_sub(6)).take(12);
        lines
            .map(|it| format!("{:>12} {}\n", it.at_ns, it.text))
            .collect::<String>()
    };
    if recording.is_disturbed_at(recorded[number].at_ns) {
        return Ok((&recorded[..number], &simulated[..number]));
    }
    Err(format!(
        "entry {number} differs\nrecorded:\n{}simulated:\n{}",
        around(recorded),
        around(simulated)
    ))
}

/// Another task of the guest may come between at a moment in which microseconds decide: so one of a kernel's recordings
/// has to be equal. A model that is wrong is so in each.
fn compare(name: &str) {
    for kernel in kernels() {
        let mut differences = String::new();
        let is_equal = folders(&kernel).iter().any(|folder| {
            let path = folder.join(format!("{name}.txt"));
            let compared = compare_with(name, &path);
            let text = compared.as_ref().unwrap_or_else(|it| it);
            println!("{}: {text}", path.display());
            if let Err(why) = &compared {
                differences += &format!("{}: {why}\n", path.display());
            }
            compared.is_ok()
        });
        assert!(is_equal, "{differences}");
    }
}

/// What was compared, or what differs.
fn compare_with(name: &str, path: &Path) -> Result<String, String> {
    let recording = Recording::read(path);
    let scenario = here().join(format!("{name}.json"));
    let until_ns = recording.untangled_until_ns(FROM_NS).min(UNTIL_NS);
    let (recorded, simulated) = side_by_side(
        &recording.entries(),
        &recording.simulate(&scenario),
        until_ns,
    );
    let (recorded, simulated) = until_disturbed(&recording, &recorded, &simulated)?;
    if recorded.len() < ENTRIES_MIN || recorded.len() != simulated.len() {
        let (recorded, simulated) = (recorded.len(), simulated.len());
        return Err(format!(
            "only {recorded} entries before others disturbed it, {simulated} simulated"
        ));
    }
    let (one, other) = (intervals(recorded), intervals(simulated));
    let both = one.iter().zip(&other).filter(|(it, _)| !is_other(it.0));
    let apart: Vec<u64> = both.map(|(a, b)| a.1.abs_diff(b.1)).collect();
    let (worst_ns, mean_ns) = (
        apart.iter().max().copied().unwrap_or(0),
        apart.iter().sum::<u64>() / (apart.len() as u64).max(1),
    );
    let text = format!(
        "{} callbacks and switches, intervals {mean_ns} ns apart, at most {worst_ns}",
        recorded.len()
    );
    match worst_ns <= INTERVAL_ERROR_MAX_NS {
        true => Ok(text),
        false => Err(text),
    }
}

#[test]
#[ignore = "needs recordings: sim/validation/compare"]
fn slices_end_and_hogs_take_turns() {
    compare("hogs");
}

#[test]
#[ignore = "needs recordings: sim/validation/compare"]
fn who_wakes_preempts() {
    compare("preempt");
}

#[test]
#[ignore = "needs recordings: sim/validation/compare"]
fn weights() {
    compare("nice");
}

#[test]
#[ignore = "needs recordings: sim/validation/compare"]
fn sched_yield() {
    compare("yield");
}

#[test]
#[ignore = "needs recordings: sim/validation/compare"]
fn members_poll() {
    compare("studio");
}
