// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks: rt-app's thread objects, and Consort's ready-made programs.

use std::collections::BTreeMap;

use super::{
    error::BadScenario,
    json::{Field, Fields, Node},
    names::Shared,
    programs,
    properties::{self, Properties},
    rates::Books,
    steps::{steps, Context},
    times::time_ns,
};
use crate::setup::{Cpu, Due, Length, Program, Step, Task, TaskIndex};

/// The most tasks of a scenario.
const TASKS_MAX: i64 = 100_000;

/// Which tasks there are: for each name of the text the first number, and how many.
#[derive(Debug, Default)]
pub struct Directory {
    entries: BTreeMap<String, (TaskIndex, u32)>,
}

impl Directory {
    fn named(&self, node: &Node<'_>) -> Result<(TaskIndex, u32), BadScenario> {
        let name = node.text()?;
        self.entries.get(name).copied().ok_or_else(|| {
            let names: Vec<&str> = self.entries.keys().map(String::as_str).collect();
            node.error(format!(
                "is {name:?}, expected the name of a task: {}",
                names.join(", ")
            ))
        })
    }

    /// The first task of the name that `node` is.
    pub fn first(&self, node: &Node<'_>) -> Result<TaskIndex, BadScenario> {
        Ok(self.named(node)?.0)
    }

    /// All tasks of a name; none: there is no such.
    pub fn of_name(&self, name: &str) -> Option<std::ops::Range<TaskIndex>> {
        let (first, count) = self.entries.get(name)?;
        Some(*first..*first + (*count).max(1) as usize)
    }

    /// All tasks of the name that `node` is.
    pub fn all(&self, node: &Node<'_>) -> Result<std::ops::Range<TaskIndex>, BadScenario> {
        let (first, count) = self.named(node)?;
        Ok(first..first + count.max(1) as usize)
    }
}

/// A thread object, before anything but its name and number is understood.
pub struct Entry<'a> {
    name: String,
    fields: Fields<'a>,
    /// None: it exists only when somebody forks it.
    instances: u32,
}

/// Names and numbers of all tasks. A name that occurs twice gets a number appended, as workgen does it.
pub fn list<'a>(fields: &Fields<'a>) -> Result<(Vec<Entry<'a>>, Directory), BadScenario> {
    let mut entries = Vec::new();
    let mut directory = Directory::default();
    let mut next = 0;
    for field in fields.entries() {
        let name = free_name(field, &directory);
        let inner = field.node.fields()?;
        let instances = match inner.get("instance") {
            Some(node) => node.whole(0..=TASKS_MAX)? as u32,
            None => 1,
        };
        directory.entries.insert(name.clone(), (next, instances));
        next += instances.max(1) as usize;
        if next > TASKS_MAX as usize {
            return Err(
                field.key_error(format!("makes {next} tasks, expected at most {TASKS_MAX}"))
            );
        }
        entries.push(Entry {
            name,
            fields: inner,
            instances,
        });
    }
    if entries.is_empty() {
        return Err(fields.node().error("is empty, expected at least one task"));
    }
    Ok((entries, directory))
}

fn free_name(field: &Field<'_>, directory: &Directory) -> String {
    let taken = |name: &String| directory.entries.contains_key(name);
    if !taken(&field.key) {
        return field.key.clone();
    }
    let mut numbered = (1..).map(|number| format!("{}{number}", field.key));
    numbered.find(|name| !taken(name)).unwrap_or_default()
}

/// What holds for all tasks.
pub struct World<'w> {
    pub shared: &'w mut Shared,
    pub rates: &'w mut Books,
    pub directory: &'w Directory,
    pub cpus: Cpu,
    pub defaults: &'w Properties,
    /// The names of users' own functions, by number.
    pub functions: &'w [String],
    pub seed: u64,
}

/// The tasks of one thread object.
pub fn tasks(entry: &Entry<'_>, world: &mut World<'_>) -> Result<Vec<Task>, BadScenario> {
    let fields = &entry.fields;
    let delay_ns = fields.get("delay").map(|node| time_ns(&node)).transpose()?;
    let properties = properties::read(fields, world)?.over(world.defaults);
    if let Some(node) = fields.get("reserve") {
        let (first, count) = world.directory.entries[&entry.name];
        for instance in 0..count.max(1) {
            world
                .rates
                .reserve_first(first + instance as usize, &node)?;
        }
    }
    let mut programs =
        programs::read(fields, entry.instances.max(1), delay_ns.unwrap_or(0), world)?;
    let mut tasks = Vec::new();
    for instance in 0..entry.instances.max(1) {
        let program = match &mut programs {
            Some(programs) => programs[instance as usize].clone(),
            None => Program::Steps(script(entry, instance, &properties, world)?),
        };
        tasks.push(Task {
            name: match entry.instances {
                0 | 1 => entry.name.clone(),
                _ => format!("{}-{instance}", entry.name),
            },
            cgroup: properties.cgroup.unwrap_or(0),
            nice: properties.nice.unwrap_or(0),
            slice_ns: properties.slice_ns,
            policy: properties.policy(),
            affinity: properties.affinity.clone(),
            start_ns: (entry.instances > 0).then_some(delay_ns.unwrap_or(0)),
            program,
        });
    }
    Ok(tasks)
}

