// SPDX-License-Identifier: MIT OR Apache-2.0
//! What libconsort does for a member of a group with a function: it writes words that nobody has to be called for.

use super::At;
use crate::groups::Tell;
use crate::trace::TaskId;

impl At<'_> {
    /// One of a thread's state variables.
    pub fn publish(&mut self, task: TaskId, variable: usize, value: i64) {
        let Some(words) = self.k.scheduler.words(task) else {
            return;
        };
        // SAFETY: the page lives for as long as the run, and one thread of the simulator looks at it.
        if let Some(word) = unsafe { (*words).state.get_mut(variable) } {
            *word = value;
        }
    }

    pub fn tell(&mut self, tell: Tell) {
        let Some(words) = self.k.scheduler.words(self.task) else {
            return;
        };
        // SAFETY: as above.
        let words = unsafe { &mut *words };
        match tell {
            Tell::Submitting => words.submissions |= 1,
            Tell::Submitted => words.submissions = (words.submissions | 1).wrapping_add(1),
            Tell::Done => words.done = words.done.wrapping_add(1),
            Tell::Trigger => words.triggers = words.triggers.wrapping_add(1),
        }
    }
}
