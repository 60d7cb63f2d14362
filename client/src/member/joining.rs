// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a member comes in where a daemon is: at first, and again after the daemon or its scheduler has gone.

use super::{State, DAEMON_WAIT};
use crate::link::{Link, Place, RETRY_NS};
use crate::process::Process;
use crate::{clock, Error};
use std::ptr::NonNull;
use std::time::Instant;

/// When to look again for an answer that has not come.
const ANSWER_RETRY_NS: u64 = 10_000_000;

impl State {
    /// Joins and waits for the answer. Without a daemon, the thread is not in yet.
    pub(super) fn join_now(&self, link: &mut Link) -> Result<(), Error> {
        let deadline = Instant::now() + DAEMON_WAIT;
        // The second attempt is for a connection that turns out to be dead when it is used.
        for _ in 0..2 {
            let now_ns = clock::now_ns();
            link.hurry();
            self.retry_at_ns.set(now_ns.saturating_add(RETRY_NS));
            self.check_at_ns.set(now_ns.saturating_add(RETRY_NS));
            let answer = match link.advance(now_ns, deadline) {
                Ok(true) => self.ask(link, deadline),
                Ok(false) => return Ok(()),
                Err(error) => Err(error),
            };
            match answer {
                Ok(_) => return Ok(()),
                Err(error) if is_end_of_connection(&error) => continue,
                Err(error) if is_the_programs(&error) => return Err(error),
                Err(error) => {
                    *self.why_alone.borrow_mut() = Some(error);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// One step of joining through a greeted connection: true when the thread is in.
    fn ask(&self, link: &mut Link, deadline: Instant) -> Result<bool, Error> {
        let mut pending = self.pending.borrow_mut();
        let asked = match pending.take() {
            Some(asked) => asked,
            None => link.send_join(&self.terms, self.tid, self.said())?,
        };
        match link.join_answer(&asked, deadline)? {
            None => {
                *pending = Some(asked);
                Ok(false)
            }
            Some(()) => {
                self.enter(asked.place);
                Ok(true)
            }
        }
    }

    fn enter(&self, place: Place) {
        self.move_to_daemon();
        self.slot.set(NonNull::from(place.page.slot(place.slot)));
        self.attached.set(NonNull::from(place.page.attached()));
        if let Some(variables) = place.page.variables(place.slot) {
            self.move_variables(variables);
        }
        self.move_shared(Some(&place));
        *self.place.borrow_mut() = Some(place);
        *self.why_alone.borrow_mut() = None;
    }

    /// One step towards joining again. Never waits.
    pub(super) fn try_to_rejoin(&self, now_ns: u64) -> bool {
        if now_ns < self.retry_at_ns.get()
            || !self.choice.allows_kernel()
            || !self.is_to_look_for_daemon(now_ns)
        {
            return false;
        }
        self.retry_at_ns.set(now_ns.saturating_add(ANSWER_RETRY_NS));
        let Some(mut link) = Process::current().ok().and_then(Process::try_lock) else {
            // Another thread of the process has it: this one has not looked yet.
            self.awaits_answer.set(true);
            return false;
        };
        let at_once = Instant::now();
        let joined = match link.advance(now_ns, at_once) {
            Ok(true) => self.ask(&mut link, at_once),
            other => other,
        };
        let awaits_answer = link.is_greeting() || self.pending.borrow().is_some();
        self.awaits_answer.set(awaits_answer);
        if !awaits_answer {
            self.retry_at_ns.set(now_ns.saturating_add(RETRY_NS));
        }
        // What went wrong is the daemon's; the thread goes on alone and asks again.
        joined.unwrap_or_else(|error| {
            if !is_end_of_connection(&error) {
                *self.why_alone.borrow_mut() = Some(error);
            }
            false
        })
    }
}

/// What the program has done wrong itself, and would do wrong again. Everything else is between its user and the daemon,
/// and no reason not to run: without a daemon it would.
fn is_the_programs(error: &Error) -> bool {
    match error {
        Error::Refused { errno, .. } => matches!(
            *errno,
            libc::EINVAL | libc::ERANGE | libc::ENAMETOOLONG | libc::EEXIST | libc::EBUSY
        ),
        Error::System { source, .. } => source.raw_os_error() == Some(libc::ENAMETOOLONG),
        Error::Protocol { .. } => false,
        _ => true,
    }
}

/// The connection ended, rather than the daemon saying no.
fn is_end_of_connection(error: &Error) -> bool {
    matches!(error, Error::Gone)
}
