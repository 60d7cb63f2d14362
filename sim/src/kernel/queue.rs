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
    heap: BinaryHeap<Entry>,
    planned: u64,
}

impl Queue {
    pub fn plan(&mut self, at_ns: u64, what: Happening) {
        self.planned += 1;
        self.heap.push(Entry {
            at_ns,
            number: self.planned,
            what,
        });
    }

    pub fn next_at_ns(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.at_ns)
    }

    pub fn pop(&mut self) -> Option<(u64, Happening)> {
        self.heap.pop().map(|entry| (entry.at_ns, entry.what))
    }
}
