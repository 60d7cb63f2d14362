// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns what happens at instants into intervals: a task runs, a task waits for a CPU.

use crate::{
    setup::Cpu,
    trace::{Event, Left, TaskId, What},
};

/// From when to when a task did what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub task: TaskId,
    /// The CPU that it ran on; none: it could have run, and waited.
    pub cpu: Option<Cpu>,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// Who runs where and who waits, since when.
#[derive(Debug)]
pub struct Intervals {
    running: Vec<Option<(TaskId, u64)>>,
    waiting: Vec<Option<u64>>,
}

impl Intervals {
    pub fn new(cpus: usize) -> Self {
        Self {
            running: vec![None; cpus],
            waiting: Vec::new(),
        }
    }

    /// The intervals that end with `event`, at most two.
    pub fn follow(&mut self, event: &Event) -> impl Iterator<Item = Interval> {
        let now_ns = event.at_ns;
        let mut ended = [None, None];
        match event.what {
            What::Switch { prev, next } if prev.map(|(task, _)| task) != next => {
                ended[0] = self.leave(event.cpu, now_ns);
                if let Some((task, Left::Preempted | Left::Yielded)) = prev {
                    self.begin_wait(task, now_ns);
                }
                if let Some(task) = next {
                    ended[1] = self.end_wait(task, now_ns);
                    if let Some(running) = self.running.get_mut(event.cpu as usize) {
                        *running = Some((task, now_ns));
                    }
                }
            }
            What::Woken { task, .. } => self.begin_wait(task, now_ns),
            What::Ended { task } => ended[0] = self.end_wait(task, now_ns),
            _ => {}
        }
        ended.into_iter().flatten()
    }

    /// Ends everything at `end_ns`.
    pub fn finish(&mut self, end_ns: u64) -> Vec<Interval> {
        let cpus = 0..self.running.len();
        let ran: Vec<_> = cpus
            .filter_map(|cpu| self.leave(cpu as Cpu, end_ns))
            .collect();
        let tasks = 0..self.waiting.len();
        let waited = tasks.filter_map(|task| self.end_wait(task as TaskId, end_ns));
        ran.into_iter().chain(waited).collect()
    }

    fn leave(&mut self, cpu: Cpu, to_ns: u64) -> Option<Interval> {
        let running = self.running.get_mut(cpu as usize).and_then(Option::take);
        running.map(|(task, from_ns)| Interval {
            task,
            cpu: Some(cpu),
            from_ns,
            to_ns,
        })
    }

    fn begin_wait(&mut self, task: TaskId, from_ns: u64) {
        let index = task as usize;
        if index >= self.waiting.len() {
            self.waiting.resize(index + 1, None);
        }
        self.waiting[index].get_or_insert(from_ns);
    }

    fn end_wait(&mut self, task: TaskId, to_ns: u64) -> Option<Interval> {
        let since_ns = self.waiting.get_mut(task as usize).and_then(Option::take);
        since_ns.map(|from_ns| Interval {
            task,
            cpu: None,
            from_ns,
            to_ns,
        })
    }
}
