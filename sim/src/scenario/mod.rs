// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios as data: rt-app's JSON, and what it cannot say.
//!
//! `docs/scenarios.md` is the manual. Reading goes in two steps: names and numbers of all tasks first, then what
//! they do, since tasks refer to each other.

mod actions;
mod configuration;
mod error;
mod groups;
mod idle;
mod json;
mod limits;
mod locks;
mod machine;
mod mend;
mod names;
mod programs;
mod properties;
mod rates;
mod roles;
mod steps;
mod tasks;
#[cfg(test)]
mod tests;
mod times;
mod users;

use std::{collections::BTreeMap, fs, path::Path};

use serde::Serialize;

pub use configuration::Configuration;
pub use error::{BadScenario, LoadError, Position};
pub use idle::without_effect;
pub use machine::KERNELS;

use self::{
    json::{Fields, Node, Source},
    names::Shared,
    properties::Properties,
    tasks::World,
};
use crate::setup::{Program, Setup, Step, Task};

/// rt-app's keys that only concern how rt-app itself runs.
const RT_APP_OWN: [&str; 12] = [
    "calibration",
    "cumulative_slack",
    "frag",
    "ftrace",
    "gnuplot",
    "io_device",
    "lock_pages",
    "log_basename",
    "log_size",
    "logsize",
    "logdir",
    "mem_buffer_size",
];

const DEFAULT_DURATION_NS: u64 = 10_000_000_000;
const DEFAULT_SEED: u64 = 1;

/// What a scenario's text says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scenario {
    /// The file's name without its folder and ending.
    pub name: String,
    pub setup: Setup,
    /// Reports leave out what happens before.
    pub warmup_ns: u64,
}

