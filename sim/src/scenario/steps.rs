// SPDX-License-Identifier: MIT OR Apache-2.0
//! A phase's events, in the order of the text, as steps of a program.

use super::{
    error::BadScenario,
    json::{Field, Fields, Node},
    names::Shared,
    rates::{self, Books},
    roles,
    tasks::Directory,
    times::{length, time_ns},
};
use crate::setup::{Due, Step};

/// Events of rt-app, and Consort's. `run1`, `run_a` and a second `run` are all `run`.
const EVENTS: [&str; 31] = [
    "run",
    "runtime",
    "sleep",
    "timer",
    "lock",
    "unlock",
    "wait",
    "signal",
    "broad",
    "sync",
    "barrier",
    "suspend",
    "resume",
    "yield",
    "tell",
    "state",
    "put",
    "take",
    "mark",
    "fork",
    "poll",
    "join",
    "leave",
    "reserve",
    "release",
    "lend",
    "recollect",
    "migrate_disable",
    "migrate_enable",
    "exec",
    "exit",
];

/// Events of rt-app that have no model here.
const NOT_SIMULATED: [&str; 2] = ["mem", "iorun"];

/// Prefix of timer names that are another timer in each instance of a task.
const UNIQUE: &str = "unique";

/// The task that steps are made for, and whom it can refer to.
pub struct Context<'c> {
    pub shared: &'c mut Shared,
    pub rates: &'c mut Books,
    pub directory: &'c Directory,
    pub task: &'c str,
    pub instance: u32,
}

/// The events among `fields`: all that nobody asked for.
///
/// # Errors
/// One of them is no event, or says something wrong.
pub fn steps(fields: &Fields<'_>, context: &mut Context<'_>) -> Result<Vec<Step>, BadScenario> {
    let mut steps = Vec::new();
    for field in fields.rest() {
        let Some(event) = event_of(&field.key, &EVENTS) else {
            return Err(no_event(fields, &field));
        };
        add(event, &field.node, context, &mut steps)?;
    }
    Ok(steps)
}

fn no_event(fields: &Fields<'_>, field: &Field<'_>) -> BadScenario {
    match event_of(&field.key, &NOT_SIMULATED) {
        Some(event) => field.key_error(format!(
            "{event} is not simulated, expected run for the time that it takes"
        )),
        None => fields.unknown(field, &EVENTS),
    }
}

