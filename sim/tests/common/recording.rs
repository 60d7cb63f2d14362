// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest has recorded while processes carried a scenario out, and the same scenario simulated, beside the
//! same disturbances: what the guest's other tasks did is replayed.

use super::{assert_fine, ties::TIE_NS, MS};
use consort_sim::scenario;
use consort_sim::setup::{Kernel, Length, Policy, Program, Setup, Step, Task};
use consort_sim::trace::{Event, Left, TaskId, What};
use consort_sim::{consort, run};
use std::collections::BTreeSet;
use std::iter::once;
use std::path::Path;

/// A callback about a task, or a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// From the beginning of the scenario.
    pub at_ns: u64,
    pub text: String,
}

pub struct Recording {
    kernel: Kernel,
    raw: Vec<Entry>,
}

/// Tasks that do not belong to the scenario are known by their numbers.
const OTHERS: &str = "#";
/// Above the numbers of the scenarios' timers.
const OTHERS_TIMER: u32 = 1_000_000;
const CALLBACKS: [&str; 4] = ["select_cpu", "enqueue", "dispatch", "quiescent"];
/// From a timer's multiple to the callback: the slack of a program that does not ask for sharp timers, the interrupt, and by
/// how much the scenario's own tasks are earlier in the simulation.
const WAKING_NS: u64 = 134_500;

/// What it costs to record a callback or a switch.
const RECORDING_NS: u64 = 2_600;

/// One that runs later has waited for the scenario's tasks.
const WAITS_NS: u64 = 50_000;

/// For so long after another task ran the order may be another: what it took away ends two slices at other times, and
/// between them somebody lighter may come.
const DISTURBED_NS: u64 = 8_000_000;

/// So long after another task ran the scenario's tasks are where they would be without it: its longest period.
const SETTLED_NS: u64 = 72_000_000;

/// When others woke up, and for how long they ran until all of them slept again.
#[derive(Default)]
struct Disturbances {
    /// Those under the scheduler.
    below: Vec<(u64, u64)>,
    /// Those of higher classes.
    above: Vec<(u64, u64)>,
    /// When those woke up of which one waited while the scenario went on, which is not replayed.
    tangles_ns: Vec<u64>,
}

/// A task that does what others did.
fn other(number: u32, turns: &[(u64, u64)]) -> Task {
    let mut steps = Vec::new();
    let mut before_ns = 0;
    for (at_ns, ran_ns) in turns {
        let period_ns = at_ns.saturating_sub(WAKING_NS + before_ns).max(1);
        before_ns += period_ns;
        steps.push(Step::Timer {
            timer: OTHERS_TIMER + number,
            period_ns,
            absolute: true,
        });
        steps.push(Step::Run(Length::Fixed(*ran_ns)));
    }
    Task::new(OTHERS, Program::Steps(steps))
}

