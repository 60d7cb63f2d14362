// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the journal says of reservations, and what it owes: something that holds whatever fails, such as an end, and that there
//! was no room to say.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use tracing::warn;

use crate::{
    admission::Reservation, journal::Entry, reservations::Reservations, targets::Target, Refusal,
};

/// Keeps lines of a journal that is written anew short.
const CREDITS_A_LINE: usize = 64;
/// With so many reservations, a journal that owes something is tried for whoever asks; with more of them not more often than
/// this.
const PAY_FREELY: usize = 64;
const PAY_INTERVAL: Duration = Duration::from_millis(250);

impl Reservations {
    /// Writes down what is about to hold.
    ///
    /// # Errors
    /// EIO when that cannot be: then it must not hold.
    pub(crate) fn write(&mut self, entry: &Entry) -> Result<(), Refusal> {
        self.pay()?;
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        let written = journal.append(entry);
        self.journal_error = written.as_ref().err().map(ToString::to_string);
        written.map_err(not_written)
    }

    /// Writes down what holds in any case, now or later.
    pub(crate) fn note(&mut self, entry: &Entry) {
        let Err(refusal) = self.write(entry) else {
            return;
        };
        // Once: on a full disk as much may end as there is.
        if !std::mem::replace(&mut self.owes, true) {
            warn!(%refusal, "the journal does not say yet what has ended");
        }
    }

    /// Writes a journal anew that owes something. A line that followed in the old one would be read by a daemon that does not
    /// know what has ended before.
    ///
    /// # Errors
    /// EIO when that cannot be, or has just been tried: nothing must change that needs a line.
    pub(crate) fn pay(&mut self) -> Result<(), Refusal> {
        if !self.owes {
            return Ok(());
        }
        let now = Instant::now();
        let recent = |then: Instant| now.saturating_duration_since(then) < PAY_INTERVAL;
        if self.ledger.len() > PAY_FREELY && self.tried.is_some_and(recent) {
            return Err(not_written("it owes what has ended, and is tried again"));
        }
        self.tried = Some(now);
        self.write_anew()
    }

    /// Makes the journal say what holds, and nothing else.
    ///
    /// # Errors
    /// EIO when that cannot be: it owes that now.
    pub(crate) fn write_anew(&mut self) -> Result<(), Refusal> {
        let entries = self.entries();
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        let written = journal.rewrite(&entries);
        self.owes = written.is_err();
        self.journal_error = written.as_ref().err().map(ToString::to_string);
        written.map_err(not_written)
    }

    /// Another daemon may have replaced the journal's file, and has not taken over: it says what holds here again.
    pub(crate) fn take_journal_back(&mut self) {
        if let Err(refusal) = self.write_anew() {
            warn!(%refusal, "the journal may be another daemon's");
        }
    }

    pub(crate) fn compact(&mut self) {
        let entries = match &self.journal {
            Some(journal) if journal.is_stale(self.ledger.len()) => self.entries(),
            _ => return,
        };
        let shortened = self.journal.as_mut().map(|it| it.rewrite(&entries));
        match shortened {
            // What it says holds.
            Some(Err(error)) => warn!(%error, "cannot shorten the journal"),
            _ => self.owes = false,
        }
    }

    pub(crate) fn since(&self, number: u32) -> u64 {
        self.in_force(number).map_or(0, |held| held.since)
    }

    /// `since`, `groups`: when it began, and what it keeps of who has asked.
    pub(crate) fn entry(
        &self,
        number: u32,
        reservation: &Reservation,
        (since, groups): (u64, &[u32]),
    ) -> Entry {
        let class = self.ledger.classes().get(reservation.class);
        Entry::Reserve {
            number,
            uid: reservation.uid,
            class: class.map_or_else(String::new, |class| class.name.clone()),
            rate: reservation.rate.0,
            auto: reservation.auto,
            period_ns: reservation.period_ns,
            target: reservation.target.clone(),
            since,
            groups: groups.to_vec(),
        }
    }

    /// Everything that holds, as a journal would say it.
    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        if self.file != *self.ledger.classes() {
            entries.push(Entry::Classes {
                file: self.file.clone(),
                now: self.ledger.classes().clone(),
            });
        }
        // A group's is in its file.
        let is_group = |held: &Reservation| matches!(held.target, Target::Group { .. });
        let held = self.ledger.iter().filter(|(_, held)| !is_group(held));
        entries.extend(held.map(|(number, reservation)| {
            let groups = self.groups(number);
            self.entry(number, reservation, (self.since(number), &groups))
        }));
        let lent: Vec<_> = self.credits.iter().copied().collect();
        let lines = lent.chunks(CREDITS_A_LINE);
        entries.extend(lines.map(|changes| Entry::Lent {
            changes: changes.to_vec(),
        }));
        entries
    }
}

fn not_written(why: impl std::fmt::Display) -> Refusal {
    let text = format!("cannot write the journal, so nothing was changed: {why}");
    Refusal::new(Errno::EIO, text)
}
