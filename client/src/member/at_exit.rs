// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calling thread's membership as the thread itself has it: left at its end, unknown in a forked child.

use super::State;
use crate::Error;
use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    static OF_THIS_THREAD: RefCell<LeaveAtExit> = const { RefCell::new(LeaveAtExit(None)) };
}

/// A thread that ends without leaving leaves here.
struct LeaveAtExit(Option<Rc<State>>);

impl Drop for LeaveAtExit {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            // Nobody is left to tell.
            let _ = state.leave(None);
        }
    }
}

/// The thread's end leaves, if nothing has before.
pub(super) fn leave_at_exit(state: &Rc<State>) {
    // Fails only while the thread is being torn down: then the handle's drop is what leaves.
    let _ = OF_THIS_THREAD.try_with(|exit| exit.borrow_mut().0.replace(Rc::clone(state)));
}

/// Refuses a second membership; forgets one that a forked child inherited from its parent.
pub(super) fn discard_parents_membership() -> Result<(), Error> {
    let current = OF_THIS_THREAD
        .try_with(|exit| exit.borrow().0.clone())
        .unwrap_or(None);
    let Some(state) = current else {
        return Ok(());
    };
    if state.is_alive() {
        return Err(Error::AlreadyMember);
    }
    let _ = state.leave(None);
    Ok(())
}
