// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that a real-time class has when the scheduler is loaded, or when something is reserved for their process: the
//! scheduler does not know them, and they get their reservation when they are back. Those that go to such a class later the
//! scheduler keeps in mind itself.

use std::{collections::BTreeMap, ops::Bound};

use consort_kernel::Thread;
use tracing::debug;

use crate::service::Service;

/// Those of one reservation.
#[derive(Debug, Default)]
pub(crate) struct Absent {
    /// With their processes, by number.
    threads: BTreeMap<i32, (i32, Thread)>,
    /// The one that was tried last.
    tried: i32,
}

impl Absent {
    pub fn insert(&mut self, pid: i32, thread: Thread) {
        self.threads.insert(thread.tid, (pid, thread));
    }

    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Up to `count` of them, in turn.
    fn next(&mut self, count: usize) -> Vec<(i32, Thread)> {
        let later = (Bound::Excluded(self.tried), Bound::Unbounded);
        let some = self.threads.range(later).take(count);
        let some: Vec<(i32, Thread)> = some.map(|(_, one)| *one).collect();
        self.tried = match some.last() {
            Some((_, last)) if some.len() == count => last.tid,
            _ => 0,
        };
        some
    }
}

impl Service {
    /// Tries again with some of them, `left` at most.
    pub(crate) fn add_absent(&mut self, id: u32, absent: &mut Absent, left: &mut usize) {
        if *left == 0 {
            return;
        }
        for (pid, thread) in absent.next(*left) {
            *left -= 1;
            let stays = match self.host.add_to_reservation(id, thread) {
                Ok(()) => {
                    debug!(tid = thread.tid, "back from another class");
                    false
                }
                Err(_) => self.processes.is_in_higher_class(pid, thread),
            };
            if !stays {
                absent.threads.remove(&thread.tid);
            }
        }
    }
}
