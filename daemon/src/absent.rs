// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that a real-time class has when the scheduler is loaded, or when something is reserved for their process: the
//! scheduler does not know them, and they get their reservation when they are back. Those that go to such a class later the
//! scheduler keeps in mind itself.

use consort_kernel::Thread;
use tracing::debug;

use crate::service::Service;

impl Service {
    pub(crate) fn is_any_absent(&self, threads: &[Thread]) -> bool {
        let mut threads = threads.iter();
        threads.any(|thread| self.processes.is_in_higher_class(*thread))
    }

    /// Notes which of these threads are to get reservation `number` later.
    pub(crate) fn note_absent(&mut self, number: u32, threads: &[Thread]) {
        let is_absent = |thread: &Thread| self.processes.is_in_higher_class(*thread);
        let absent: Vec<Thread> = threads.iter().copied().filter(is_absent).collect();
        if let Some(in_force) = self.reservations.in_force.get_mut(&number) {
            in_force.absent = absent;
        }
    }

    /// Tries again.
    pub(crate) fn add_absent(&mut self, number: u32) {
        let Some(in_force) = self.reservations.in_force.get_mut(&number) else {
            return;
        };
        let (id, mut absent) = (in_force.id, std::mem::take(&mut in_force.absent));
        absent.retain(|thread| match self.host.add_to_reservation(id, *thread) {
            Ok(()) => {
                debug!(number, tid = thread.tid, "back from another class");
                false
            }
            Err(_) => self.processes.is_in_higher_class(*thread),
        });
        if let Some(in_force) = self.reservations.in_force.get_mut(&number) {
            in_force.absent = absent;
        }
    }
}
