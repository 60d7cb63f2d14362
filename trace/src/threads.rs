// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names and processes of the threads in a trace.

use std::collections::HashMap;

use crate::record::{Record, What};

/// What is known of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thread {
    pub pid: i32,
    /// As it was called last; empty: nobody has said it.
    pub command: String,
}

/// All threads so far, by their numbers.
#[derive(Debug, Default)]
pub struct Threads(HashMap<i32, Thread>);

impl Threads {
    /// Learns who a record is about. Returns a thread whose name is new.
    pub fn follow(&mut self, record: &Record) -> Option<i32> {
        if let What::Switch {
            prev_tid, prev_pid, ..
        } = record.what
        {
            self.0.entry(prev_tid).or_default().pid = prev_pid;
        }
        let known = self.0.entry(record.tid).or_default();
        // A program may say anything of others; the scheduler knows.
        let is_said = matches!(record.what, What::Due { .. } | What::Event { .. });
        if record.pid != 0 && (!is_said || known.pid == 0) {
            known.pid = record.pid;
        }
        match &record.what {
            What::Switch { command, .. } | What::Wake { command, .. }
                if *command != known.command =>
            {
                known.command.clone_from(command);
                Some(record.tid)
            }
            _ => None,
        }
    }

    pub fn name(&mut self, tid: i32, pid: i32, command: &str) {
        let command = command.to_owned();
        self.0.insert(tid, Thread { pid, command });
    }

    pub fn get(&self, tid: i32) -> Option<&Thread> {
        self.0.get(&tid)
    }

    /// Empty if it is not known.
    pub fn command(&self, tid: i32) -> &str {
        self.get(tid).map_or("", |thread| &thread.command)
    }
}
