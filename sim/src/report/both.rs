// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two observers of one run.

use crate::trace::{Event, Observer};

/// Tells both.
pub struct Both<'o>(pub &'o mut dyn Observer, pub &'o mut dyn Observer);

impl Observer for Both<'_> {
    fn event(&mut self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }
}