/// The event whose name, followed by nothing, a digit, `_` or `-`, the key is.
fn event_of(key: &str, events: &[&'static str]) -> Option<&'static str> {
    let is_meant = |event: &&&str| {
        let rest = key.strip_prefix(**event);
        rest.is_some_and(|rest| {
            rest.is_empty()
                || rest.starts_with(|c: char| c.is_ascii_digit() || c == '_' || c == '-')
        })
    };
    events
        .iter()
        .filter(is_meant)
        .max_by_key(|event| event.len())
        .copied()
}

fn add(
    event: &str,
    node: &Node<'_>,
    context: &mut Context<'_>,
    steps: &mut Vec<Step>,
) -> Result<(), BadScenario> {
    let shared = &mut *context.shared;
    steps.push(match event {
        "run" | "runtime" => Step::Run(length(node)?),
        "sleep" => Step::Sleep(length(node)?),
        "timer" => timer(node, context)?,
        "lock" => lock(node, shared)?,
        "unlock" => Step::Unlock(shared.locks.number(node.text()?)),
        "wait" => wait(node, shared)?.0,
        "signal" => Step::Signal(wakes(node, shared)?),
        "broad" => Step::Broadcast(wakes(node, shared)?),
        "sync" => return sync(node, shared, steps),
        // How many tasks it waits for is known when all are read.
        "barrier" => Step::Barrier {
            barrier: shared.barriers.number(node.text()?),
            tasks: 0,
        },
        "suspend" => {
            let name = match node.text()? {
                "" => context.task,
                name => name,
            };
            let (condition, lock) = (shared.waits(name), shared.locks.number(name));
            steps.extend(locked(lock, Step::Wait { condition, lock }));
            return Ok(());
        }
        "resume" => {
            let name = node.text()?;
            let condition = shared.wakes(name, || {
                node.error(format!(
                    "is {name:?}, expected a name on which a task suspends itself"
                ))
            });
            let lock = shared.locks.number(name);
            steps.extend(locked(lock, Step::Broadcast(condition)));
            return Ok(());
        }
        "yield" => Step::Yield,
        "tell" => Step::Tell(node.choice(&roles::TELLS)?),
        "state" => roles::state(node)?,
        "put" => Step::Put {
            queue: shared.queue(node)?,
        },
        "take" => Step::Take {
            queue: shared.queue(node)?,
        },
        "mark" => mark(node)?,
        "exec" => Step::Exec,
        "fork" => Step::Fork(context.directory.first(node)?),
        "poll" => poll(node, context)?,
        "join" => Step::Join(shared.joined(node)?),
        "reserve" => Step::Rates(rates::reserve(node, context)?),
        "release" => Step::Rates(rates::release(context)),
        "lend" => Step::Rates(rates::lend(node, context)?),
        "recollect" => Step::Rates(rates::recollect(node, context)?),
        "leave" => Step::Leave,
        "migrate_disable" => Step::MigrateDisable,
        "migrate_enable" => Step::MigrateEnable,
        _ => Step::Exit(length(node)?),
    });
    Ok(())
}

/// The number of a condition that somebody waits for.
fn wakes(node: &Node<'_>, shared: &mut Shared) -> Result<u32, BadScenario> {
    let name = node.text()?;
    Ok(shared.wakes(name, || {
        node.error(format!(
            "is {name:?}, expected a condition that a task waits for"
        ))
    }))
}

fn locked(lock: u32, step: Step) -> [Step; 3] {
    [Step::Lock(lock), step, Step::Unlock(lock)]
}

/// A lock's name, or an object with it and how long to wait.
fn lock(node: &Node<'_>, shared: &mut Shared) -> Result<Step, BadScenario> {
    if !node.is_object() {
        return Ok(Step::Lock(shared.locks.number(node.text()?)));
    }
    let fields = node.fields()?;
    let lock = fields.need("ref", "a lock's name")?.text()?;
    let timeout = length(&fields.need("timeout", "a time")?)?;
    fields.finish()?;
    Ok(Step::LockFor {
        lock: shared.locks.number(lock),
        timeout,
    })
}

/// The number of a timer, and its period.
fn timer_of(
    fields: &Fields<'_>,
    ref_key: &str,
    context: &mut Context<'_>,
) -> Result<(u32, u64), BadScenario> {
    let name = fields
        .need(ref_key, "a timer's name, such as \"unique\"")?
        .text()?;
    let number = if name.starts_with(UNIQUE) {
        let own = format!("{name}/{}/{}", context.task, context.instance);
        context.shared.timers.number(&own)
    } else {
        context.shared.timers.number(name)
    };
    let period = fields.need("period", "a time")?;
    match time_ns(&period)? {
        0 => Err(period.error("is 0, expected more")),
        period_ns => Ok((number, period_ns)),
    }
}

/// Whether a miss leaves the timer's multiples where they are.
fn is_absolute(fields: &Fields<'_>) -> Result<bool, BadScenario> {
    match fields.get("mode") {
        Some(mode) => mode.choice(&[("relative", false), ("absolute", true)]),
        None => Ok(false),
    }
}

fn timer(node: &Node<'_>, context: &mut Context<'_>) -> Result<Step, BadScenario> {
    let fields = node.fields()?;
    let (timer, period_ns) = timer_of(&fields, "ref", context)?;
    let absolute = is_absolute(&fields)?;
    fields.finish()?;
    Ok(Step::Timer {
        timer,
        period_ns,
        absolute,
    })
}

fn mark(node: &Node<'_>) -> Result<Step, BadScenario> {
    let fields = node.fields()?;
    let first_ns = match fields.get("first") {
        Some(node) => time_ns(&node)?,
        None => 0,
    };
    let period = fields.need("period", "a time")?;
    let period_ns = time_ns(&period)?;
    fields.finish()?;
    Ok(Step::Mark {
        first_ns,
        period_ns,
    })
}

/// The wait, and the numbers of its condition and lock.
fn wait(node: &Node<'_>, shared: &mut Shared) -> Result<(Step, u32, u32), BadScenario> {
    let fields = node.fields()?;
    let condition = fields.need("ref", "a condition's name")?.text()?;
    let lock = fields.need("mutex", "a lock's name")?.text()?;
    fields.finish()?;
    let (condition, lock) = (shared.waits(condition), shared.locks.number(lock));
    Ok((Step::Wait { condition, lock }, condition, lock))
}

/// Signals and waits. rt-app's tutorial says that it takes the lock for that; its examples have taken it before.
fn sync(node: &Node<'_>, shared: &mut Shared, steps: &mut Vec<Step>) -> Result<(), BadScenario> {
    let (wait, condition, lock) = wait(node, shared)?;
    if holds(steps, lock) {
        steps.extend([Step::Signal(condition), wait]);
    } else {
        steps.extend([
            Step::Lock(lock),
            Step::Signal(condition),
            wait,
            Step::Unlock(lock),
        ]);
    }
    Ok(())
}

/// Whether the lock was taken by the steps so far, and not given back.
fn holds(steps: &[Step], lock: u32) -> bool {
    let held = |step: &Step| match step {
        Step::Lock(it) | Step::LockFor { lock: it, .. } => (*it == lock).then_some(true),
        Step::Unlock(it) => (*it == lock).then_some(false),
        _ => None,
    };
    steps.iter().rev().find_map(held).unwrap_or(false)
}

fn poll(node: &Node<'_>, context: &mut Context<'_>) -> Result<Step, BadScenario> {
    if !node.is_object() {
        return Ok(Step::Poll {
            due: due(node, context)?,
            best_effort: None,
        });
    }
    let fields = node.fields()?;
    let due = match fields.get("due") {
        Some(node) => due(&node, context)?,
        None => Due::Never,
    };
    let key = fields
        .get("key")
        .map(|node| node.whole(0..=i64::MAX))
        .transpose()?;
    let best_effort = match fields.get("priority") {
        Some(node) => Some((
            node.whole(0..=i64::from(i32::MAX))? as u32,
            key.unwrap_or(0).unsigned_abs(),
        )),
        None => None,
    };
    fields.finish()?;
    match (&due, best_effort, key) {
        (_, None, Some(_)) => Err(node.error("has a \"key\" and no \"priority\", expected both")),
        (Due::Never, None, _) => Err(node
            .error("asks for nothing, expected \"due\" or \"priority\": it would sleep for ever")),
        _ => Ok(Step::Poll { due, best_effort }),
    }
}

fn due(node: &Node<'_>, context: &mut Context<'_>) -> Result<Due, BadScenario> {
    if node.is_text() && node.text()? == "never" {
        return Ok(Due::Never);
    }
    if !node.is_object() {
        return length(node).map(Due::In);
    }
    let fields = node.fields()?;
    if let Some(raw) = fields.get("raw") {
        fields.finish()?;
        return Ok(Due::Raw(raw.whole(0..=i64::MAX)?.unsigned_abs()));
    }
    if fields.get("timer").is_none() {
        return length(node).map(Due::In);
    }
    let (timer, period_ns) = timer_of(&fields, "timer", context)?;
    let absolute = is_absolute(&fields)?;
    fields.finish()?;
    Ok(Due::Timer {
        timer,
        period_ns,
        absolute,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_events_are_events() {
        for (key, event) in [
            ("run", Some("run")),
            ("run2", Some("run")),
            ("run_b", Some("run")),
            ("runtime", Some("runtime")),
            ("runtime-1", Some("runtime")),
            ("unlock0", Some("unlock")),
            ("migrate_disable", Some("migrate_disable")),
            ("runner", None),
            ("ru", None),
        ] {
            assert_eq!(event_of(key, &EVENTS), event, "{key}");
        }
    }
}
