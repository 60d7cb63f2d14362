// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deterministic scenarios (sim/validation) in the simulator and as guests have recorded them: the same callbacks
//! about the same tasks in the same order, and the same intervals in which each task runs. sim/validation/compare
//! records, and runs this.

use crate::common::recording::{is_other, simulate, varied, Entry, Recording};
use crate::common::ties;
use crate::common::MS;
use std::path::{Path, PathBuf};

/// Until then processes are started, join, and the shell that started them goes to sleep.
const FROM_NS: u64 = 350 * MS;
const UNTIL_NS: u64 = 950 * MS;
/// How much an interval may differ: the slack within which the kernel lets a timer wait for another one's interrupt,
/// and what the model takes for costs.
const INTERVAL_ERROR_MAX_NS: u64 = 150_000;
/// Fewer entries would show nothing.
const ENTRIES_MIN: usize = 100;

/// A folder for each kernel.
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

/// From the same entry on: programs start within the time that a guest's daemon takes, not to the microsecond. Returns
/// what follows, and how much of the recording lies before `until_ns`; nothing when others never leave the scenario alone
/// from `from_ns` on.
fn side_by_side<'a>(
    recording: &Recording,
    recorded: &'a [Entry],
    simulated: &'a [Entry],
    (from_ns, until_ns): (u64, u64),
) -> Option<(&'a [Entry], usize, &'a [Entry])> {
    // Not in the middle of a tie.
    let is_start = |pair: &[Entry]| {
        pair[1].at_ns >= from_ns
            && pair[1].at_ns - pair[0].at_ns > ties::TIE_NS
            && recording.is_settled_at(pair[1].at_ns)
    };
    let first = 1 + recorded.windows(2).position(is_start)?;
    let recorded = &recorded[first..];
    let count = recorded.partition_point(|it| it.at_ns < until_ns);
    let same = simulated
        .iter()
        .enumerate()
        .filter(|(_, it)| it.text == recorded[0].text);
    let (start, _) = same.min_by_key(|(_, it)| it.at_ns.abs_diff(recorded[0].at_ns))?;
    (count > 0).then_some((recorded, count, &simulated[start..]))
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

/// As far as the two are the same, and how often one of a tie came first. They may only differ otherwise where another
/// task of the guest has just come between, which is replayed, but not to the microsecond.
fn until_disturbed<'a>(
    recording: &Recording,
    recorded: &'a [Entry],
    count: usize,
    simulated: &'a [Entry],
) -> Result<(&'a [Entry], &'a [Entry], usize), String> {
    let same = match ties::compare(recorded, count, simulated) {
        Ok(same) => same,
        Err(same) if recording.is_disturbed_at(recorded[same.recorded].at_ns) => same,
        Err(same) => {
            let (number, after) = (same.recorded, same.simulated);
            return Err(format!(
                "entry {number} differs\nrecorded:\n{}simulated:\n{}",
                around(recorded, number),
                around(simulated, after)
            ));
        }
    };
    Ok((
        &recorded[..same.recorded],
        &simulated[..same.simulated],
        same.overtook,
    ))
}

fn around(entries: &[Entry], number: usize) -> String {
    let lines = entries.iter().skip(number.saturating_sub(6)).take(12);
    lines
        .map(|it| format!("{:>12} {}\n", it.at_ns, it.text))
        .collect()
}

fn compare(name: &str) {
    for kernel in kernels() {
        let path = kernel.join(format!("{name}.txt"));
        let compared = compare_with(name, &path);
        let text = compared.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        println!("{}: {text}", path.display());
        assert!(text.count >= ENTRIES_MIN, "that is not enough");
        assert!(text.worst_ns <= INTERVAL_ERROR_MAX_NS, "that is too much");
    }
}

/// Of a recording, as far as others did not disturb it.
struct Compared {
    /// Entries that are the same, and those of them that came before one that was recorded earlier.
    count: usize,
    overtook: usize,
    /// By how much intervals in which a task runs differ, at most and on average.
    worst_ns: u64,
    mean_ns: u64,
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} callbacks and switches, {} of ties the other way round, intervals {} ns apart, at most {}",
            self.count, self.overtook, self.mean_ns, self.worst_ns
        )
    }
}

/// What was compared, or what differs.
fn compare_with(name: &str, path: &Path) -> Result<Compared, String> {
    let recording = Recording::read(path);
    let scenario = here().join(format!("{name}.json"));
    let (recorded, simulated) = (recording.entries(), recording.simulate(&scenario));
    let (mut count, mut overtook) = (0, 0);
    let mut apart: Vec<u64> = Vec::new();
    for (mut from_ns, until_ns) in recording.untangled(FROM_NS, UNTIL_NS) {
        while let Some(rest) = side_by_side(&recording, &recorded, &simulated, (from_ns, until_ns))
        {
            let (one, end, other) = rest;
            let (one, other, late) = until_disturbed(&recording, one, end, other)?;
            count += one.len();
            overtook += late;
            let (ran, would_run) = (intervals(one), intervals(other));
            let both = ran.iter().zip(&would_run).filter(|(it, _)| !is_other(it.0));
            apart.extend(both.map(|(a, b)| a.1.abs_diff(b.1)));
            // What comes first after that is a disturbance, or the end.
            from_ns = rest.0.get(one.len()).map_or(u64::MAX, |it| it.at_ns);
        }
    }
    Ok(Compared {
        count,
        overtook,
        worst_ns: apart.iter().max().copied().unwrap_or(0),
        mean_ns: apart.iter().sum::<u64>() / (apart.len() as u64).max(1),
    })
}

