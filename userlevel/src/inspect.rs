// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking at domains from outside: for `consort status`, and for tests.

use crate::layout::{ABSENT, ASLEEP, AWAY, RUNNING, WAITING};
use crate::os::{Fate, Os, Who};
use crate::rendezvous::names_in;
use crate::Linux;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// A domain, as its memory has it now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainReport {
    pub name: String,
    /// The user who made it.
    pub user: u32,
    pub event_ns: u64,
    /// `enum consort_order`.
    pub order: u32,
    /// Turns given to others.
    pub handovers: u64,
    /// Members that had a turn, did not poll in time, and were skipped; and those of them that came back.
    pub skipped: u64,
    pub readmitted: u64,
    /// Members that died without leaving.
    pub buried: u64,
    pub locks_taken_over: u64,
    pub members: Vec<MemberReport>,
}

/// One of its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberReport {
    pub who: Who,
    pub state: &'static str,
    /// Turns that it gave to others.
    pub yields: u32,
    pub skips: u32,
    pub is_dead: bool,
}

/// The domains of a directory, by name. What cannot be read is left out.
pub fn domains(directory: &Path) -> Vec<DomainReport> {
    let mut found: Vec<DomainReport> = names_in(directory)
        .into_iter()
        .filter_map(|name| domain(directory, name))
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn domain(directory: &Path, name: String) -> Option<DomainReport> {
    let (user, segment) = crate::rendezvous::look(directory, &name)?;
    let table = segment.table();
    let terms = table.terms()?;
    let header = table.header();
    let os = Linux::new();
    let taken = |index: &usize| table.seat(*index).owner.load(Relaxed) != 0;
    let member = |index: usize| {
        let (seat, who) = (table.seat(index), table.who(index));
        MemberReport {
            who,
            state: state_word(seat.state.load(Relaxed)),
            yields: seat.yields.load(Relaxed),
            skips: seat.skips.load(Relaxed),
            is_dead: os.fate(&who) == Fate::Gone,
        }
    };
    Some(DomainReport {
        name,
        user,
        event_ns: terms.event_ns,
        order: terms.order,
        handovers: header.handovers.load(Relaxed),
        skipped: header.skipped.load(Relaxed),
        readmitted: header.readmitted.load(Relaxed),
        buried: header.buried.load(Relaxed),
        locks_taken_over: header.locks_taken_over.load(Relaxed),
        members: (0..table.seats_used()).filter(taken).map(member).collect(),
    })
}

fn state_word(state: u32) -> &'static str {
    match state {
        RUNNING => "running",
        WAITING => "waiting",
        ASLEEP | AWAY => "asleep",
        ABSENT => "unpolled",
        _ => "joining",
    }
}
