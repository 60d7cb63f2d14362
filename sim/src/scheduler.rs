// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a scheduler is to the model of the kernel: sched_ext's callbacks. Consort's own BPF program is one
//! ([`crate::consort`]), models of others may be more.

use crate::error::Error;
use crate::ffi::{consort_chosen, consort_demoted, consort_slot, consort_variables};
use crate::groups::{RoleTotal, Told};
use crate::kernel::Kernel;
use crate::rates::RateRequest;
use crate::setup::{Call, Cpu, Tunables};
use crate::trace::{TaskId, Violation};

/// Callbacks come from any CPU; a scheduler must not keep anything across a call of the kernel that it could not
/// keep across a pause.
pub trait Scheduler {
    fn name(&self) -> &'static str;

    /// Before the first task exists.
    ///
    /// # Errors
    /// What the scheduler cannot do on this machine.
    fn begin(&mut self, _k: &mut Kernel) -> Result<(), Error> {
        Ok(())
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev_cpu: Cpu, wake_flags: u64) -> Cpu;
    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, flags: u64);
    /// Whether tasks that end are enqueued as all others are; else the kernel has them run on by itself.
    fn takes_ending(&self) -> bool {
        true
    }
    /// `prev` has run until now, and goes on to if `k.is_queued(prev)`.
    fn dispatch(&mut self, k: &mut Kernel, cpu: Cpu, prev: Option<TaskId>);
    /// A waiting task is taken away. Consort has no such callback.
    fn dequeue(&mut self, _k: &mut Kernel, _task: TaskId, _flags: u64) {}
    fn quiescent(&mut self, _k: &mut Kernel, _task: TaskId, _flags: u64) {}
    fn tick(&mut self, _k: &mut Kernel, _cpu: Cpu, _task: TaskId) {}
    /// A timer that was started with [`Kernel::start_timer`].
    fn timer(&mut self, _k: &mut Kernel, _number: u32) {}
    fn set_weight(&mut self, _k: &mut Kernel, _task: TaskId) {}
    fn cgroup_move(&mut self, _k: &mut Kernel, _task: TaskId, _from: usize, _to: usize) {}
    fn cgroup_set_weight(&mut self, _k: &mut Kernel, _cgroup: usize, _weight: u32) {}
    /// Another limit, or none: [`Kernel::limit_us`].
    fn cgroup_set_limit(&mut self, _k: &mut Kernel, _cgroup: usize) {}
    /// Whether a task that has run, and that dispatch has neither kept nor replaced, is enqueued; else it runs on.
    fn takes_last(&self) -> bool {
        false
    }
    /// False: no memory for one more.
    fn init_task(&mut self, _k: &mut Kernel, _task: TaskId) -> bool {
        true
    }
    fn enable(&mut self, _k: &mut Kernel, _task: TaskId) {}
    fn disable(&mut self, _k: &mut Kernel, _task: TaskId) {}
    fn exit_task(&mut self, _k: &mut Kernel, _task: TaskId) {}
    fn cpu_online(&mut self, _k: &mut Kernel, _cpu: Cpu) {}
    fn cpu_offline(&mut self, _k: &mut Kernel, _cpu: Cpu) {}
    fn cpu_release(&mut self, k: &mut Kernel, _cpu: Cpu) {
        k.reenqueue_local();
    }

    // ---- what Consort has, and others do not ----

    /// The daemon lets a task into a domain; false: refused, or there are no domains.
    fn join(&mut self, _k: &mut Kernel, _task: TaskId, _domain: usize) -> bool {
        false
    }
    /// The domain that was left.
    fn leave(&mut self, _k: &mut Kernel, _task: TaskId) -> Option<usize> {
        None
    }
    /// A task exists, and has not run yet.
    fn begin_task(&mut self, _k: &mut Kernel, _task: TaskId) {}
    /// The daemon is asked for a rate. Schedulers without reservations do nothing.
    ///
    /// # Errors
    /// Why it is not granted.
    fn ask_rate(
        &mut self,
        _k: &mut Kernel,
        _task: TaskId,
        _request: RateRequest,
    ) -> Result<(), String> {
        Ok(())
    }
    /// The program has gone.
    fn forget_client(&mut self, _k: &mut Kernel, _task: TaskId) {}
    /// The member's slot, and whether its domain orders by the keys that programs publish.
    fn slot(&mut self, _task: TaskId) -> Option<(*mut consort_slot, bool)> {
        None
    }
    /// What a thread and its group's function tell each other; none: it publishes nothing.
    fn words(&mut self, _task: TaskId) -> Option<*mut consort_variables> {
        None
    }
    /// What became of the intervals of groups' roles until now.
    fn role_totals(&mut self, _k: &mut Kernel) -> Vec<RoleTotal> {
        Vec::new()
    }
    fn call(&mut self, _k: &mut Kernel, _call: &Call) {}
    /// What a CPU was told to run last, and why.
    fn chosen(&self, _cpu: Cpu) -> consort_chosen {
        consort_chosen::default()
    }
    /// The member that was demoted last on a CPU.
    fn demoted(&self, _cpu: Cpu) -> consort_demoted {
        consort_demoted::default()
    }
    /// What became of roles' intervals, found on a CPU since there were `seen`.
    fn told(&self, _cpu: Cpu, _seen: u64) -> Told {
        Told::default()
    }
    fn set_tunables(&mut self, _tunables: Tunables) {}
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    /// Rules of its own that are broken right now; called while no callback runs.
    fn check(&mut self, _k: &mut Kernel) -> Option<Violation> {
        None
    }
    /// The scheduler is taken away while tasks go on; `begin` brings it back.
    fn detach(&mut self, _k: &mut Kernel) {}
    /// After the last task has gone: rules of what must have been given back.
    fn end(&mut self, _k: &mut Kernel) -> Option<Violation> {
        None
    }
    /// Its own words about its state, for a violation's report.
    fn dump(&mut self, _k: &mut Kernel) -> Vec<String> {
        Vec::new()
    }
}
