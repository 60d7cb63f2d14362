// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups with decision functions: their members in the words of group files, and the queues between these.

use super::{
    error::BadScenario,
    json::{Field, Fields, Node},
    names::Shared,
    tasks::World,
    times::time_ns,
};
use crate::{
    ffi,
    groups::{Function, Group, Role, Tell},
    setup::{Step, TaskIndex},
};

const FUNCTIONS: [(&str, Function); 5] = [
    ("fair", Function::Fair),
    ("period", Function::Period),
    ("plan", Function::Plan),
    ("pipeline", Function::Pipeline),
    ("follow", Function::Follow),
];

pub const TELLS: [(&str, Tell); 4] = [
    ("submitting", Tell::Submitting),
    ("submitted", Tell::Submitted),
    ("done", Tell::Done),
    ("trigger", Tell::Trigger),
];

const ROLES_MAX: usize = ffi::CONSORT_ROLES as usize;
const INTERVALS_MAX: usize = ffi::CONSORT_PLAN_INTERVALS as usize;
const INTERVAL_MIN_NS: u64 = ffi::CONSORT_INTERVAL_MIN_NS as u64;
const PERIOD_MAX_NS: u64 = ffi::CONSORT_PERIOD_MAX_NS;

/// `"queues"`: names, and how many items each holds.
pub fn queues(fields: &Fields<'_>, shared: &mut Shared) -> Result<Vec<u32>, BadScenario> {
    let mut capacities = Vec::new();
    for field in fields.entries() {
        shared.queues.push(field.key.clone());
        capacities.push(field.node.whole(1..=1_000_000)? as u32);
    }
    Ok(capacities)
}

/// `"state": {"variable": 1, "value": 7}`.
pub fn state(node: &Node<'_>) -> Result<Step, BadScenario> {
    let fields = node.fields()?;
    let variable = match fields.get("variable") {
        Some(node) => node.whole(0..=i64::from(ffi::CONSORT_VARIABLES) - 1)? as u32,
        None => 0,
    };
    let value = fields
        .need("value", "a number")?
        .whole(i64::MIN..=i64::MAX)?;
    fields.finish()?;
    Ok(Step::State { variable, value })
}

/// `"groups"`: by name.
pub fn groups(fields: &Fields<'_>, world: &mut World<'_>) -> Result<Vec<Group>, BadScenario> {
    let entries = fields.entries().iter();
    entries.map(|field| group(field, world)).collect()
}

fn group(field: &Field<'_>, world: &mut World<'_>) -> Result<Group, BadScenario> {
    let fields = field.node.fields()?;
    let (function, user) = function(
        &fields.need("function", "the name of a decision function")?,
        world,
    )?;
    let members = fields.need("members", "an object with the members")?;
    let group = Group {
        name: field.key.clone(),
        function,
        user,
        reserve: match fields.get("reserve") {
            Some(node) => Some(world.rates.wanted(&node)?),
            None => None,
        },
        begins_ns: fields
            .get("begins")
            .map(|node| time_ns(&node))
            .transpose()?,
        bootstrap: match fields.get("bootstrap") {
            Some(node) => node.whole(0..=i64::from(i32::MAX))? as u32,
            None => 0,
        },
        roles: roles(&members, world)?,
    };
    fields.finish()?;
    Ok(group)
}

/// A built-in function, or the number of one of `"functions"`.
fn function(node: &Node<'_>, world: &World<'_>) -> Result<(Function, u32), BadScenario> {
    let Some(name) = node.text()?.strip_prefix("user:") else {
        return Ok((node.choice(&FUNCTIONS)?, 0));
    };
    let found = world.functions.iter().position(|known| known == name);
    let number = found.ok_or_else(|| {
        node.error(format!(
            "names the function {name:?}, expected one of \"functions\""
        ))
    })?;
    Ok((Function::User, number as u32))
}

