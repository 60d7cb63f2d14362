// SPDX-License-Identifier: MIT OR Apache-2.0
//! What libconsort does in a program (client/src/poll.rs): publish, decide, and enter the kernel only if that is needed.

use super::{At, Do};
use crate::ffi::{
    consort_slot, CONSORT_DEMOTED, CONSORT_NEVER, CONSORT_PRIORITY_NONE, CONSORT_RUNNING,
    CONSORT_SLEEPING, CONSORT_YIELDING,
};
use crate::trace::What;

pub(crate) const NEVER: u64 = CONSORT_NEVER as u64;

/// A poll that returns at once, in ns: 190 instructions (see docs/results, cost.poll_instructions).
const POLL_NS: u64 = 380;

/// What the thread wants the CPU for next.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    pub due_ns: u64,
    pub best_effort: Option<(u32, u64)>,
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
        let expired = next.due_ns <= now_ns;
        let Some((slot, keys_compare)) = self.slot() else {
            return match priority == CONSORT_PRIORITY_NONE && !expired {
                true => Do::Sleep(next.due_ns),
                false => Do::Again,
            };
        };
        slot.due_ns = next.due_ns;
        slot.key = key;
        slot.priority = priority;
        let is_beaten = |slot: &consort_slot| {
            !expired && keys_compare && (slot.other_priority, slot.other_key) < (priority, key)
        };
        let intent = if priority == CONSORT_PRIORITY_NONE && !expired {
            CONSORT_SLEEPING
        } else if now_ns >= slot.yield_by_ns || slot.standing == CONSORT_DEMOTED || is_beaten(slot)
        {
            CONSORT_YIELDING
        } else {
            return Do::Again;
        };
        slot.intent = intent;
        slot.poll_seq = slot.poll_seq.wrapping_add(1);
        *self.in_poll = true;
        match intent {
            CONSORT_SLEEPING => Do::Sleep(next.due_ns),
            _ => Do::Yield,
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
            reserved: word() as u32,
            yield_by_ns: word(),
            other_due_ns: word(),
            other_key: word(),
            other_priority: word() as u32,
            standing: word() as u32,
        };
    }
}
