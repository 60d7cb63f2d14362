// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a member does at user level, where no daemon is.

use super::State;
use crate::link::RETRY_NS;
use crate::poll::{self, Others, RawNext, Sleeper, Turn};
use crate::user_level::{self, UserLevel};
use crate::{clock, Error};
use std::ptr::NonNull;

impl State {
    /// Joins the others that have no kernel scheduler, where that is wanted and possible.
    pub(super) fn join_user_level(&self, now_ns: u64) -> Result<(), Error> {
        // There nobody decides for others.
        let is_possible = self.choice.allows_user_level() && !self.terms.is_name();
        if !is_possible || now_ns < self.user_level_at_ns.get() {
            return Ok(());
        }
        self.user_level_at_ns.set(now_ns.saturating_add(RETRY_NS));
        if let Some(seat) = UserLevel::join(&self.terms, &self.runtime.again())? {
            self.slot.set(NonNull::from(seat.slot()));
            self.attached.set(NonNull::from(&user_level::ATTACHED));
            *self.user_level.borrow_mut() = Some(seat);
        }
        Ok(())
    }

    /// The thread's turn is the others' then. A forked child has none to give.
    pub(super) fn leave_user_level(&self) {
        if let Some(seat) = self.user_level.take() {
            self.point_nowhere();
            match self.is_alive() {
                true => seat.leave(),
                false => seat.forget(),
            }
        }
    }

    /// The scheduler in the kernel has let the thread in: the others of its domain follow.
    pub(super) fn move_to_daemon(&self) {
        if let Some(seat) = self.user_level.take() {
            seat.move_to_daemon();
        }
    }

    /// Whether to look for a daemon now: at user level one member does it for all.
    pub(super) fn is_to_look_for_daemon(&self, now_ns: u64) -> bool {
        let seat = self.user_level.borrow();
        let looks = |seat: &UserLevel| seat.is_to_look_for_daemon(now_ns);
        self.awaits_answer.get() || seat.as_ref().is_none_or(looks)
    }

    pub(super) fn poll_user_level<S: Sleeper>(
        &self,
        next: RawNext,
        turn: Turn,
        sleeper: &mut S,
    ) -> Result<Others, Error> {
        let seat = self.user_level.borrow();
        let polled = match (&*seat, turn) {
            (Some(seat), Turn::Sleep) => {
                poll::check_sleep::<S>(next)?;
                self.polls.set(0);
                seat.sleep(next, sleeper)
            }
            (Some(seat), Turn::Yield) => seat.poll(next),
            _ => Ok(()),
        };
        drop(seat);
        match polled {
            Ok(()) => Ok(Others::read(self.slot())),
            // The memory is the parent's.
            Err(Error::Gone) if !self.is_alive() => Err(Error::Forked),
            // It joins again with its next poll.
            Err(Error::Gone) => {
                self.stay_alone();
                self.user_level_at_ns.set(0);
                self.poll_alone(next, clock::now_ns(), sleeper)
            }
            Err(error) => Err(error),
        }
    }

    /// The thread will sleep outside of a poll: its turn is the others' meanwhile.
    pub(super) fn rest_at_user_level(&self, next: RawNext) {
        let seat = self.user_level.borrow();
        let rested = seat.as_ref().map(|seat| seat.rest(next));
        drop(seat);
        if let Some(Err(_)) = rested {
            self.stay_alone();
        }
    }

    /// It is back, and waits for its turn. It joins again with its next poll where it has lost its seat.
    pub(super) fn resume_at_user_level(&self) {
        let seat = self.user_level.borrow();
        let resumed = seat.as_ref().map(UserLevel::resume);
        drop(seat);
        if let Some(Err(_)) = resumed {
            self.stay_alone();
            self.user_level_at_ns.set(0);
        }
    }

    pub(super) fn tend_user_level(&self, now_ns: u64) {
        let seat = self.user_level.borrow();
        let others_are_elsewhere = seat.as_ref().is_some_and(|seat| !seat.tend(now_ns));
        drop(seat);
        if others_are_elsewhere {
            self.leave_user_level();
            self.user_level_at_ns.set(0);
        }
    }
}
