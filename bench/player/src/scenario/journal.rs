// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a process ran, and when its timers were served, by its own clock: where that jumps, it had not the CPU.

use crate::clock::{now_ns, NS_PER_US};
use crate::work::burn_ns;
use serde_json::{json, Value};

/// Work between two looks at the clock.
const PIECE_NS: u64 = 20_000;
/// More than an interrupt takes.
const GAP_MIN_NS: u64 = 50_000;

/// Times in ns of CLOCK_MONOTONIC; reported in us after the scenario's beginning.
pub struct Journal {
    begin_ns: u64,
    is_kept: bool,
    stamps_ns: Vec<u64>,
    /// From when to when.
    ran_ns: Vec<(u64, u64)>,
    answers_ns: Vec<u64>,
}

impl Journal {
    pub fn new(begin_ns: u64, is_kept: bool) -> Self {
        Self {
            begin_ns,
            is_kept,
            stamps_ns: Vec::new(),
            ran_ns: Vec::new(),
            answers_ns: Vec::new(),
        }
    }

    /// A timer was served.
    pub fn stamp(&mut self) {
        if self.is_kept {
            self.stamps_ns.push(now_ns());
        }
    }

    /// Something was done so long after it had been asked for.
    pub fn answered(&mut self, after_ns: Option<u64>) {
        self.answers_ns.extend(after_ns);
    }

    /// Works for `length_ns` of CPU time; where times are kept, not beyond the run's end.
    pub fn work(&mut self, length_ns: u64, end_ns: u64) {
        if !self.is_kept {
            return burn_ns(length_ns);
        }
        let mut left_ns = length_ns;
        let mut last_ns = now_ns();
        self.begin_run(last_ns);
        while left_ns > 0 && last_ns < end_ns {
            let piece_ns = left_ns.min(PIECE_NS);
            burn_ns(piece_ns);
            let now = now_ns();
            if now - last_ns > piece_ns + GAP_MIN_NS {
                // On average half of the piece was done before the gap, and half after it.
                self.end_run(last_ns + piece_ns / 2);
                self.begin_run(now - piece_ns / 2);
            }
            last_ns = now;
            left_ns -= piece_ns;
        }
        self.end_run(last_ns);
    }

    /// Goes on with the last run if it has just ended.
    fn begin_run(&mut self, at_ns: u64) {
        match self.ran_ns.last() {
            Some((_, until_ns)) if at_ns - until_ns < GAP_MIN_NS => {}
            _ => self.ran_ns.push((at_ns, at_ns)),
        }
    }

    fn end_run(&mut self, at_ns: u64) {
        if let Some((_, until_ns)) = self.ran_ns.last_mut() {
            *until_ns = at_ns;
        }
    }

    pub fn report(&self) -> Value {
        let after_us = |ns: &u64| ns.saturating_sub(self.begin_ns) / NS_PER_US;
        let ran: Vec<[u64; 2]> = self
            .ran_ns
            .iter()
            .map(|(from, until)| [after_us(from), after_us(until)])
            .collect();
        json!({
            "stamps_us": self.stamps_ns.iter().map(after_us).collect::<Vec<_>>(),
            "ran_us": ran,
            "answers_us": self.answers_ns.iter().map(|ns| ns / NS_PER_US).collect::<Vec<_>>(),
        })
    }
}