/// One role for each instance of each member.
fn roles(members: &Node<'_>, world: &World<'_>) -> Result<Vec<Role>, BadScenario> {
    let fields = members.fields()?;
    let mut first_of: Vec<(String, u32)> = Vec::new();
    let mut instances: Vec<(TaskIndex, usize)> = Vec::new();
    for (index, field) in fields.entries().iter().enumerate() {
        first_of.push((field.key.clone(), instances.len() as u32));
        let tasks = world
            .directory
            .of_name(&field.key)
            .ok_or_else(|| field.key_error("is no task, expected the name of one"))?;
        instances.extend(tasks.map(|task| (task, index)));
    }
    if instances.len() > ROLES_MAX {
        return Err(members.error(format!(
            "has {} members, expected at most {ROLES_MAX}",
            instances.len()
        )));
    }
    let terms = fields.entries().iter();
    let terms: Vec<Role> = terms
        .map(|field| role(&field.node, &first_of))
        .collect::<Result<_, _>>()?;
    let roles = instances.into_iter().map(|(task, index)| Role {
        task,
        ..terms[index].clone()
    });
    Ok(roles.collect())
}

fn role(node: &Node<'_>, first_of: &[(String, u32)]) -> Result<Role, BadScenario> {
    let fields = node.fields()?;
    let time = |key: &str| match fields.get(key) {
        Some(node) => bounded_ns(&node),
        None => Ok(0),
    };
    let level = |key: &str| match fields.get(key) {
        Some(node) => node
            .whole(0..=i64::from(i32::MAX))
            .map(|level| level as u32),
        None => Ok(0),
    };
    let role = Role {
        task: 0,
        plan: match fields.get("plan") {
            Some(node) => plan(&node)?,
            None => Vec::new(),
        },
        repeat_ns: match fields.get("repeat") {
            Some(node) => time_ns(&node)?,
            None => 0,
        },
        period_ns: time("period")?,
        budget_ns: time("budget")?,
        follows: match fields.get("follows") {
            Some(node) => Some(leader(&node, first_of)?),
            None => None,
        },
        follow_ns: time("for")?,
        high: level("high")?,
        step: level("step")?,
    };
    if role.budget_ns > role.period_ns {
        return Err(node.error("has a \"budget\" above its \"period\""));
    }
    let last_ns = role.plan.last().map_or(0, |interval| interval.1);
    if role.repeat_ns != 0 && role.repeat_ns < last_ns {
        return Err(node.error("repeats its plan before the last interval has ended"));
    }
    fields.finish()?;
    Ok(role)
}

fn bounded_ns(node: &Node<'_>) -> Result<u64, BadScenario> {
    match time_ns(node)? {
        ns if ns <= PERIOD_MAX_NS => Ok(ns),
        _ => Err(node.error(format!("is {}, expected at most 10s", node.shown()))),
    }
}

fn leader(node: &Node<'_>, first_of: &[(String, u32)]) -> Result<u32, BadScenario> {
    let name = node.text()?;
    let found = first_of.iter().find(|(known, _)| known == name);
    found
        .map(|(_, role)| *role)
        .ok_or_else(|| node.error(format!("is {name:?}, expected a member of the same group")))
}

/// `[["0ms", "5ms"], ["40ms", "45ms"]]`: in order, none overlaps the next.
fn plan(node: &Node<'_>) -> Result<Vec<(u64, u64)>, BadScenario> {
    let mut intervals: Vec<(u64, u64)> = Vec::new();
    for entry in node.list()? {
        let both = entry.list()?;
        let [start, end] = both.as_slice() else {
            return Err(entry.error("is no interval, expected [from, until]"));
        };
        let (start_ns, end_ns) = (time_ns(start)?, time_ns(end)?);
        if end_ns < start_ns + INTERVAL_MIN_NS {
            return Err(
                end.error("is not 100us after the interval's beginning, expected that at least")
            );
        }
        if intervals.last().is_some_and(|last| start_ns < last.1) {
            return Err(start.error("is before the end of the interval before it"));
        }
        intervals.push((start_ns, end_ns));
    }
    if intervals.len() > INTERVALS_MAX {
        return Err(node.error(format!(
            "has {} intervals, expected at most {INTERVALS_MAX}",
            intervals.len()
        )));
    }
    Ok(intervals)
}