impl Recording {
    /// Reads what sim/validation/record has written.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (head, lines) = text.split_once('\n').unwrap();
        let entry = |line: &str| {
            let (at_ns, text) = line.split_once(' ').unwrap();
            Entry {
                at_ns: at_ns.parse().unwrap(),
                text: text.to_owned(),
            }
        };
        Self {
            kernel: match head.starts_with("# Linux 6.") {
                true => Kernel::V6_18,
                false => Kernel::V7_2,
            },
            raw: lines.lines().map(entry).collect(),
        }
    }

    /// What concerns the scenario's tasks.
    pub fn entries(&self) -> Vec<Entry> {
        let others = |name: &str| match name.starts_with(OTHERS) {
            true => OTHERS.to_owned(),
            false => name.to_owned(),
        };
        let of_scenario = |entry: &Entry| {
            let text = match entry.text.split(' ').collect::<Vec<_>>().as_slice() {
                ["switch", from, to] => {
                    let goes_on = if from.ends_with('+') { "+" } else { "" };
                    let from = others(from.trim_end_matches('+'));
                    let goes_on = if from == OTHERS { "" } else { goes_on };
                    format!("switch {from}{goes_on} {}", others(to))
                }
                _ => entry.text.clone(),
            };
            concerns_the_scenario(&text).then_some(Entry {
                at_ns: entry.at_ns,
                text,
            })
        };
        self.raw.iter().filter_map(of_scenario).collect()
    }

    /// The parts of a time in which the scenario can be compared, as far as others are concerned: each ends where one of them
    /// wakes that will have to wait.
    pub fn untangled(&self, from_ns: u64, until_ns: u64) -> Vec<(u64, u64)> {
        let mut tangles_ns = self.disturbances().tangles_ns;
        tangles_ns.retain(|at_ns| (from_ns..until_ns).contains(at_ns));
        let begins = once(from_ns).chain(tangles_ns.iter().copied());
        let ends = tangles_ns.iter().copied().chain(once(until_ns));
        begins.zip(ends).collect()
    }

    /// Whether another task woke or ran in the moment before, or does so near that it may have come before.
    pub fn is_disturbed_at(&self, at_ns: u64) -> bool {
        self.others_came(at_ns.saturating_sub(DISTURBED_NS), at_ns + TIE_NS)
    }

    /// Whether what other tasks took away has no effect any more.
    pub fn is_settled_at(&self, at_ns: u64) -> bool {
        !self.others_came(at_ns.saturating_sub(SETTLED_NS), at_ns)
    }

    fn others_came(&self, from_ns: u64, until_ns: u64) -> bool {
        let others = |entry: &Entry| {
            (from_ns..=until_ns).contains(&entry.at_ns) && entry.text.contains(OTHERS)
        };
        self.raw.iter().any(others)
    }

    fn disturbances(&self) -> Disturbances {
        let mut found = Disturbances::default();
        let mut awake = BTreeSet::new();
        // Since when somebody else runs, and whether that is one of a higher class: nobody has enqueued it.
        let mut running: Option<(u64, bool)> = None;
        for entry in &self.raw {
            match entry.text.split(' ').collect::<Vec<_>>().as_slice() {
                ["enqueue", name] if name.starts_with(OTHERS) => {
                    if awake.is_empty() {
                        found.below.push((entry.at_ns, 0));
                    }
                    awake.insert(*name);
                }
                ["quiescent", name] => {
                    awake.remove(name);
                }
                ["switch", _, to] => {
                    let ran = running.take();
                    if let Some((since_ns, is_above)) = ran {
                        let turns = if is_above {
                            &mut found.above
                        } else {
                            &mut found.below
                        };
                        if let Some((_, ran_ns)) = turns.last_mut() {
                            *ran_ns += entry.at_ns - since_ns;
                        }
                    }
                    let waits = found.below.last().filter(|_| !awake.is_empty());
                    if let Some((at_ns, _)) = waits {
                        let late = ran.is_none() && entry.at_ns - at_ns > WAITS_NS;
                        if (late || !is_other(to)) && found.tangles_ns.last() != Some(at_ns) {
                            found.tangles_ns.push(*at_ns);
                        }
                    }
                    if to.starts_with(OTHERS) {
                        let is_above = !awake.contains(to);
                        if is_above {
                            found.above.push((entry.at_ns, 0));
                        }
                        running = Some((entry.at_ns, is_above));
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// The scenario's setup, with the others as two more tasks.
    fn setup(&self, path: &Path) -> Setup {
        let mut setup = scenario::load(path, None).unwrap().setup;
        setup.machine.kernel = self.kernel;
        setup.costs.callback_ns += RECORDING_NS;
        setup.costs.switch_ns += RECORDING_NS;
        let others = self.disturbances();
        setup.tasks.push(other(1, &others.below));
        setup.tasks.push(Task {
            policy: Policy::Realtime,
            ..other(2, &others.above)
        });
        setup
    }

    pub fn simulate(&self, path: &Path) -> Vec<Entry> {
        simulate(&self.setup(path))
    }
}

/// The scenario with costs of so many percent, and with others that run for so long before it is compared, each at a time
/// of its own.
pub fn varied(path: &Path, costs_percent: u64, others_ns: &[u64]) -> Setup {
    let mut setup = scenario::load(path, None).unwrap().setup;
    let costs = &mut setup.costs;
    for cost_ns in [
        &mut costs.callback_ns,
        &mut costs.schedule_ns,
        &mut costs.switch_ns,
        &mut costs.wake_ns,
        &mut costs.interrupt_ns,
    ] {
        *cost_ns = *cost_ns * costs_percent / 100;
    }
    let turns: Vec<(u64, u64)> = others_ns
        .iter()
        .enumerate()
        .map(|(number, ran_ns)| ((100 + 37 * number as u64) * MS, *ran_ns))
        .collect();
    setup.tasks.push(other(1, &turns));
    setup
}

/// Callbacks and switches that concern the scenario's tasks.
pub fn simulate(setup: &Setup) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut note = |event: &Event| {
        let name = |task: &TaskId| names[*task as usize].clone();
        let text = match &event.what {
            What::Created { of, .. } => {
                names.push(setup.tasks[*of].name.clone());
                return;
            }
            What::Callback {
                name: callback,
                task: Some(task),
            } if CALLBACKS.contains(callback) => {
                format!("{callback} {}", name(task))
            }
            What::Callback {
                name: "dispatch",
                task: None,
            } => "dispatch -".to_owned(),
            What::Switch { prev, next } => {
                let from = prev.as_ref().map_or("-".to_owned(), |(task, left)| {
                    let goes_on = matches!(left, Left::Preempted | Left::Yielded);
                    let name = name(task);
                    let goes_on = if goes_on && name != OTHERS { "+" } else { "" };
                    name + goes_on
                });
                format!(
                    "switch {from} {}",
                    next.as_ref().map_or("-".to_owned(), name)
                )
            }
            _ => return,
        };
        if concerns_the_scenario(&text) {
            entries.push(Entry {
                at_ns: event.at_ns,
                text,
            });
        }
    };
    let outcome = run(setup, consort(), &mut note).unwrap();
    assert_fine(&outcome);
    entries
}

/// Callbacks about others, and switches between others, do not.
fn concerns_the_scenario(text: &str) -> bool {
    text.split(' ').skip(1).any(|name| !is_other(name))
}

/// Not one of the scenario's tasks.
pub fn is_other(name: &str) -> bool {
    name.starts_with(OTHERS) || name == "-"
}
