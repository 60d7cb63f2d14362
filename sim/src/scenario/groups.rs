// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said of cgroups and of domains beside their names.

use super::{error::BadScenario, json::Fields, names::Shared, times::time_ns};

/// `enum consort_order` of the shared layout, by name.
const ORDERS: [(&str, u32); 3] = [("program", 0), ("progress", 1), ("service", 2)];
/// CONSORT_EVENT_MIN_NS and CONSORT_EVENT_MAX_NS of the shared layout.
const EVENT_NS: std::ops::RangeInclusive<u64> = 10_000..=2_000_000;
const NAME_MAX: usize = 63;

/// `"cgroups"`: paths and their weights.
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
        inner.finish()?;
    }
    Ok(())
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
