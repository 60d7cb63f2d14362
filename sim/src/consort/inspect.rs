// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler's state, looked at from outside: rules that it breaks, and its own words about itself.

use super::{host, Consort, COUNTERS};
use crate::ffi::{self, sim_finding};
use crate::kernel::{Custody, Kernel, Life, Task, NEVER_NS};
use crate::setup::Setup;
use crate::trace::{TaskId, Violation};

/// By how much a timer is late by a fault, and a CPU that pauses where it must not.
const LATE_NS: u64 = 500_000;
const FAULT_LATE_NS: u64 = 3_200_000;
const PAUSED_NS: u64 = 8_000_000;

pub(super) fn bounds_of(setup: &Setup) -> ffi::sim_bounds {
    let mut late_ns = LATE_NS;
    if setup.faults.timer_late > 0.0 {
        late_ns += FAULT_LATE_NS;
    }
    if setup.faults.timer_fails > 0.0 {
        // Without timers slices end at the tick.
        late_ns += setup.costs.tick_period_ns;
    }
    if setup.machine.cpus() > 1 && setup.faults.pause > 0.0 {
        late_ns += PAUSED_NS;
    }
    ffi::sim_bounds {
        weights_stay: setup.weights_stay(),
        cpus_stay: setup.cpus_stay(),
        seats_stay: setup.pi_locks.is_empty(),
        late_ns,
    }
}

impl Consort {
    /// The scheduler's counters, summed over all CPUs.
    pub(super) fn count_over_cpus(&self) -> Vec<(&'static str, u64)> {
        let each = self.scheduler.counters_per_cpu as usize;
        let first = self.scheduler.counters.cast::<u64>();
        let sum = |number: usize| {
            (0..self.nr_cpus as usize)
                // SAFETY: an array of `counters_per_cpu` numbers for each CPU.
                .map(|cpu| unsafe { *first.add(cpu * each + number) })
                .sum()
        };
        let numbers = COUNTERS.iter().take(each).enumerate();
        numbers.map(|(number, name)| (*name, sum(number))).collect()
    }

    /// Of those that hold whenever nobody is inside the scheduler.
    pub(super) fn broken_rule(&mut self, k: &mut Kernel) -> Option<Violation> {
        let check = self.scheduler.check?;
        let (now_ns, cpus) = (k.now_ns, &k.cpus);
        let running_ns = |task: &Task| match cpus[task.cpu as usize].current == Some(task.id) {
            true => now_ns - cpus[task.cpu as usize].exec_start_ns,
            false => 0,
        };
        let ended_at_ns = &k.ended_at_ns;
        let ended_in = |ns: u64| {
            let before = ended_at_ns.partition_point(|at_ns| *at_ns < now_ns - ns);
            (ended_at_ns.len() - before) as u64
        };
        let tasks: Vec<ffi::sim_task_ref> = k
            .tasks
            .iter_mut()
            .filter(|task| task.life != Life::Dead)
            .map(|task| ffi::sim_task_ref {
                had_ns: task.c.se.sum_exec_runtime + running_ns(task),
                task: &mut *task.c,
                waits_ns: waits_ns(task, now_ns),
                nr_ended: ended_in(waits_ns(task, now_ns)),
                held: match task.custody {
                    Custody::Scheduler(number) => number,
                    _ => 0,
                },
                is_held: matches!(task.custody, Custody::Scheduler(_)),
                was_overtaken: task.was_overtaken,
            })
            .collect();
        let mut finding = sim_finding::default();
        host::enter(k);
        // SAFETY: living tasks, and nobody is inside the scheduler.
        let broken = unsafe {
            check(
                tasks.as_ptr(),
                tasks.len() as u32,
                self.bounds,
                &mut finding,
            )
        };
        broken.then(|| Violation {
            at_ns: k.now_ns,
            rule: "state",
            detail: format!("{}: {}", text(&finding.rule), text(&finding.detail)),
            state: Vec::new(),
        })
    }

    /// What it says of every CPU and task.
    pub(super) fn describe(&mut self, k: &mut Kernel) -> Vec<String> {
        host::enter(k);
        k.dump.clear();
        let mut context = ffi::scx_dump_ctx { at_ns: k.now_ns };
        for cpu in 0..self.nr_cpus {
            k.dump.push(format!("CPU {cpu}:"));
            if let Some(dump_cpu) = self.ops().dump_cpu {
                // SAFETY: as for all operations.
                unsafe { dump_cpu(&mut context, cpu as i32, k.current(cpu).is_none()) };
            }
        }
        for task in 0..k.tasks.len() {
            if !k.tasks[task].enabled {
                continue;
            }
            let about = about_task(k, task as TaskId);
            k.dump.push(about);
            let p = Self::task(k, task as TaskId);
            if let Some(dump_task) = self.ops().dump_task {
                // SAFETY: as for all operations.
                unsafe { dump_task(&mut context, p) };
            }
        }
        std::mem::take(&mut k.dump)
    }
}

/// For a CPU, since anything was changed about the task; 0: it does not wait.
fn waits_ns(task: &Task, now_ns: u64) -> u64 {
    if task.waits_since_ns == NEVER_NS {
        return 0;
    }
    let since_ns = task
        .waits_since_ns
        .max(task.changed_since_ns)
        .max(task.allowed_since_ns);
    now_ns - since_ns
}

fn about_task(k: &Kernel, task: TaskId) -> String {
    let state = &k.tasks[task as usize];
    format!(
        "task {}: {:?} cpu={} on_rq={} on_cpu={} custody={:?} dsq={:?} slice={} migration_disabled={}",
        k.task_name(task),
        state.life,
        state.cpu,
        state.on_rq,
        state.on_cpu,
        state.custody,
        state.dsq,
        state.c.scx.slice,
        state.c.migration_disabled
    )
}

fn text(bytes: &[std::ffi::c_char]) -> String {
    let bytes = bytes.iter().map(|byte| *byte as u8);
    String::from_utf8_lossy(&bytes.take_while(|byte| *byte != 0).collect::<Vec<u8>>()).into_owned()
}