/// rt-app's phases, or the events that stand in the thread object itself.
fn script(
    entry: &Entry<'_>,
    instance: u32,
    properties: &Properties,
    world: &mut World<'_>,
) -> Result<Vec<Step>, BadScenario> {
    let fields = &entry.fields;
    let times = repetitions(fields, None)?;
    let body = match fields.get("phases") {
        Some(phases) => {
            fields.finish()?;
            phases_of(&phases.fields()?, entry, instance, properties, world)?
        }
        None => steps(fields, &mut context(entry, instance, world))?,
    };
    if !uses_time(&body) {
        return Err(fields.node().error(
            "does nothing that takes time, expected events such as run or sleep with a time above 0, or a program \
             such as hog",
        ));
    }
    Ok(vec![Step::Loop { times, steps: body }])
}

fn context<'c>(entry: &'c Entry<'_>, instance: u32, world: &'c mut World<'_>) -> Context<'c> {
    Context {
        shared: world.shared,
        rates: world.rates,
        directory: world.directory,
        task: &entry.name,
        instance,
    }
}

fn phases_of(
    phases: &Fields<'_>,
    entry: &Entry<'_>,
    instance: u32,
    task: &Properties,
    world: &mut World<'_>,
) -> Result<Vec<Step>, BadScenario> {
    let objects = phases.entries().iter().map(|field| field.node.fields());
    let objects = objects.collect::<Result<Vec<_>, _>>()?;
    // Where no phase has CPUs of its own, nothing is to be set again and again.
    let moves = objects.iter().any(|fields| fields.get("cpus").is_some());
    let mut all = Vec::new();
    for fields in &objects {
        let own = properties::read(fields, world)?;
        all.extend(own.changes());
        if moves {
            all.push(Step::Affinity(own.affinity_below(task, world.cpus)));
        }
        all.extend(phase(fields, entry, instance, world)?);
    }
    Ok(all)
}

fn phase(
    fields: &Fields<'_>,
    entry: &Entry<'_>,
    instance: u32,
    world: &mut World<'_>,
) -> Result<Vec<Step>, BadScenario> {
    let times = repetitions(fields, Some(1))?;
    let body = steps(fields, &mut context(entry, instance, world))?;
    match times {
        Some(1) => Ok(body),
        None if !uses_time(&body) => Err(fields
            .node()
            .error("loops for ever over nothing that takes time, expected events such as run with a time above 0")),
        times => Ok(vec![Step::Loop { times, steps: body }]),
    }
}

/// `"loop"`: -1, or none where the default is none, is for ever.
fn repetitions(fields: &Fields<'_>, default: Option<u64>) -> Result<Option<u64>, BadScenario> {
    match fields.get("loop") {
        Some(node) => Ok(u64::try_from(node.whole(-1..=i64::MAX)?).ok()),
        None => Ok(default),
    }
}

/// Whether time passes when the steps are gone through: a loop over others would never end.
fn uses_time(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Loop { times, steps } => *times != Some(0) && uses_time(steps),
        Step::Run(length) | Step::Sleep(length) => is_above_zero(length),
        Step::Poll { due, best_effort } => match due {
            Due::In(length) => is_above_zero(length),
            Due::Raw(_) => best_effort.is_some(),
            Due::Never | Due::Timer { .. } => true,
        },
        // Who yields alone comes back at once, as in the kernel, and uses the CPU for it.
        Step::Yield
        | Step::Put { .. }
        | Step::Take { .. }
        | Step::Timer { .. }
        | Step::Wait { .. }
        | Step::Barrier { .. }
        | Step::Exit(_) => true,
        _ => false,
    })
}

/// Whether some draw is above 0.
fn is_above_zero(length: &Length) -> bool {
    match length {
        Length::Fixed(ns) => *ns > 0,
        Length::Uniform { max_ns, .. } => *max_ns > 0,
        Length::Series(all_ns) => all_ns.iter().any(|ns| *ns > 0),
        Length::Normal { .. } | Length::Exponential { .. } | Length::Vbr { .. } => true,
    }
}
