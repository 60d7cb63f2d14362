// SPDX-License-Identifier: MIT OR Apache-2.0
//! What libconsort does in a program: publish, decide, and enter the kernel only if that is needed. The decision is
//! libconsort's own (client/src/poll.rs).

use super::{At, Do};
use crate::ffi::{
    consort_slot, CONSORT_NEVER, CONSORT_PRIORITY_NONE, CONSORT_RUNNING, CONSORT_SLEEPING,
    CONSORT_YIELDING,
};
use crate::trace::What;
use consort::decision::{decide, decide_alone, RawNext, Told, Turn};

pub(crate) const NEVER: u64 = CONSORT_NEVER as u64;

/// A poll that returns at once, in ns: 190 instructions (see docs/results, cost.poll_instructions).
const POLL_NS: u64 = 380;

/// What the thread wants the CPU for next.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    pub due_ns: u64,
    pub best_effort: Option<(u32, u64)>,
}

impl Told for consort_slot {
    fn due_ns(&self) -> u64 {
        self.due_ns
    }

    fn yield_by_ns(&self) -> u64 {
        self.yield_by_ns
    }

    fn standing(&self) -> u32 {
        self.standing
    }

    fn other_priority(&self) -> u32 {
        self.other_priority
    }

    fn other_key(&self) -> u64 {
        self.other_key
    }
}

impl At<'_> {
    fn slot(&mut self) -> Option<(&'static mut consort_slot, bool)> {
        let (slot, keys_compare) = self.k.scheduler.slot(self.task)?;
        // SAFETY: the page lives for as long as the scheduler knows of the client; the reference is not
        // kept beyond this step.
        Some((unsafe { &mut *slot }, keys_compare))
    }

    /// The poll of before has returned.
    pub(super) fn end_poll(&mut self) {
        if std::mem::take(self.in_poll) {
            if let Some((slot, _)) = self.slot() {
                slot.intent = CONSORT_RUNNING;
            }
        }
    }

    /// A poll at a time that the program has read before. What is to be done about it; `Again` if it returns at
    /// once.
    pub fn poll_at(&mut self, next: Next, now_ns: u64) -> Do {
        self.k.spend(POLL_NS);
        let decision = self.decide(next, now_ns);
        let task = self.task;
        self.k.emit(What::Polled {
            task,
            entered_kernel: !matches!(decision, Do::Again),
        });
        decision
    }

    fn decide(&mut self, next: Next, now_ns: u64) -> Do {
        let (priority, key) = next.best_effort.unwrap_or((CONSORT_PRIORITY_NONE, 0));
        let raw = RawNext {
            due_ns: next.due_ns,
            key,
            priority,
        };
        let Some((slot, keys_compare)) = self.slot() else {
            return match decide_alone(raw, now_ns) {
                Turn::Sleep => Do::Sleep(next.due_ns),
                Turn::Yield | Turn::Return => Do::Again,
            };
        };
        let turn = decide(raw, now_ns, slot, keys_compare);
        slot.due_ns = next.due_ns;
        slot.key = key;
        slot.priority = priority;
        let (intent, todo) = match turn {
            Turn::Return => return Do::Again,
            Turn::Sleep => (CONSORT_SLEEPING, Do::Sleep(next.due_ns)),
            Turn::Yield => (CONSORT_YIELDING, Do::Yield),
        };
        slot.intent = intent;
        slot.poll_seq = slot.poll_seq.wrapping_add(1);
        *self.in_poll = true;
        todo
    }

    /// Writes 8 bytes of the slot, of the eight that it has, whatever they mean.
    pub fn write_word(&mut self, word: usize, value: u64) {
        let Some((slot, _)) = self.slot() else {
            return;
        };
        match word % 8 {
            0 => slot.due_ns = value,
            1 => slot.key = value,
            2 => (slot.priority, slot.poll_seq) = (value as u32, (value >> 32) as u32),
            3 => (slot.intent, slot.why) = (value as u32, (value >> 32) as u32),
            4 => slot.yield_by_ns = value,
            5 => slot.other_due_ns = value,
            6 => slot.other_key = value,
            _ => (slot.other_priority, slot.standing) = (value as u32, (value >> 32) as u32),
        }
    }

    /// As a poll does: the number of polls is one more than it was.
    pub fn count_poll(&mut self) {
        if let Some((slot, _)) = self.slot() {
            slot.poll_seq = slot.poll_seq.wrapping_add(1);
        }
    }

    /// Writes into the slot what a program should not.
    pub fn scribble(&mut self, all_ones: bool) {
        let random = self.random.next_u64();
        let Some((slot, _)) = self.slot() else {
            return;
        };
        let mut mixed = crate::random::Random::new(random);
        let mut word = || if all_ones { u64::MAX } else { mixed.next_u64() };
        *slot = consort_slot {
            due_ns: word(),
            key: word(),
            priority: word() as u32,
            poll_seq: word() as u32,
            intent: word() as u32,
            why: word() as u32,
            yield_by_ns: word(),
            other_due_ns: word(),
            other_key: word(),
            other_priority: word() as u32,
            standing: word() as u32,
        };
    }
}
