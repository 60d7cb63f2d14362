// SPDX-License-Identifier: MIT OR Apache-2.0
//! One call of a member at a time. A signal handler may interrupt a call and make another one: that finds nothing half done, as
//! it does nothing.

use super::State;
use std::cell::Cell;

/// A call of the thread's, until this is dropped.
pub(crate) struct Inside<'a>(&'a Cell<bool>);

impl State {
    /// None: the thread is inside already, and this is a signal handler's call.
    pub(crate) fn go_inside(&self) -> Option<Inside<'_>> {
        let was_inside = self.is_inside.replace(true);
        // Not even for a moment is there one for the handler: its end would be taken for that of the call.
        (!was_inside).then(|| Inside(&self.is_inside))
    }

    /// [`State::tend`], unless what a signal handler has interrupted does that already.
    pub(crate) fn tend_once(&self, now_ns: u64) {
        if let Some(_inside) = self.go_inside() {
            self.tend(now_ns);
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
