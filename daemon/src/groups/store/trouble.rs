// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trouble that requests of users run into, as on a full disk. A user makes as many requests as it likes, and one message has
//! many groups: a line for each would fill the log.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// It is said once in so long a time.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// One kind of it.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    said: Cell<Option<Instant>>,
    /// How often it has not been said since then.
    left_out: Cell<u64>,
}

impl Trouble {
    /// It has happened. `say` writes the line, with how often it has happened since the line before, and was left out.
    pub fn happened(&self, now: Instant, say: impl FnOnce(u64)) {
        let said = self.said.get();
        if said.is_some_and(|said| now.saturating_duration_since(said) < SAID_EVERY) {
            self.left_out.set(self.left_out.get() + 1);
            return;
        }
        self.said.set(Some(now));
        say(self.left_out.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_said_at_once_and_then_now_and_then() {
        let trouble = Trouble::default();
        let began = Instant::now();
        let mut lines = Vec::new();
        for tenths in 0..=1200 {
            let now = began + tenths * Duration::from_millis(100);
            trouble.happened(now, |left_out| lines.push((tenths, left_out)));
        }
        assert_eq!(lines, [(0, 0), (600, 599), (1200, 599)]);
    }
}
