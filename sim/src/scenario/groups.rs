// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said of cgroups and of domains beside their names.

use super::error::BadScenario;
use super::json::{Fields, Node};
use super::names::Shared;
use super::times::time_ns;
use crate::setup::Limit;

/// `enum consort_order` of the shared layout, by name.
const ORDERS: [(&str, u32); 3] = [("program", 0), ("progress", 1), ("service", 2)];
/// CONSORT_EVENT_MIN_NS and CONSORT_EVENT_MAX_NS of the shared layout.
const EVENT_NS: std::ops::RangeInclusive<u64> = 10_000..=2_000_000;
const NAME_MAX: usize = 63;
/// What the kernel takes for cpu.max, and the period that it has where none is said.
const LEAST_NS: u64 = 1_000_000;
const PERIOD_MAX_NS: u64 = 1_000_000_000;
const PERIOD_NS: u64 = 100_000_000;

/// `"cgroups"`: paths, their weights and limits.
pub fn cgroups(fields: &Fields<'_>, shared: &mut Shared) -> Result<(), BadScenario> {
    for field in fields.entries() {
        let group = shared.cgroup(&field.key);
        if group == 0 {
            return Err(
                field.key_error("is the root, which has no weight: expected a path below it")
            );
        }
        let inner = field.node.fields()?;
        if let Some(weight) = inner.get("weight") {
            shared.cgroups[group].weight = weight.whole(1..=10_000)? as u32;
        }
        if let Some(max) = inner.get("max") {
            shared.cgroups[group].max = limit(&max)?;
        }
        inner.finish()?;
    }
    Ok(())
}

/// `"max"`: the word `max`, or a quota and what else cpu.max and cpu.max.burst have.
pub fn limit(node: &Node<'_>) -> Result<Option<Limit>, BadScenario> {
    if let Ok(text) = node.text() {
        return match text {
            "max" => Ok(None),
            _ => Err(node.error(format!(
                "is {}, expected max, or a quota and a period",
                node.shown()
            ))),
        };
    }
    let fields = node.fields()?;
    let quota = fields.need("quota", "the CPU time of each period")?;
    let quota_ns = time_ns(&quota)?;
    if quota_ns < LEAST_NS {
        return Err(quota.error(format!("is {}, expected 1ms or more", quota.shown())));
    }
    let period_ns = match fields.get("period") {
        Some(period) => {
            let period_ns = time_ns(&period)?;
            if !(LEAST_NS..=PERIOD_MAX_NS).contains(&period_ns) {
                return Err(period.error(format!("is {}, expected 1ms to 1s", period.shown())));
            }
            period_ns
        }
        None => PERIOD_NS,
    };
    let burst_ns = match fields.get("burst") {
        Some(burst) => {
            let burst_ns = time_ns(&burst)?;
            if burst_ns > quota_ns {
                return Err(burst.error(format!(
                    "is {}, expected no more than the quota",
                    burst.shown()
                )));
            }
            burst_ns
        }
        None => 0,
    };
    fields.finish()?;
    Ok(Some(Limit {
        quota_ns,
        period_ns,
        burst_ns,
    }))
}

/// `"domains"`: names and the options of their creation.
pub fn domains(fields: &Fields<'_>, shared: &mut Shared) -> Result<(), BadScenario> {
    shared.domains_are_listed = !fields.entries().is_empty();
    for field in fields.entries() {
        if field.key.is_empty() || field.key.len() > NAME_MAX {
            return Err(field.key_error(format!(
                "has {} bytes, expected a name of 1 to {NAME_MAX}",
                field.key.len()
            )));
        }
        let domain = shared.domain(&field.key);
        let inner = field.node.fields()?;
        if let Some(event) = inner.get("event") {
            let event_ns = time_ns(&event)?;
            if !EVENT_NS.contains(&event_ns) {
                return Err(event.error(format!("is {}, expected 10us to 2ms", event.shown())));
            }
            shared.domains[domain].event_ns = event_ns;
        }
        if let Some(order) = inner.get("order") {
            shared.domains[domain].order = order.choice(&ORDERS)?;
        }
        if let Some(preempt) = inner.get("preempt") {
            shared.domains[domain].preempt = preempt.truth()?;
        }
        inner.finish()?;
    }
    Ok(())
}
