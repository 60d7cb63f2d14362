// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens from outside: CPUs that go, administrators, signals; and what goes wrong.

use super::{
    error::BadScenario,
    groups::limit,
    json::{Fields, Node},
    machine::tunables,
    properties::{cpu, cpu_list},
    tasks::World,
    times::time_ns,
};
use crate::setup::{Action, ActionKind, Faults};

/// `"actions"`: a list of objects with `"at"` and one thing that happens.
pub fn actions(node: &Node<'_>, world: &mut World<'_>) -> Result<Vec<Action>, BadScenario> {
    let mut all = Vec::new();
    for entry in node.list()? {
        let fields = entry.fields()?;
        let at_ns = time_ns(&fields.need("at", "a time")?)?;
        let kinds = one(&entry, &fields, world)?;
        fields.finish()?;
        all.extend(kinds.into_iter().map(|what| Action { at_ns, what }));
    }
    Ok(all)
}

/// What one object says, once for each instance of the task that it names.
fn one(
    entry: &Node<'_>,
    fields: &Fields<'_>,
    world: &mut World<'_>,
) -> Result<Vec<ActionKind>, BadScenario> {
    const KINDS: [&str; 10] = [
        "cpu_offline",
        "cpu_online",
        "nice",
        "cpus",
        "taskgroup",
        "cgroup_weight",
        "cgroup_max",
        "kill",
        "tunables",
        "daemon_dies",
    ];
    let mut found = KINDS
        .iter()
        .filter_map(|kind| Some((*kind, fields.get(kind)?)));
    let (Some((kind, node)), None) = (found.next(), found.next()) else {
        return Err(entry.error(format!("says not exactly one of: {}", KINDS.join(", "))));
    };
    match kind {
        "cpu_offline" => Ok(vec![ActionKind::CpuOffline(cpu(&node, world.cpus)?)]),
        "cpu_online" => Ok(vec![ActionKind::CpuOnline(cpu(&node, world.cpus)?)]),
        "tunables" => Ok(vec![ActionKind::Tunables(tunables(&node.fields()?)?)]),
        "daemon_dies" => {
            let back_after_ns = match node.text() {
                Ok("never") => None,
                _ => Some(time_ns(&node)?),
            };
            Ok(vec![ActionKind::DaemonDies { back_after_ns }])
        }
        "cgroup_weight" => {
            let cgroup = world
                .shared
                .cgroup(fields.need("cgroup", "a path")?.text()?);
            let weight = node.whole(1..=10_000)? as u32;
            Ok(vec![ActionKind::CgroupWeight { cgroup, weight }])
        }
        "cgroup_max" => {
            let path = fields.need("cgroup", "a path")?;
            let cgroup = world.shared.cgroup(path.text()?);
            if cgroup == 0 {
                return Err(path.error("is the root, which has no limit: expected a path below it"));
            }
            let max = limit(&node)?;
            Ok(vec![ActionKind::CgroupMax { cgroup, max }])
        }
        "kill" => {
            let tasks = world.directory.all(&node)?;
            Ok(tasks.map(|task| ActionKind::Kill { task }).collect())
        }
        _ => to_tasks(kind, &node, fields, world),
    }
}

fn to_tasks(
    kind: &str,
    node: &Node<'_>,
    fields: &Fields<'_>,
    world: &mut World<'_>,
) -> Result<Vec<ActionKind>, BadScenario> {
    let mut tasks = world
        .directory
        .all(&fields.need("task", "a task's name")?)?;
    Ok(match kind {
        "nice" => {
            let nice = node.whole(-20..=19)? as i32;
            tasks.map(|task| ActionKind::Nice { task, nice }).collect()
        }
        "cpus" => {
            let cpus = cpu_list(node, world.cpus)?;
            let kind = |task| ActionKind::Affinity {
                task,
                cpus: cpus.clone(),
            };
            tasks.by_ref().map(kind).collect()
        }
        _ => {
            let cgroup = world.shared.cgroup(node.text()?);
            let kind = |task| ActionKind::MoveToCgroup { task, cgroup };
            tasks.by_ref().map(kind).collect()
        }
    })
}

/// `"faults"`: probabilities.
pub fn faults(fields: &Fields<'_>) -> Result<Faults, BadScenario> {
    let part = |key| match fields.get(key) {
        Some(node) => node.number(0.0..=1.0),
        None => Ok(0.0),
    };
    let faults = Faults {
        allocation: part("allocation")?,
        lookup: part("lookup")?,
        timer_late: part("timer_late")?,
        timer_fails: part("timer_fails")?,
        pause: part("pause")?,
    };
    fields.finish()?;
    Ok(faults)
}
