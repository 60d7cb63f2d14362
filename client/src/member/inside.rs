// SPDX-License-Identifier: MIT OR Apache-2.0
//! One call of a member at a time. A signal handler may interrupt a call and make another one: that finds nothing half done, as
//! it does nothing.

use super::State;
use std::cell::Cell;

/// A call of the thread's, until this is dropped.
pub(super) struct Inside<'a>(&'a Cell<bool>);

impl State {
    /// None: the thread is inside already, and this is a signal handler's call.
    pub(super) fn go_inside(&self) -> Option<Inside<'_>> {
        let was_inside = self.is_inside.replace(true);
        (!was_inside).then_some(Inside(&self.is_inside))
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
