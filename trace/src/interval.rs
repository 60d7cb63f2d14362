// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of the intervals in which a group's function has its members run.

use std::collections::{BTreeMap, HashMap};

use consort_abi::*;

use crate::{
    record::{Record, What},
    Histogram, Label, Trace,
};

/// What became of one, or of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// Its thread has the CPU in it, for the first time: so much after it began, or that woke.
    Began { late_ns: u64 },
    /// It is over, and its thread has run in it, or had nothing more to do.
    Kept,
    /// It is over, and its thread has not run.
    Missed(Miss),
    /// So many were missed after that one, before anybody looked.
    Passed { count: u32, why: Miss },
    /// Another one took its place while it was on, and its thread had not run yet.
    Dropped,
}

impl Became {
    /// `enum consort_trace_became`, and what a record says beside it. `None`: the numbers mean nothing.
    pub fn of_numbers(became: u32, late_ns: u64, count: u32, why: u32) -> Option<Became> {
        let why = Miss::of_number(why);
        Some(match became {
            CONSORT_TRACE_BEGAN => Became::Began { late_ns },
            CONSORT_TRACE_KEPT => Became::Kept,
            CONSORT_TRACE_MISSED => Became::Missed(why?),
            CONSORT_TRACE_PASSED => Became::Passed { count, why: why? },
            CONSORT_TRACE_DROPPED => Became::Dropped,
            _ => return None,
        })
    }

    /// As tables spell it.
    pub fn word(self) -> &'static str {
        match self {
            Became::Began { .. } => "began",
            Became::Kept => "kept",
            Became::Missed(_) | Became::Passed { .. } => "missed",
            Became::Dropped => "dropped",
        }
    }

    /// Of those that were missed.
    pub fn why(self) -> Option<Miss> {
        match self {
            Became::Missed(why) | Became::Passed { why, .. } => Some(why),
            _ => None,
        }
    }
}

/// Why an interval was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Miss {
    /// There was no thread of that name.
    Vacant,
    /// Its thread did not want the CPU, or another scheduling class had it.
    Asleep,
    /// Its thread had no seat in the account that it is in.
    Outside,
    /// Its group was as far ahead of its share as it may be.
    Share,
    /// Other due events had the CPU.
    Others,
}

/// In the order of their numbers.
const MISSES: [Miss; CONSORT_TRACE_OTHERS as usize + 1] = [
    Miss::Vacant,
    Miss::Asleep,
    Miss::Outside,
    Miss::Share,
    Miss::Others,
];

impl Miss {
    /// As `consort show` has it.
    pub fn word(self) -> &'static str {
        match self {
            Miss::Vacant => "vacant",
            Miss::Asleep => "asleep",
            Miss::Outside => "outside",
            Miss::Share => "share",
            Miss::Others => "others",
        }
    }

    fn of_number(number: u32) -> Option<Miss> {
        MISSES.get(number as usize).copied()
    }
}

/// Which member of which group: the scheduler's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role {
    pub group: u32,
    pub role: u16,
}

/// An interval, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub of: Role,
    /// Of [`Became::Passed`] it is not known, as the next one.
    pub from_ns: u64,
    pub until_ns: u64,
    pub became: Became,
}

pub(crate) fn parse(raw: &consort_trace_record__bindgen_ty_1) -> Option<What> {
    // SAFETY: integers, of which any bytes are a value.
    let it = unsafe { &raw.interval };
    let became = Became::of_numbers(it.became.into(), it.late_ns, it.count, it.why.into())?;
    Some(What::Interval(Interval {
        of: Role {
            group: it.group,
            role: it.role,
        },
        from_ns: it.from_ns,
        until_ns: it.until_ns,
        became,
    }))
}

pub(crate) fn fill(raw: &mut consort_trace_record__bindgen_ty_1, interval: &Interval) {
    // SAFETY: a member of a union whose bytes are all written.
    let it = unsafe { &mut raw.interval };
    (it.group, it.role) = (interval.of.group, interval.of.role);
    (it.from_ns, it.until_ns) = (interval.from_ns, interval.until_ns);
    it.count = 1;
    let became = match interval.became {
        Became::Began { late_ns } => {
            it.late_ns = late_ns;
            CONSORT_TRACE_BEGAN
        }
        Became::Kept => CONSORT_TRACE_KEPT,
        Became::Missed(_) => CONSORT_TRACE_MISSED,
        Became::Passed { count, .. } => {
            it.count = count;
            CONSORT_TRACE_PASSED
        }
        Became::Dropped => CONSORT_TRACE_DROPPED,
    };
    it.became = became as u16;
    it.why = interval.became.why().map_or(0, |why| why as u16);
}

