// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of a thread that executes a program.

use consort_kernel::{JoinArgs, Thread};

use super::Record;

impl Record {
    /// Thread `tid` executes a program: it has the number of this process from then on, and is where it was.
    pub fn execute(&mut self, tid: i32) {
        let thread = first_thread();
        if let Some(member) = self.members.remove(&tid) {
            self.members
                .insert(thread.tid, JoinArgs { thread, ..member });
        }
        for group in self.groups.values_mut() {
            if let Some(mut bind) = group.threads.remove(&tid) {
                bind.thread = thread;
                group.threads.insert(thread.tid, bind);
            }
        }
        self.executed.insert(tid);
    }
}

/// The first thread of this process, as the scheduler knows it.
pub fn first_thread() -> Thread {
    let tid = std::process::id() as i32;
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let start = fields.split_ascii_whitespace().nth(19).unwrap();
    Thread {
        tid,
        start: start.parse().unwrap(),
    }
}
