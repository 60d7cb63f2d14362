// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said of locks beside their names.

use super::{error::BadScenario, json::Fields, names::Shared};

/// The locks that inherit: those of which `"locks"` says so; with `all` those of which it does not say otherwise.
/// To be called when all tasks are known.
///
/// # Errors
/// Something is said of a lock that no task takes: a slip in the name.
pub fn pi_locks(
    fields: Option<&Fields<'_>>,
    all: bool,
    shared: &Shared,
) -> Result<Vec<u32>, BadScenario> {
    let mut locks: Vec<u32> = shared.locks.all().filter(|_| all).collect();
    for field in fields.into_iter().flat_map(|fields| fields.entries()) {
        let Some(lock) = shared.locks.known(&field.key) else {
            return Err(field.key_error("is a lock that no task takes, expected one of a task's"));
        };
        let inner = field.node.fields()?;
        if let Some(inherit) = inner.get("inherit") {
            locks.retain(|it| *it != lock);
            locks.extend(inherit.truth()?.then_some(lock));
        }
        inner.finish()?;
    }
    locks.sort_unstable();
    Ok(locks)
}