/// How roles are called: "group/member".
#[derive(Debug, Default)]
pub struct Roles(HashMap<Role, Label>);

impl Roles {
    /// What a trace says of them, wherever it does.
    pub fn of(trace: &Trace) -> Roles {
        let mut roles = Roles::default();
        for record in trace.records() {
            if let What::Role { of, label } = record.what {
                roles.0.insert(of, label);
            }
        }
        roles
    }

    /// Its numbers, if nobody has said how it is called.
    pub fn label(&self, of: Role) -> Label {
        let known = self.0.get(&of).cloned();
        known.unwrap_or_else(|| {
            Label::new(&format!("group {}", of.group), &format!("role {}", of.role))
        })
    }
}

/// What became of a role's intervals.
#[derive(Debug)]
pub struct OfRole {
    pub label: Label,
    /// Of the thread that had it last; 0: there was none.
    pub tid: i32,
    pub kept: u64,
    pub missed: BTreeMap<Miss, u64>,
    pub dropped: u64,
    /// From an interval's beginning, or its thread's wake-up in it, until that ran.
    pub late_ns: Histogram,
    /// From an interval's beginning until its thread ran: 003's FDTE-S.
    pub started_ns: Histogram,
    /// From there until it slept for the first time after it had begun: 003's FDTE-C.
    pub completed_ns: Histogram,
}

/// Of all roles.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    roles: BTreeMap<Label, OfRole>,
    /// Threads that run, and since when.
    running: HashMap<i32, u64>,
    /// Threads that have begun an interval, and have not slept since: whose it is, and when it began.
    begun: HashMap<i32, (Label, u64)>,
}

impl Intervals {
    /// Learns from any record who runs and who sleeps.
    pub fn follow(&mut self, record: &Record) {
        let What::Switch { prev_tid, left, .. } = record.what else {
            return;
        };
        self.running.remove(&prev_tid);
        self.running.insert(record.tid, record.at_ns);
        if left.waits() {
            return;
        }
        if let Some((label, from_ns)) = self.begun.remove(&prev_tid) {
            if let Some(it) = self.roles.get_mut(&label) {
                it.completed_ns
                    .add(signed(record.at_ns.saturating_sub(from_ns)));
            }
        }
    }

    pub fn add(&mut self, record: &Record, interval: &Interval, label: Label) {
        let (from_ns, tid) = (interval.from_ns, record.tid);
        let it = self.roles.entry(label.clone()).or_insert_with(|| OfRole {
            label: label.clone(),
            tid: 0,
            kept: 0,
            missed: BTreeMap::new(),
            dropped: 0,
            late_ns: Histogram::default(),
            started_ns: Histogram::default(),
            completed_ns: Histogram::default(),
        });
        if record.tid != 0 {
            it.tid = record.tid;
        }
        match interval.became {
            Became::Began { late_ns } => {
                it.late_ns.add(signed(late_ns));
                // One that runs already has begun when the interval did, or when its run did.
                let since_ns = self.running.get(&tid).copied().unwrap_or(record.at_ns);
                it.started_ns.add(signed(since_ns.saturating_sub(from_ns)));
                self.begun.insert(tid, (label, from_ns));
            }
            Became::Kept => it.kept += 1,
            Became::Missed(why) => *it.missed.entry(why).or_default() += 1,
            Became::Passed { count, why } => {
                *it.missed.entry(why).or_default() += u64::from(count);
            }
            Became::Dropped => it.dropped += 1,
        }
    }

    pub fn into_roles(self) -> Vec<OfRole> {
        self.roles.into_values().collect()
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn misses_are_in_the_order_of_their_numbers() {
        for (number, miss) in MISSES.into_iter().enumerate() {
            assert_eq!(miss as usize, number);
            assert_eq!(Miss::of_number(number as u32), Some(miss));
        }
        assert_eq!(Miss::of_number(99), None);
    }

    /// Something about the first role of the first group, from 100 to 200.
    pub fn interval(at_ns: u64, became: Became) -> Record {
        let of = Role { group: 1, role: 0 };
        Record {
            at_ns,
            cpu: Some(0),
            tid: 1,
            pid: 0,
            what: What::Interval(Interval {
                of,
                from_ns: 100,
                until_ns: 200,
                became,
            }),
        }
    }

    pub fn name(text: &str) -> Record {
        let (family, name) = text.split_once('/').unwrap();
        let of = Role { group: 1, role: 0 };
        Record {
            at_ns: 1000,
            cpu: None,
            tid: 0,
            pid: 0,
            what: What::Role {
                of,
                label: Label::new(family, name),
            },
        }
    }
}
