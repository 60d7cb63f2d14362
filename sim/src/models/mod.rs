// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other schedulers to compare with, as models.

mod eevdf;
mod fair_queue;
mod fair_tree;
mod rate_controlled;
mod rr;
#[cfg(test)]
mod tests;
mod weights;

use crate::{ffi::SCX_KICK_IDLE, kernel::Kernel, setup::Cpu, trace::TaskId};

pub use eevdf::Eevdf;
pub use rate_controlled::{Algorithm, RateControlled};
pub use rr::RoundRobin;

/// A task waits on a busy CPU: an idle one where it may run is told to look for work.
fn tell_idle(k: &mut Kernel, task: TaskId) {
    if let Some(idle) = k.pick_idle_cpu_for(task) {
        k.kick(idle, u64::from(SCX_KICK_IDLE));
    }
}

/// The CPU time that a task, whose CPU this is, has had until now.
fn runtime_ns(k: &Kernel, task: TaskId, cpu: Cpu) -> u64 {
    let counted_ns = k.runtime_ns(task);
    match k.current(cpu) == Some(task) {
        true => counted_ns + k.now_ns() - k.cpus[cpu as usize].exec_start_ns.min(k.now_ns()),
        false => counted_ns,
    }
}
