// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the daemon does for a program, that program pays: the scheduler charges its CPU time to a thread of the program.
//!
//! Small sums are put together first: a bill is a system call.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use consort_kernel::Thread;

use crate::service::Service;

/// The start of a process that was only seen to connect: the scheduler bills whoever has the number.
pub(crate) const ANY_START: u64 = 0;
/// What is owed by then is billed at once.
const BILLED_AT_ONCE: Duration = Duration::from_micros(100);
/// The scheduler takes no more at a time.
const BILL_MAX: Duration = Duration::from_secs(1);

/// What is not billed yet.
#[derive(Debug, Default)]
pub struct Bills(HashMap<i32, (Thread, Duration)>);

impl Bills {
    /// Adds to what `thread` owes, and returns the sum once it is worth a bill.
    fn add(&mut self, thread: Thread, spent: Duration) -> Option<(Thread, Duration)> {
        let (whose, owed) = self.0.entry(thread.tid).or_insert((thread, Duration::ZERO));
        let is_another = ![whose.start, thread.start].contains(&ANY_START) && *whose != thread;
        if is_another {
            (*whose, *owed) = (thread, Duration::ZERO);
        }
        whose.start = whose.start.max(thread.start);
        *owed += spent;
        (*owed >= BILLED_AT_ONCE).then_some(())?;
        self.0.remove(&thread.tid)
    }
}

impl Service {
    /// Charges the daemon's CPU time to a user, and to the first thread of the program for which it was spent.
    pub fn pay(&mut self, uid: u32, thread: Thread, spent: Duration, now: Instant) {
        self.users.charge_cpu(uid, spent, now);
        if let Some((thread, owed)) = self.bills.add(thread, spent) {
            self.bill(thread, owed);
        }
    }

    /// Called now and then: bills all that is owed.
    pub(crate) fn bill_all(&mut self) {
        for (thread, owed) in std::mem::take(&mut self.bills).0.into_values() {
            self.bill(thread, owed);
        }
    }

    fn bill(&mut self, thread: Thread, owed: Duration) {
        // A thread that has ended, or is in a real-time class, pays by its user's limit alone.
        let _ = self.host.bill(thread, owed.min(BILL_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: Thread = Thread { tid: 7, start: 5 };

    #[test]
    fn small_sums_are_put_together() {
        let mut bills = Bills::default();
        let part = BILLED_AT_ONCE / 3;
        assert_eq!(bills.add(THREAD, part), None);
        assert_eq!(bills.add(THREAD, part), None);
        assert_eq!(bills.add(THREAD, part * 2), Some((THREAD, part * 4)));
        assert_eq!(bills.add(THREAD, part), None);
    }

    #[test]
    fn a_number_that_is_another_threads_by_now_owes_nothing() {
        let mut bills = Bills::default();
        let (half, other) = (BILLED_AT_ONCE / 2, Thread { start: 6, ..THREAD });
        assert_eq!(bills.add(THREAD, half), None);
        assert_eq!(bills.add(other, half), None);
        assert_eq!(bills.add(other, half), Some((other, BILLED_AT_ONCE)));
    }

    /// Being refused by turns forgives nothing.
    #[test]
    fn a_process_that_was_only_seen_to_connect_owes_what_it_owed() {
        let mut bills = Bills::default();
        let (half, seen) = (
            BILLED_AT_ONCE / 2,
            Thread {
                start: ANY_START,
                ..THREAD
            },
        );
        assert_eq!(bills.add(seen, half), None);
        assert_eq!(bills.add(THREAD, half), Some((THREAD, BILLED_AT_ONCE)));
        assert_eq!(bills.add(THREAD, half), None);
        assert_eq!(bills.add(seen, half), Some((THREAD, BILLED_AT_ONCE)));
    }
}
