// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round robin: as if all tasks were SCHED_RR of one priority.
//!
//! Rule     A queue for each CPU, first come, first served. A task that has used up its quantum, or yields, goes to the
//!          end. A waking task preempts nobody. Quanta end at ticks, as in the kernel.
//! Limits   No weights, no cgroups: they mean nothing to that class. A CPU without work takes some from the longest
//!          queue.

use std::collections::VecDeque;

use super::tell_idle;
use crate::{
    error::Error,
    ffi::SCX_KICK_PREEMPT,
    kernel::{Kernel, SLICE_INFINITE},
    scheduler::Scheduler,
    setup::Cpu,
    trace::TaskId,
};

/// The shortest quantum that the kernel keeps: one tick of 250 Hz.
const QUANTUM_NS: u64 = 4_000_000;

/// See the module.
#[derive(Debug)]
pub struct RoundRobin {
    quantum_ns: u64,
    queues: Vec<VecDeque<TaskId>>,
    /// Since when each CPU's task has its quantum, in CPU time of the task.
    began_ns: Vec<u64>,
}

impl RoundRobin {
    /// With quanta of this length, 4 ms if none is given.
    pub fn new(quantum_ns: Option<u64>) -> Self {
        Self {
            quantum_ns: quantum_ns.unwrap_or(QUANTUM_NS),
            queues: Vec::new(),
            began_ns: Vec::new(),
        }
    }

    fn forget(&mut self, task: TaskId) {
        for queue in &mut self.queues {
            queue.retain(|waiting| *waiting != task);
        }
    }

    /// From another CPU's queue, the longest one first.
    fn steal(&mut self, k: &Kernel, cpu: Cpu) -> Option<TaskId> {
        let mut others: Vec<usize> = (0..self.queues.len()).collect();
        others.sort_by_key(|other| std::cmp::Reverse(self.queues[*other].len()));
        others.into_iter().find_map(|other| {
            let queue = &mut self.queues[other];
            let place = queue.iter().position(|task| k.may_run_on(*task, cpu))?;
            queue.remove(place)
        })
    }
}

impl Scheduler for RoundRobin {
    fn name(&self) -> &'static str {
        "rr"
    }

    fn begin(&mut self, k: &mut Kernel) -> Result<(), Error> {
        let cpus = k.machine.cpus() as usize;
        self.queues = vec![VecDeque::new(); cpus];
        self.began_ns = vec![0; cpus];
        Ok(())
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev_cpu: Cpu, wake_flags: u64) -> Cpu {
        k.select_cpu_dfl(task, prev_cpu, wake_flags).0
    }

    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, _flags: u64) {
        self.forget(task);
        let cpu = k.cpu_of(task);
        let queue = &mut self.queues[cpu as usize];
        queue.push_back(task);
        if queue.len() > 1 || k.current(cpu).is_some() {
            tell_idle(k, task);
        }
    }

    fn quiescent(&mut self, _k: &mut Kernel, task: TaskId, _flags: u64) {
        self.forget(task);
    }

    fn dispatch(&mut self, k: &mut Kernel, cpu: Cpu, prev: Option<TaskId>) {
        let index = cpu as usize;
        let own = self.queues[index].pop_front();
        let goes_on = prev.filter(|task| k.is_queued(*task));
        let next = match (own, goes_on) {
            (None, None) => self.steal(k, cpu),
            (own, _) => own,
        };
        if let Some(task) = next {
            self.began_ns[index] = k.runtime_ns(task);
            k.insert_local(task, SLICE_INFINITE, 0);
        } else if let Some(task) = goes_on {
            self.began_ns[index] = k.runtime_ns(task);
            k.set_slice(task, SLICE_INFINITE);
        }
    }

    fn tick(&mut self, k: &mut Kernel, cpu: Cpu, task: TaskId) {
        let index = cpu as usize;
        let ran_ns = k.runtime_ns(task).saturating_sub(self.began_ns[index]);
        // To the nearest tick: a quantum is a number of them.
        let is_over = ran_ns + k.costs.tick_period_ns / 2 >= self.quantum_ns;
        if is_over && !self.queues[index].is_empty() {
            k.kick(cpu, u64::from(SCX_KICK_PREEMPT));
        }
    }
}
