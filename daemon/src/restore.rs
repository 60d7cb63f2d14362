// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the journal says, taken up by a daemon that starts: reservations of those that live, their credits, and a
//! division of the machine that was made at run time.

use std::{io, path::Path};

use tracing::{debug, error, info, warn};

use crate::{
    admission::Reservation,
    classes::Classes,
    config::Division,
    credits::Credits,
    journal::{Entry, Journal},
    rate::Rate,
    reservations::Reservations,
    service::Service,
    targets::Families,
    terms::check_period,
    Refusal,
};

impl Service {
    /// Divides the machine, and takes up what the journal says: called once, before anybody is served. Where the journal
    /// cannot be used, programs are served without one.
    ///
    /// # Errors
    /// When the scheduler refuses the division.
    pub fn open_reservations(&mut self, division: Division, journal: &Path) -> io::Result<()> {
        let path = journal;
        let mut journal_error = None;
        let (mut journal, entries) = match Journal::open(path) {
            Ok((journal, entries)) => (Some(journal), entries),
            Err(error) => {
                warn_of_no_journal(path, &error);
                journal_error = Some(error.to_string());
                (None, Vec::new())
            }
        };
        let file = division.classes.clone();
        self.limit_users(&division);
        self.reservations = Reservations::new(division);
        let Replay { now, held, credits } = replay(&file, &entries);
        self.host
            .set_classes(&now.table())
            .map_err(io::Error::other)?;
        self.reservations.ledger.set_classes(now);
        let families = match held.is_empty() {
            true => Families::default(),
            false => self.processes.families(),
        };
        for (number, entry) in held {
            self.restore(number, entry, &credits, &families);
        }
        self.restore_credits(credits);
        let entries = self.reservations.entries();
        let rewritten = journal.as_mut().map(|journal| journal.rewrite(&entries));
        if let Some(Err(error)) = rewritten {
            // What it says still holds, and more can be appended once there is room.
            error!(%error, journal = %path.display(), "the journal cannot be written anew");
        }
        self.reservations.journal = journal;
        self.reservations.journal_error = journal_error;
        Ok(())
    }

    fn restore(&mut self, number: u32, entry: &Entry, credits: &Credits, families: &Families) {
        let Entry::Reserve {
            uid,
            class,
            rate,
            auto,
            period_ns,
            target,
            since,
            ..
        } = entry
        else {
            return;
        };
        if !self.processes.exists(target) {
            debug!(number, "the owner of a reservation has ended meanwhile");
            return;
        }
        let ledger = &self.reservations.ledger;
        let class = check_period(*period_ns)
            .and_then(|()| ledger.classes().find(class).map_err(Refusal::from));
        let admitted = class.and_then(|class| {
            let rate = Rate(*rate);
            // Its user's limits were looked at when it was made.
            if rate > Rate(0) {
                ledger.admit(0, class, rate, None)?;
            }
            let (uid, auto, period_ns, target) = (*uid, *auto, *period_ns, target.clone());
            Ok(Reservation {
                uid,
                class,
                rate,
                auto,
                period_ns,
                target,
            })
        });
        let threads = self.processes.threads_below(target, families, *since);
        let usable = credits.balance(number, Rate(*rate));
        let restored = admitted.and_then(|reservation| {
            let id = self.put_in_force(&reservation, usable, &threads)?;
            Ok((id, reservation))
        });
        match restored {
            Ok((id, reservation)) => {
                info!(number, target = target.number(), "reservation restored");
                self.take_in(number, id, *since, reservation);
            }
            Err(refusal) => {
                warn!(number, target = target.number(), %refusal, "a reservation cannot be restored");
            }
        }
    }
}

fn warn_of_no_journal(path: &Path, error: &io::Error) {
    error!(
        %error,
        journal = %path.display(),
        "the journal cannot be used: what is reserved from now on ends with the daemon; make room or mend the file, and \
         restart"
    );
}

/// What a journal comes to.
struct Replay<'a> {
    now: Classes,
    /// The last entry of each reservation that was not released.
    held: Vec<(u32, &'a Entry)>,
    credits: Credits,
}

fn replay<'a>(file: &Classes, entries: &'a [Entry]) -> Replay<'a> {
    let mut classes = file.clone();
    let mut held: Vec<(u32, &Entry)> = Vec::new();
    let mut last_credits = Credits::default();
    for entry in entries {
        match entry {
            Entry::Classes { file: then, now } if then == file => classes = now.clone(),
            Entry::Classes { .. } => {}
            Entry::Reserve { number, .. } => match held.iter_mut().find(|held| held.0 == *number) {
                Some(held) => held.1 = entry,
                None => held.push((*number, entry)),
            },
            Entry::Release { number } => held.retain(|held| held.0 != *number),
            Entry::Credits { credits } => last_credits = credits.clone(),
            Entry::Lent { changes } => last_credits.apply(changes),
            Entry::Journal { .. } => {}
        }
    }
    Replay {
        now: classes,
        held,
        credits: last_credits,
    }
}
