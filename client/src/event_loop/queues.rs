// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two queues, ordered; adding, removing and finding the head are O(log n).

use super::events::Place;
use super::host::Proxies;
use super::Event;
use crate::poll::Next;
use crate::NEVER;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Queues {
    /// By due time, then in the order of submission.
    due: BTreeMap<(u64, u64), Event>,
    /// By priority, key, then in the order of submission.
    best_effort: BTreeMap<(u32, u64, u64), Event>,
    submissions: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pick {
    Run(Event),
    /// A proxy is at the head, or nothing of one's own is ready.
    Yield,
}

impl Queues {
    pub fn add_due(&mut self, event: Event, due_ns: u64) -> Place {
        self.submissions += 1;
        let nth = self.submissions;
        self.due.insert((due_ns, nth), event);
        Place::Due { due_ns, nth }
    }

    pub fn add_best_effort(&mut self, event: Event, priority: u32, key: u64) -> Place {
        self.submissions += 1;
        let nth = self.submissions;
        self.best_effort.insert((priority, key, nth), event);
        Place::BestEffort { priority, key, nth }
    }

    pub fn remove(&mut self, place: Place) {
        match place {
            Place::Due { due_ns, nth } => {
                self.due.remove(&(due_ns, nth));
            }
            Place::BestEffort { priority, key, nth } => {
                self.best_effort.remove(&(priority, key, nth));
            }
            Place::Idle | Place::Awaiting { .. } => {}
        }
    }

    pub fn is_empty(&self) -> bool {
        self.due.is_empty() && self.best_effort.is_empty()
    }

    /// Nothing to run at that time.
    pub fn is_idle_at(&self, now_ns: u64) -> bool {
        self.best_effort.is_empty() && self.heads().due_ns > now_ns
    }

    /// What to tell the others: one's own two heads.
    pub fn heads(&self) -> Next {
        Next {
            due_ns: self.due.keys().next().map_or(NEVER, |(due_ns, _)| *due_ns),
            best_effort: self
                .best_effort
                .keys()
                .next()
                .map(|(priority, key, _)| (*priority, *key)),
        }
    }

    /// The head of all queues, the proxies among them. They are not inserted: their ranks change behind the
    /// queues' back, so they are compared with the heads instead. A proxy is submitted after one's own events, so
    /// among equals it comes last.
    pub fn pick(&self, now_ns: u64, proxies: Proxies) -> Pick {
        let yields = proxies.yield_by_ns <= now_ns;
        if let Some(((due_ns, _), event)) = self.due.first_key_value() {
            if *due_ns <= now_ns && (!yields || *due_ns <= proxies.yield_by_ns) {
                return Pick::Run(*event);
            }
        }
        if yields {
            return Pick::Yield;
        }
        match self.best_effort.first_key_value() {
            None => Pick::Yield,
            Some(((priority, key, _), event)) => match proxies.best_effort {
                Some(theirs) if theirs < (*priority, *key) => Pick::Yield,
                _ => Pick::Run(*event),
            },
        }
    }
}
