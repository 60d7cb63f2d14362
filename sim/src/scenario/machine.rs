// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine: CPUs and how they hang together, the kernel, what things cost.

use super::{error::BadScenario, json::Fields, times::time_ns};
use crate::setup::{Costs, Kernel, Machine, Tunables};

/// The most CPUs that are simulated.
const CPUS_MAX: u32 = 1024;

pub const KERNELS: [(&str, Kernel); 2] = [("6.18", Kernel::V6_18), ("7.2", Kernel::V7_2)];

/// `"machine"`; without it, one CPU and the newest kernel.
pub fn machine(fields: Option<&Fields<'_>>) -> Result<(Machine, Costs), BadScenario> {
    let Some(fields) = fields else {
        return Ok((Machine::simple(1, 1, Kernel::V7_2), Costs::default()));
    };
    let cpus = count(fields, "cpus", CPUS_MAX)?;
    let possible = possible(fields, cpus)?;
    let threads = divisor(fields, "smt", cpus, "CPUs")?;
    let llcs = divisor(fields, "llc", cpus, "CPUs")?;
    let nodes = divisor(fields, "numa", cpus, "CPUs")?;
    if !(cpus / llcs).is_multiple_of(threads) {
        return Err(fields.node().error(format!(
            "has cores of {threads} threads and caches of {} CPUs, expected whole cores in each cache",
            cpus / llcs
        )));
    }
    let kernel = match fields.get("kernel") {
        Some(node) => node.choice(&KERNELS)?,
        None => Kernel::V7_2,
    };
    let costs = match fields.get("costs") {
        Some(node) => costs(&node.fields()?)?,
        None => Costs::default(),
    };
    let is_virtual = match fields.get("virtual") {
        Some(node) => node.truth()?,
        None => false,
    };
    fields.finish()?;
    // Linux does not tell the cache and the node of a CPU that was never there: it is taken for one of the first.
    let shared = |per_part: u32| {
        let part = |cpu| if cpu < cpus { cpu / per_part } else { 0 };
        (0..possible).map(part).collect()
    };
    let machine = Machine {
        llc_of: shared(cpus / llcs),
        core_of: (0..possible).map(|cpu| cpu / threads).collect(),
        node_of: shared(cpus / nodes),
        offline: (cpus..possible).collect(),
        is_virtual,
        kernel,
    };
    Ok((machine, costs))
}

/// `"possible"`: the CPUs that there may be, of which only the first `cpus` are online.
fn possible(fields: &Fields<'_>, cpus: u32) -> Result<u32, BadScenario> {
    match fields.get("possible") {
        Some(node) => Ok(node.whole(i64::from(cpus)..=i64::from(CPUS_MAX))? as u32),
        None => Ok(cpus),
    }
}

fn count(fields: &Fields<'_>, key: &str, max: u32) -> Result<u32, BadScenario> {
    match fields.get(key) {
        Some(node) => Ok(node.whole(1..=i64::from(max))? as u32),
        None => Ok(1),
    }
}

/// A number that divides `whole`.
fn divisor(fields: &Fields<'_>, key: &str, whole: u32, of: &str) -> Result<u32, BadScenario> {
    let part = count(fields, key, whole)?;
    match fields.get(key) {
        Some(node) if !whole.is_multiple_of(part) => Err(node.error(format!(
            "is {part}, expected a number that divides the {whole} {of}"
        ))),
        _ => Ok(part),
    }
}

fn costs(fields: &Fields<'_>) -> Result<Costs, BadScenario> {
    let mut costs = Costs::default();
    let entries = [
        ("syscall", &mut costs.syscall_ns),
        ("schedule", &mut costs.schedule_ns),
        ("switch", &mut costs.switch_ns),
        ("callback", &mut costs.callback_ns),
        ("wake", &mut costs.wake_ns),
        ("interrupt", &mut costs.interrupt_ns),
        ("ipi", &mut costs.ipi_ns),
        ("timer_late", &mut costs.timer_late_ns),
        ("tick_period", &mut costs.tick_period_ns),
        ("tick", &mut costs.tick_ns),
        ("cold", &mut costs.cold_ns),
    ];
    for (key, cost_ns) in entries {
        if let Some(node) = fields.get(key) {
            *cost_ns = time_ns(&node)?;
        }
    }
    fields.finish()?;
    Ok(costs)
}

/// `"tunables"`, of the scenario or of an action.
pub fn tunables(fields: &Fields<'_>) -> Result<Tunables, BadScenario> {
    let time = |key| fields.get(key).map(|node| time_ns(&node)).transpose();
    let tunables = Tunables {
        granularity_ns: time("granularity")?,
        min_slice_ns: time("min_slice")?,
        window_ns: time("window")?,
    };
    fields.finish()?;
    Ok(tunables)
}