/// Entries from lines of a time in us and a text.
fn entries(lines: &[(u64, &str)]) -> Vec<Entry> {
    let entry = |(at_us, text): &(u64, &str)| Entry {
        at_ns: at_us * 1_000,
        text: (*text).to_owned(),
    };
    lines.iter().map(entry).collect()
}

/// Two tasks, one of which wakes when the other's slice ends.
const RECORDED: [(u64, &str); 6] = [
    (0, "enqueue a"),
    (100, "dispatch b"),
    (103, "enqueue c"),
    (104, "switch b+ a"),
    (900, "dispatch a"),
    (902, "switch a c"),
];

fn compared(simulated: &[&str]) -> Result<usize, (usize, usize)> {
    let simulated: Vec<(u64, &str)> = simulated.iter().map(|text| (0, *text)).collect();
    ties::compare(&entries(&RECORDED), RECORDED.len(), &entries(&simulated))
        .map(|same| same.overtook)
        .map_err(|same| (same.recorded, same.simulated))
}

#[test]
fn who_ties_may_come_in_either_order() {
    let texts: Vec<&str> = RECORDED.iter().map(|(_, text)| *text).collect();
    assert_eq!(compared(&texts), Ok(0));
    for tied in [
        ["enqueue c", "dispatch b", "switch b+ a"],
        ["dispatch b", "switch b+ a", "enqueue c"],
    ] {
        let simulated = [&["enqueue a"][..], &tied, &["dispatch a", "switch a c"]].concat();
        assert_eq!(compared(&simulated), Ok(1), "{tied:?}");
    }
}

#[test]
fn all_else_comes_as_it_was_recorded() {
    for (simulated, same) in [
        // Those that are far apart.
        (&["dispatch b", "enqueue a"][..], (0, 0)),
        (
            &["enqueue a", "dispatch b", "switch b+ a", "dispatch a"],
            (2, 3),
        ),
        // Those about the same task.
        (&["enqueue a", "switch b+ a"], (1, 1)),
        (
            &[
                "enqueue a",
                "dispatch b",
                "enqueue c",
                "switch b+ a",
                "switch a c",
            ],
            (4, 4),
        ),
        // Others than were recorded.
        (&["enqueue a", "dispatch b", "switch b+ c"], (2, 2)),
        (&["enqueue a", "enqueue c", "enqueue c"], (1, 2)),
        (&["enqueue a", "enqueue d"], (1, 1)),
        // Fewer.
        (&["enqueue a", "dispatch b", "switch b+ a"], (2, 3)),
        (&[], (0, 0)),
    ] {
        assert_eq!(compared(simulated), Err(same), "{simulated:?}");
    }
}

/// A chain of ties is none: each is near to the next, and the first and the last are not.
#[test]
fn who_is_near_to_a_neighbour_is_not_near_to_all() {
    let recorded = entries(&[(0, "enqueue a"), (4, "enqueue b"), (8, "enqueue c")]);
    let overtakes = |names: [&str; 3]| {
        let texts = names.map(|name| format!("enqueue {name}"));
        let simulated = entries(&[(0, &texts[0]), (0, &texts[1]), (0, &texts[2])]);
        ties::compare(&recorded, 3, &simulated).is_ok()
    };
    assert!(overtakes(["b", "a", "c"]) && overtakes(["a", "c", "b"]));
    assert!(
        !overtakes(["c", "a", "b"]) && !overtakes(["c", "b", "a"]) && !overtakes(["b", "c", "a"])
    );
}

/// What a guest's other tasks run for until the scenario is compared, each time.
const OTHERS_NS: [&[u64]; 4] = [
    &[],
    &[800_000],
    &[10_000, 120_000, 10_000, 400_000],
    &[2_300_000, 30_000, 700_000],
];

/// What a scenario shows may not hang on how long a callback takes: no machine is right to the microsecond.
#[test]
fn microseconds_decide_nothing() {
    let mut scenarios: Vec<PathBuf> = std::fs::read_dir(here())
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "json"))
        .collect();
    scenarios.sort();
    assert!(!scenarios.is_empty());
    let mut apart = Vec::new();
    for path in &scenarios {
        let sequence = |costs_percent, others_ns: &[u64]| {
            let mut entries = simulate(&varied(path, costs_percent, others_ns));
            entries.retain(|it| it.at_ns >= FROM_NS);
            entries
        };
        let usual = sequence(100, &[]);
        let count = usual.partition_point(|it| it.at_ns < UNTIL_NS);
        for costs_percent in [25, 50, 75, 100, 150, 200, 300, 400] {
            for others_ns in OTHERS_NS {
                let other = sequence(costs_percent, others_ns);
                if let Err(same) = ties::compare(&usual, count, &other) {
                    apart.push(format!(
                        "{}: at {costs_percent} % of the costs, after {others_ns:?} of others, entry {} differs\n\
                         usual:\n{}other:\n{}",
                        path.display(),
                        same.recorded,
                        around(&usual, same.recorded),
                        around(&other, same.simulated)
                    ));
                }
            }
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}

/// Whether there is enough to compare: a guest's kernel threads may have come too often. What differs is
/// for the other tests to say.
#[test]
#[ignore = "needs recordings: sim/validation/compare"]
fn recordings_are_long_enough() {
    let mut short = 0;
    for kernel in kernels() {
        for name in ["hogs", "nice", "preempt", "studio", "yield"] {
            let path = kernel.join(format!("{name}.txt"));
            let count = compare_with(name, &path).map_or(ENTRIES_MIN, |compared| compared.count);
            if count < ENTRIES_MIN {
                // For sim/validation/compare, which makes it again.
                println!("too short: {}", path.display());
                short += 1;
            }
        }
    }
    assert_eq!(short, 0, "recordings have less than {ENTRIES_MIN} entries");
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
