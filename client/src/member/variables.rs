// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variables that a thread shares with its group's decision function: in the program's mapping, or, as long as no daemon
//! is there, its own.

use super::State;
use crate::layout::{Variables, STANDING_OUTSIDE, VARIABLES};
use crate::{clock, Error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the program writes of its variables.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub state: [i64; VARIABLES],
    pub submissions: u32,
    pub done: u32,
    pub triggers: u32,
}

impl Said {
    pub fn read(variables: &Variables) -> Said {
        Said {
            state: std::array::from_fn(|index| variables.state[index].load(Ordering::Relaxed)),
            submissions: variables.submissions.load(Ordering::Relaxed),
            done: variables.done.load(Ordering::Relaxed),
            triggers: variables.triggers.load(Ordering::Relaxed),
        }
    }

    pub fn write(&self, variables: &Variables) {
        for (to, from) in variables.state.iter().zip(self.state) {
            to.store(from, Ordering::Relaxed);
        }
        variables
            .submissions
            .store(self.submissions, Ordering::Relaxed);
        variables.done.store(self.done, Ordering::Relaxed);
        variables.triggers.store(self.triggers, Ordering::Release);
    }
}

impl State {
    #[inline]
    pub(crate) fn variables(&self) -> &Variables {
        // SAFETY: points to `variables_alone`, or into the memory that `place` keeps mapped; as for `slot`.
        unsafe { self.variables.get().as_ref() }
    }

    /// What the thread has said so far.
    pub(super) fn said(&self) -> Said {
        let mut said = Said::read(self.variables());
        self.overlay_shared(&mut said.state);
        said
    }

    /// What the thread has said goes along.
    pub(super) fn move_variables(&self, to: &Variables) {
        if !std::ptr::eq(to, self.variables.get().as_ptr()) {
            self.said().write(to);
            self.variables.set(NonNull::from(to));
        }
    }

    #[inline]
    pub fn set_variable(&self, index: usize, value: i64) -> Result<(), Error> {
        self.check_alive()?;
        let word = self.variables().state.get(index);
        word.ok_or(Error::VariableRange { index })?
            .store(value, Ordering::Release);
        if !self.is_attached() {
            self.tend_once(clock::now_ns());
        }
        Ok(())
    }

    pub fn variable(&self, index: usize) -> Result<i64, Error> {
        self.check_alive()?;
        let word = self.variables().state.get(index);
        Ok(word
            .ok_or(Error::VariableRange { index })?
            .load(Ordering::Relaxed))
    }

    #[inline]
    pub fn control(&self, index: usize) -> Result<i64, Error> {
        self.check_alive()?;
        let word = self.variables().control.get(index);
        Ok(word
            .ok_or(Error::VariableRange { index })?
            .load(Ordering::Acquire))
    }

    pub fn begin_submission(&self) -> Result<(), Error> {
        self.check_alive()?;
        let word = &self.variables().submissions;
        word.store(word.load(Ordering::Relaxed) | 1, Ordering::Release);
        Ok(())
    }

    pub fn end_submission(&self) -> Result<(), Error> {
        self.check_alive()?;
        let word = &self.variables().submissions;
        // To the next even number, whether its beginning was told or not.
        let begun = word.load(Ordering::Relaxed) | 1;
        word.store(begun.wrapping_add(1), Ordering::Release);
        self.look()
    }

    pub fn done(&self) -> Result<(), Error> {
        self.check_alive()?;
        count(&self.variables().done);
        self.look()
    }

    pub fn trigger_plans(&self) -> Result<(), Error> {
        self.check_alive()?;
        count(&self.variables().triggers);
        self.look()
    }

    pub fn look(&self) -> Result<(), Error> {
        self.check_alive()?;
        self.tend_once(clock::now_ns());
        // Whoever polls gives the CPU up there and nowhere else.
        let polls = self.slot().standing.load(Ordering::Relaxed) != STANDING_OUTSIDE;
        if self.is_attached() && !polls {
            // SAFETY: plain system call.
            unsafe { libc::sched_yield() };
        }
        Ok(())
    }
}

/// Only the thread itself writes the word.
fn count(word: &AtomicU32) {
    let count = word.load(Ordering::Relaxed);
    word.store(count.wrapping_add(1), Ordering::Release);
}
