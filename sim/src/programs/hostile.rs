// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members that break the contract.

use super::client::Next;
use super::{At, Behaviour, Do};

const PIECE_NS: u64 = 1_000_000;

/// Never polls.
pub(crate) struct MuteLiar {
    domain: Option<usize>,
}

impl MuteLiar {
    pub fn new(domain: usize) -> Self {
        Self {
            domain: Some(domain),
        }
    }
}

impl Behaviour for MuteLiar {
    fn next(&mut self, _: &mut At<'_>) -> Do {
        match self.domain.take() {
            Some(domain) => Do::Join(domain),
            None => Do::Work(PIECE_NS),
        }
    }
}

/// Polls often, and claims each time to be late for something.
pub(crate) struct PoliteLiar {
    domain: Option<usize>,
    work_ns: u64,
    polls: bool,
}

impl PoliteLiar {
    pub fn new(domain: usize, work_ns: u64) -> Self {
        Self {
            domain: Some(domain),
            work_ns,
            polls: false,
        }
    }
}

impl Behaviour for PoliteLiar {
    fn next(&mut self, at: &mut At<'_>) -> Do {
        if let Some(domain) = self.domain.take() {
            return Do::Join(domain);
        }
        self.polls = !self.polls;
        if self.polls {
            return Do::Work(self.work_ns);
        }
        let now_ns = at.now_ns();
        let late = Next {
            due_ns: now_ns.saturating_sub(self.work_ns),
            best_effort: Some((0, 0)),
        };
        at.poll_at(late, now_ns)
    }
}

/// Writes what it likes where it can.
pub(crate) struct Garbage {
    domain: Option<usize>,
    work_ns: u64,
}

impl Garbage {
    pub fn new(domain: usize, work_ns: u64) -> Self {
        Self {
            domain: Some(domain),
            work_ns,
        }
    }
}

impl Behaviour for Garbage {
    fn next(&mut self, at: &mut At<'_>) -> Do {
        if let Some(domain) = self.domain.take() {
            return Do::Join(domain);
        }
        let all_ones = at.random.chance(0.3);
        at.scribble(all_ones);
        match at.random.between(0, 4) {
            0 => Do::Yield,
            1 => Do::Sleep(at.now_ns() + at.random.between(0, 3_000_000)),
            _ => Do::Work(self.work_ns),
        }
    }
}
