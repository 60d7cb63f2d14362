// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small workloads that each measure one thing.

mod casualties;
mod domain_switch;
mod hackbench;
mod hogs;
mod massive_intr;
mod memory;
mod pipe;
mod poll_cost;
mod soak;
mod state_publish;
mod stress;
mod trace_event;
mod wake;
pub mod yielders;

use crate::error::Error;
use clap::Subcommand;
use serde::Serialize;
use serde_json::Value;

#[derive(Subcommand)]
pub enum Micro {
    /// CPU hogs of given nice levels and cpu.weight: shares, their error, switches
    Hogs(hogs::Options),
    /// Processes that yield to each other: us per switch
    Yielders(yielders::Options),
    /// Two processes and two pipes: us per round trip
    Pipe(pipe::Options),
    /// Many senders and receivers, as in rt-tests: time to the end
    Hackbench(hackbench::Options),
    /// Many processes that work 8 ms and sleep 1 ms: spread of their progress
    MassiveIntr(massive_intr::Options),
    /// Members of one domain that each give way at every poll: us per switch
    DomainSwitch(domain_switch::Options),
    /// Members at user level, of which one after the other is killed or stopped: how long nobody has a turn
    Casualties(casualties::Options),
    /// A member alone: instructions of a poll when nobody else wants the CPU
    PollCost(poll_cost::Options),
    /// Memory that the kernel spends on threads, programs or members
    Memory(memory::Options),
    /// What telling a decision function something costs a thread, in ns of this machine
    StatePublish(state_publish::Options),
    /// Minutes of stress-ng, cgroups and CPUs that come and go: how often the scheduler was thrown out
    Soak(soak::Options),
    /// One of stress-ng's stressors: operations a second
    Stress(stress::Options),
    /// What a program's own event costs it under `consort trace record`, in ns of this machine
    TraceEvent(trace_event::Options),
    /// Sleeps beside hogs: how late the wake-up is
    Wake(wake::Options),
}

pub fn run(workload: Micro) -> Result<Value, Error> {
    match workload {
        Micro::Hogs(options) => json(hogs::run(options)?),
        Micro::Yielders(options) => json(yielders::run(options)?),
        Micro::Pipe(options) => json(pipe::run(options)?),
        Micro::Hackbench(options) => json(hackbench::run(options)?),
        Micro::MassiveIntr(options) => json(massive_intr::run(options)?),
        Micro::DomainSwitch(options) => json(domain_switch::run(options)?),
        Micro::Casualties(options) => json(casualties::run(options)?),
        Micro::PollCost(options) => json(poll_cost::run(options)?),
        Micro::Memory(options) => json(memory::run(options)?),
        Micro::StatePublish(options) => json(state_publish::run(options)?),
        Micro::Soak(options) => json(soak::run(options)?),
        Micro::Stress(options) => json(stress::run(options)?),
        Micro::TraceEvent(options) => json(trace_event::run(options)?),
        Micro::Wake(options) => json(wake::run(options)?),
    }
}

fn json(result: impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(result).map_err(Error::Json)
}
