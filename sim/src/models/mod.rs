// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other schedulers to compare with, as models.

mod eevdf;
mod fair_queue;
mod rr;
#[cfg(test)]
mod tests;
mod weights;

use crate::{ffi::SCX_KICK_IDLE, kernel::Kernel, trace::TaskId};

pub use eevdf::Eevdf;
pub use rr::RoundRobin;

/// A task waits on a busy CPU: an idle one where it may run is told to look for work.
fn tell_idle(k: &mut Kernel, task: TaskId) {
    if let Some(idle) = k.pick_idle_cpu_for(task) {
        k.kick(idle, u64::from(SCX_KICK_IDLE));
    }
}
