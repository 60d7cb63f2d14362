// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is going to happen, in order of time; what happens at the same time, in order of planning.

use super::Irq;
use crate::setup::Cpu;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// The CPU goes on with what it does in the kernel.
    Resume(Cpu),
    /// The running program has done its piece of work; void if the CPU was interrupted meanwhile.
    WorkDone {
        cpu: Cpu,
        generation: u32,
    },
    Interrupt(Cpu, Irq),
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    at_ns: u64,
    number: u64,
    what: Happening,
}

impl Ord for Entry {
    /// Reversed: the heap's greatest is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    /// CPUs that go on with a path: one entry a CPU at most, and most of all that happens.
    resumes: BinaryHeap<Entry>,
    /// Everything else: a timer of each sleeper, for one.
    others: BinaryHeap<Entry>,
    planned: u64,
}

impl Queue {
    pub fn plan(&mut self, at_ns: u64, what: Happening) {
        self.planned += 1;
        let entry = Entry {
            at_ns,
            number: self.planned,
            what,
        };
        match what {
            Happening::Resume(_) => self.resumes.push(entry),
            _ => self.others.push(entry),
        }
    }

    fn resumes_first(&self) -> bool {
        match (self.resumes.peek(), self.others.peek()) {
            (Some(resume), Some(other)) => resume > other,
            (resume, _) => resume.is_some(),
        }
    }

    pub fn next_at_ns(&self) -> Option<u64> {
        let first = match self.resumes_first() {
            true => self.resumes.peek(),
            false => self.others.peek(),
        };
        first.map(|entry| entry.at_ns)
    }

    pub fn pop(&mut self) -> Option<(u64, Happening)> {
        let first = match self.resumes_first() {
            true => self.resumes.pop(),
            false => self.others.pop(),
        };
        first.map(|entry| (entry.at_ns, entry.what))
    }
}
