// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario of the simulator, carried out by processes: what the simulator is held to, and beside what papers'
//! figures are measured.

mod film;
mod journal;
mod radio;
mod steps;
mod world;

use crate::clock::{no_timer_slack, now_ns, sleep_until_ns, NS_PER_MS};
use crate::counters::cpu_time_ns;
use crate::error::Error;
use crate::processes::{lock_memory, set_name, set_nice, spawn, Child};
use clap::{Args, ValueEnum};
use consort_sim::random::Random;
use consort_sim::setup::{Setup, Task};
use journal::Journal;
use radio::Receiver;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use steps::Running;

/// Time for all processes to be started.
const START_DELAY_NS: u64 = 500 * NS_PER_MS;
/// Of kernels with CONFIG_HZ=250.
const TICK_NS: u64 = 4 * NS_PER_MS;
/// Names of the processes begin with it, so that whoever records knows them.
const NAME_PREFIX: &str = "c:";

/// What becomes of the scenario's reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lowercase")]
enum Promises {
    /// Nothing: there are the cgroups' weights
    None,
    /// They are made: the classes are the daemon's, which must be started with them
    Consort,
    /// A player that has reserved is SCHED_DEADLINE, with that runtime in each period
    Deadline,
}

#[derive(Debug, Args)]
pub struct Options {
    /// The scenario: tasks with run, sleep, timer, yield, join, poll, leave, lend, recollect and loops, or hogs
    pub scenario: PathBuf,
    #[arg(long, value_enum, default_value = "none")]
    promises: Promises,
    /// Chooses the random lengths, in place of the scenario's own seed
    #[arg(long)]
    seed: Option<u64>,
    /// Says of each process when it ran, and when its timers were served; it looks at the clock for that
    #[arg(long)]
    timelines: bool,
    /// Tasks of this name are consort-play instead
    #[arg(long, requires = "film")]
    player: Option<String>,
    /// What it plays
    #[arg(long)]
    film: Option<PathBuf>,
    /// The timers of the task of this name are packets, which somebody sends it over loopback
    #[arg(long)]
    receiver: Option<String>,
}

/// Carries the scenario out; when it began, on CLOCK_MONOTONIC, what part of a CPU each had from the warm-up on, and
/// the timelines.
pub fn run(options: &Options) -> Result<Value, Error> {
    let scenario = consort_sim::scenario::load(&options.scenario, options.seed)
        .map_err(|error| Error::Usage(error.to_string()))?;
    let setup = scenario.setup;
    let pids = world::Pids::new(setup.tasks.len())?;
    let groups = world::Groups::make(&setup)?;
    // In step with the kernel's ticks, as in the simulator.
    let begin_ns = (now_ns() + START_DELAY_NS).next_multiple_of(TICK_NS);
    let (mut children, mut senders) = (Vec::new(), Vec::new());
    for (index, task) in setup.tasks.iter().enumerate() {
        if task.start_ns.is_none() {
            continue;
        }
        let receiver = match is_of(task, &options.receiver) {
            true => {
                let (receiver, sender) = radio::tune(task, begin_ns, begin_ns + setup.duration_ns)?;
                senders.push(sender);
                Some(receiver)
            }
            false => None,
        };
        let world = World {
            setup: &setup,
            begin_ns,
            groups: &groups,
            pids: &pids,
        };
        let child = spawn(|| be(options, &world, index, receiver))?;
        pids.set(index, child.pid);
        children.push((task.name.clone(), child));
    }
    groups.act(&setup, begin_ns)?;
    let window_ns = begin_ns + scenario.warmup_ns..begin_ns + setup.duration_ns;
    let shares = shares_percent(window_ns, &children)?;
    let mut tasks = Map::new();
    for (name, child) in children {
        tasks.insert(name, child.wait()?);
    }
    for sender in senders {
        sender.wait()?;
    }
    let timelines = if options.timelines { tasks } else { Map::new() };
    Ok(json!({ "begin_ns": begin_ns, "share_percent": shares, "tasks": timelines }))
}

/// Parts of a CPU in percent, by name; none where actions take until the window has begun.
fn shares_percent(
    window_ns: std::ops::Range<u64>,
    children: &[(String, Child<Value>)],
) -> Result<Map<String, Value>, Error> {
    if now_ns() > window_ns.start || window_ns.is_empty() {
        return Ok(Map::new());
    }
    let times_ns = || -> Result<Vec<u64>, Error> {
        let pids = children.iter().map(|(_, child)| child.pid);
        pids.map(cpu_time_ns).collect()
    };
    sleep_until_ns(window_ns.start);
    let (before_ns, before) = (now_ns(), times_ns()?);
    // A child that has ended is still there, until it is waited for.
    sleep_until_ns(window_ns.end);
    let (after, after_ns) = (times_ns()?, now_ns());
    let percent = |used_ns: u64| 100.0 * used_ns as f64 / (after_ns - before_ns) as f64;
    let used = before.iter().zip(&after).map(|(from, until)| until - from);
    let names = children.iter().map(|(name, _)| name.clone());
    Ok(names
        .zip(used.map(|used_ns| json!(percent(used_ns))))
        .collect())
}

/// An instance's name is the task's, or begins with it and a dash.
fn is_of(task: &Task, name: &Option<String>) -> bool {
    name.as_deref().is_some_and(|name| {
        let rest = task.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

/// What all processes know.
struct World<'a> {
    setup: &'a Setup,
    begin_ns: u64,
    groups: &'a world::Groups,
    pids: &'a world::Pids,
}

fn be(
    options: &Options,
    world: &World<'_>,
    index: usize,
    receiver: Option<Receiver>,
) -> Result<Value, Error> {
    let World {
        setup, begin_ns, ..
    } = *world;
    let task = &setup.tasks[index];
    set_name(&format!("{NAME_PREFIX}{}", task.name))?;
    lock_memory();
    if options.timelines {
        no_timer_slack();
    }
    if task.nice != 0 {
        set_nice(task.nice)?;
    }
    world.groups.enter(task.cgroup)?;
    world::keep_promise(options.promises, setup, index)?;
    let start_ns = begin_ns + task.start_ns.unwrap_or(0);
    let end_ns = begin_ns + setup.duration_ns;
    if let (true, Some(film)) = (is_of(task, &options.player), &options.film) {
        let time = film::Time {
            begin_ns,
            start_ns,
            end_ns,
        };
        return film::play(film, index, &task.program, &time);
    }
    let mut running = Running {
        setup,
        pids: world.pids,
        asks: options.promises == Promises::Consort,
        end_ns,
        timers: BTreeMap::new(),
        random: Random::derived(setup.seed, index as u64),
        journal: Journal::new(begin_ns, options.timelines),
        receiver,
        member: None,
    };
    sleep_until_ns(start_ns);
    running.carry_out(&task.program)?;
    Ok(running.journal.report())
}