/// Reads a scenario from a file: rt-app's JSON, or a [`Setup`] as `consort sim explore` writes it. A `seed` takes the
/// place of the scenario's own.
///
/// # Errors
/// The file cannot be read, or says something wrong.
pub fn load(path: &Path, seed: Option<u64>) -> Result<Scenario, LoadError> {
    let text = fs::read_to_string(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(read(&path.display().to_string(), &text, seed)?)
}

/// Reads a scenario; `file` is its name in messages.
///
/// # Errors
/// What is wrong, where, and what was expected.
pub fn parse(file: &str, text: &str) -> Result<Scenario, BadScenario> {
    read(file, text, None)
}

fn read(file: &str, text: &str, seed: Option<u64>) -> Result<Scenario, BadScenario> {
    let source = Source::new(file, text);
    let value = source.value()?;
    let fields = Node::root(&source, &value).fields()?;
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let name = Path::new(file).file_stem().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let tasks = fields.need("tasks", "an object with the tasks")?;
    if tasks.is_list() {
        let mut setup = source.setup()?;
        setup.seed = seed.unwrap_or(setup.seed);
        return Ok(Scenario {
            name,
            setup,
            warmup_ns: 0,
        });
    }
    let (setup, warmup_ns) = setup(&fields, &tasks.fields()?, seed, folder)?;
    Ok(Scenario {
        name,
        setup,
        warmup_ns,
    })
}

/// `"global"`.
struct Global {
    duration_ns: u64,
    warmup_ns: u64,
    seed: u64,
    defaults: Properties,
    /// All locks inherit.
    pi_enabled: bool,
}

fn global(fields: Option<&Fields<'_>>) -> Result<Global, BadScenario> {
    let mut global = Global {
        duration_ns: DEFAULT_DURATION_NS,
        warmup_ns: 0,
        seed: DEFAULT_SEED,
        defaults: Properties::default(),
        pi_enabled: false,
    };
    let Some(fields) = fields else {
        return Ok(global);
    };
    fields.allow(&RT_APP_OWN);
    if let Some(node) = fields.get("duration") {
        global.duration_ns = duration_ns(&node)?;
    }
    if let Some(node) = fields.get("warmup") {
        global.warmup_ns = times::seconds_ns(&node)?;
        if global.warmup_ns >= global.duration_ns {
            return Err(node.error("is not shorter than \"duration\", expected less"));
        }
    }
    if let Some(node) = fields.get("seed") {
        global.seed = node.whole(0..=i64::MAX)?.unsigned_abs();
    }
    if let Some(node) = fields.get("pi_enabled") {
        global.pi_enabled = node.truth()?;
    }
    if let Some(node) = fields.get("default_policy") {
        global.defaults = properties::default_policy(&node)?;
    }
    fields.finish()?;
    Ok(global)
}

fn duration_ns(node: &Node<'_>) -> Result<u64, BadScenario> {
    if node.whole(-1..=-1).is_ok() {
        return Err(node.error("is -1, without end, which is not simulated: expected a duration"));
    }
    match times::seconds_ns(node)? {
        0 => Err(node.error("is 0, expected more")),
        ns => Ok(ns),
    }
}

/// The setup, and the warm-up's length.
fn setup(
    fields: &Fields<'_>,
    task_fields: &Fields<'_>,
    seed: Option<u64>,
    folder: &Path,
) -> Result<(Setup, u64), BadScenario> {
    // rt-app keeps it for compatibility, and makes resources when they are named.
    fields.allow(&["resources"]);
    let object = |key| fields.get(key).map(|node| node.fields()).transpose();
    let mut global = global(object("global")?.as_ref())?;
    // Before anything is drawn: films and phases of players are.
    global.seed = seed.unwrap_or(global.seed);
    let (machine, costs) = machine::machine(object("machine")?.as_ref())?;
    let mut shared = Shared::default();
    if let Some(cgroups) = object("cgroups")? {
        groups::cgroups(&cgroups, &mut shared)?;
    }
    if let Some(domains) = object("domains")? {
        groups::domains(&domains, &mut shared)?;
    }
    let tunables = match object("tunables")? {
        Some(fields) => machine::tunables(&fields)?,
        None => Default::default(),
    };
    let faults = match object("faults")? {
        Some(fields) => actions::faults(&fields)?,
        None => Default::default(),
    };
    let mut rates = rates::Books::new(machine.cpus(), object("classes")?.as_ref())?;
    let queues = match object("queues")? {
        Some(fields) => roles::queues(&fields, &mut shared)?,
        None => Vec::new(),
    };
    let (entries, directory) = tasks::list(task_fields)?;
    let mut world = World {
        shared: &mut shared,
        rates: &mut rates,
        directory: &directory,
        cpus: machine.cpus(),
        defaults: &global.defaults,
        functions: &[],
        seed: global.seed,
    };
    let mut all = Vec::new();
    for entry in &entries {
        all.extend(tasks::tasks(entry, &mut world)?);
    }
    let actions = match fields.get("actions") {
        Some(node) => actions::actions(&node, &mut world)?,
        None => Vec::new(),
    };
    let (users, functions) = match object("functions")? {
        Some(fields) => users::users(&fields, folder)?,
        None => Default::default(),
    };
    world.functions = &functions;
    let groups = match object("groups")? {
        Some(fields) => roles::groups(&fields, &mut world)?,
        None => Vec::new(),
    };
    let pi_locks = locks::pi_locks(object("locks")?.as_ref(), global.pi_enabled, &shared)?;
    fields.finish()?;
    shared.check_conditions()?;
    count_barriers(&mut all);
    let setup = Setup {
        machine,
        tunables,
        costs,
        seed: global.seed,
        duration_ns: global.duration_ns,
        cgroups: shared.cgroups,
        domains: shared.domains,
        groups,
        users,
        queues,
        tasks: all,
        pi_locks,
        rates: rates.finish(),
        actions,
        faults,
    };
    Ok((setup, global.warmup_ns))
}

/// A barrier waits for as many tasks as name it.
fn count_barriers(tasks: &mut [Task]) {
    let mut users = BTreeMap::new();
    for task in tasks.iter_mut() {
        each_barrier(task, &mut |barrier, _| {
            *users.entry(barrier).or_insert(0) += 1
        });
    }
    for task in tasks {
        each_barrier(task, &mut |barrier, tasks| *tasks = users[&barrier]);
    }
}

fn each_barrier(task: &mut Task, visit: &mut dyn FnMut(u32, &mut u32)) {
    fn walk(steps: &mut [Step], visit: &mut dyn FnMut(u32, &mut u32)) {
        for step in steps {
            match step {
                Step::Barrier { barrier, tasks } => visit(*barrier, tasks),
                Step::Loop { steps, .. } => walk(steps, visit),
                _ => {}
            }
        }
    }
    if let Program::Steps(steps) = &mut task.program {
        walk(steps, visit);
    }
}
