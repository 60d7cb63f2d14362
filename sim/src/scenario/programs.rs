// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ready-made programs: the adaptive player, hogs, and members that break the contract.

use super::{
    error::BadScenario,
    json::{Fields, Node},
    tasks::World,
    times::time_ns,
};
use crate::{
    random::Random,
    setup::{DomainIndex, Player, Program},
};

const FRAME_PERIOD_NS: f64 = 1e9 / 24.0;
/// The load of baseline measurements: six players just fit one CPU.
const DEFAULT_LOAD: f64 = 1.0 / 6.5;
const DEFAULT_CHUNK_NS: u64 = 1_000_000;
/// How long a liar works between polls.
const DEFAULT_WORK_NS: u64 = 1_000_000;
/// Phases are spread evenly, and moved from there by up to this part of the gap, by the seed.
const PHASE_JITTER: f64 = 0.25;
/// Keys of programs, of which a task has one at most.
const KINDS: [&str; 5] = ["hog", "player", "mute_liar", "polite_liar", "garbage"];

/// A program for each instance; none if the task says none, and has events of its own.
pub fn read(
    fields: &Fields<'_>,
    instances: u32,
    start_ns: u64,
    world: &mut World<'_>,
) -> Result<Option<Vec<Program>>, BadScenario> {
    let mut found = KINDS
        .iter()
        .filter_map(|kind| Some((*kind, fields.get(kind)?)));
    let Some((kind, node)) = found.next() else {
        return Ok(None);
    };
    if let Some((other, node)) = found.next() {
        return Err(node.error(format!(
            "stands beside {kind:?}, expected one program for a task: {kind} or {other}"
        )));
    }
    fields.finish()?;
    let all = |program| Ok(Some(vec![program; instances as usize]));
    match kind {
        "hog" => all(hog(&node)?),
        "player" => players(&node.fields()?, instances, start_ns, world).map(Some),
        "mute_liar" => all(Program::MuteLiar {
            domain: world.shared.joined(&node)?,
        }),
        "polite_liar" => {
            let (domain, work_ns) = liar(&node, world)?;
            all(Program::PoliteLiar { domain, work_ns })
        }
        _ => {
            let (domain, work_ns) = liar(&node, world)?;
            all(Program::Garbage { domain, work_ns })
        }
    }
}

fn hog(node: &Node<'_>) -> Result<Program, BadScenario> {
    if node.truth()? {
        return Ok(Program::Hog);
    }
    Err(node.error("is false, expected true, or events instead"))
}

/// A domain's name, or an object with it and the time between polls.
fn liar(node: &Node<'_>, world: &mut World<'_>) -> Result<(DomainIndex, u64), BadScenario> {
    if node.is_text() {
        return Ok((world.shared.joined(node)?, DEFAULT_WORK_NS));
    }
    let fields = node.fields()?;
    let domain = fields.need("domain", "a domain's name")?;
    let work_ns = match fields.get("work") {
        Some(work) => positive_ns(&work)?,
        None => DEFAULT_WORK_NS,
    };
    fields.finish()?;
    Ok((world.shared.joined(&domain)?, work_ns))
}

fn positive_ns(node: &Node<'_>) -> Result<u64, BadScenario> {
    match time_ns(node)? {
        0 => Err(node.error("is 0, expected more")),
        ns => Ok(ns),
    }
}

/// Players whose films and phases differ, spread like those of the experiments in guests.
fn players(
    fields: &Fields<'_>,
    instances: u32,
    start_ns: u64,
    world: &mut World<'_>,
) -> Result<Vec<Program>, BadScenario> {
    let (low, high) = match fields.get("load") {
        Some(node) => loads(&node)?,
        None => (DEFAULT_LOAD, DEFAULT_LOAD),
    };
    let chunk_ns = match fields.get("chunk") {
        Some(node) => positive_ns(&node)?,
        None => DEFAULT_CHUNK_NS,
    };
    let domain = match fields.get("domain") {
        Some(node) => Some(world.shared.joined(&node)?),
        None => None,
    };
    let seed = match fields.get("seed") {
        Some(node) => node.whole(0..=i64::MAX)?.unsigned_abs(),
        None => world.seed,
    };
    fields.finish()?;
    let mut random = Random::new(seed);
    let gap_ns = FRAME_PERIOD_NS / f64::from(instances);
    let player = |index: u32| {
        let jitter = (random.unit() * 2.0 - 1.0) * PHASE_JITTER;
        let phase_ns = (f64::from(index) + 1.0 + jitter) * gap_ns;
        let place = f64::from(index) / f64::from(instances.max(2) - 1);
        Program::Player(Player {
            seed: random.next_u64(),
            load: low + (high - low) * place,
            chunk_ns,
            first_due_ns: start_ns + (FRAME_PERIOD_NS + phase_ns) as u64,
            domain,
        })
    };
    Ok((0..instances).map(player).collect())
}

/// One load for all instances, or the first's and the last's.
fn loads(node: &Node<'_>) -> Result<(f64, f64), BadScenario> {
    const LOADS: std::ops::RangeInclusive<f64> = 0.001..=10.0;
    if !node.is_list() {
        let load = node.number(LOADS)?;
        return Ok((load, load));
    }
    let ends = node.list()?;
    let [first, last] = ends.as_slice() else {
        return Err(node.error(format!(
            "has {} entries, expected two: the load of the first and of the last instance",
            ends.len()
        )));
    };
    Ok((first.number(LOADS)?, last.number(LOADS)?))
}
