// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the journal says, taken up by a daemon that starts: reservations of those that live, their credits, and a
//! division of the machine that was made at run time.

use std::{collections::HashMap, io, path::Path};

use consort_kernel::Error;
use nix::errno::Errno;
use tracing::{debug, error, info, warn};

use crate::{
    admission::Reservation,
    classes::Classes,
    config::Division,
    credits::Credits,
    journal::{Entry, Journal},
    rate::{Rate, RATE_MIN},
    reservations::Reservations,
    search::{Search, THREADS_AT_ONCE},
    service::Service,
    targets::{Families, Target},
    terms::{check_period, not_scheduled, terms},
    Refusal,
};

/// Until the threads of reservations that end have left them.
const DIVIDE_TURNS_MAX: u32 = 100;
/// Threads looked at before anybody is served, for all reservations.
const THREADS_RESTORED_AT_ONCE: usize = 16 * THREADS_AT_ONCE;

impl Service {
    /// Divides the machine, and takes up what the journal says: called once, before anybody is served. Where the journal
    /// cannot be used, programs are served without one.
    ///
    /// # Errors
    /// When the scheduler refuses the division.
    pub fn open_reservations(&mut self, division: Division, journal: &Path) -> io::Result<()> {
        let path = journal;
        let (entries, journal) = Journal::open(path);
        let journal_error = journal.as_ref().err().map(ToString::to_string);
        let journal = journal
            .inspect_err(|error| warn_of_no_journal(path, error))
            .ok();
        let file = division.classes.clone();
        self.limit_users(&division);
        self.reservations = Reservations::new(division);
        let Replay { now, held, credits } = replay(&file, &entries);
        let mut kept = self.kept_reservations().map_err(io::Error::other)?;
        self.divide_anew(&now, &mut kept)
            .map_err(io::Error::other)?;
        self.reservations.ledger.set_classes(now);
        let families = match held.iter().all(|(number, _)| kept.contains_key(number)) {
            true => Families::default(),
            false => self.processes.families(),
        };
        let mut left = THREADS_RESTORED_AT_ONCE;
        for (number, entry) in held {
            let id = kept.remove(&number);
            self.restore((number, entry), id, &credits, &families, &mut left);
        }
        // Made by a daemon that has ended before it could tell, or ended by one that has before it could do it.
        kept.into_values().for_each(|id| self.end(id));
        self.restore_credits(credits);
        self.reservations.journal = journal;
        self.reservations.journal_error = journal_error;
        if let Err(refusal) = self.reservations.write_anew() {
            // It may say more than holds: of who has ended meanwhile.
            error!(%refusal, journal = %path.display(), "the journal cannot be written anew");
        }
        Ok(())
    }

    /// The scheduler's numbers of what it has reserved already, by the journal's.
    fn kept_reservations(&mut self) -> Result<HashMap<u32, u32>, Error> {
        let mut kept = HashMap::new();
        for (id, number) in self.host.reservations()? {
            let twice = match number {
                Some(number) => kept.insert(number, id),
                None => Some(id),
            };
            if let Some(id) = twice {
                self.end(id);
            }
        }
        Ok(kept)
    }

    /// Another daemon may have divided the machine otherwise, and ended what did not fit, and has not taken over: what this
    /// one has admitted is in force again.
    pub(crate) fn take_reservations_back(&mut self) {
        let classes = self.reservations.ledger.classes().clone();
        let kept = self.host.reservations().and_then(|all| {
            // Those of groups have no numbers, and are made anew with these.
            let numbered = all
                .into_iter()
                .filter_map(|(id, number)| Some((number?, id)));
            let mut kept = numbered.collect();
            self.divide_anew(&classes, &mut kept)?;
            Ok(kept)
        });
        let mut kept: HashMap<u32, u32> = match kept {
            Ok(kept) => kept,
            Err(error) => return warn!(%error, "reservations may be other ones than are in force"),
        };
        let numbers: Vec<u32> = self.reservations.in_force.keys().copied().collect();
        let mut gone = Vec::new();
        for number in numbers {
            let id = kept.remove(&number);
            if let Err(refusal) = self.take_back_one(number, id) {
                warn!(number, %refusal, "a reservation that another daemon has ended");
                id.into_iter().for_each(|id| self.end(id));
                // The number that it had in the scheduler may be another's by now.
                self.reservations.in_force.remove(&number);
                gone.push(number);
            }
        }
        // Only now: whose credits they are have their own numbers again.
        gone.into_iter()
            .for_each(|number| self.drop_reservation(number));
        kept.into_values().for_each(|id| self.end(id));
    }

    /// `kept`: the scheduler's number of it, where that has it still.
    fn take_back_one(&mut self, number: u32, kept: Option<u32>) -> Result<(), Refusal> {
        let balance = self.reservations.balance(number).max(RATE_MIN);
        let Some((_, held)) = self.held(number) else {
            return Ok(());
        };
        if matches!(held.target, Target::Group { .. }) {
            return Ok(());
        }
        let (mut search, mut left) = (Search::new(&held.target), THREADS_AT_ONCE);
        let id = match kept {
            Some(id) => {
                self.host.change_reservation(id, terms(&held, balance))?;
                id
            }
            None => self.put_in_force(number, (&held, balance), &mut search, &mut left)?,
        };
        if let Some(in_force) = self.reservations.in_force.get_mut(&number) {
            in_force.id = id;
            if kept.is_none() {
                in_force.search = search;
            }
        }
        Ok(())
    }

    /// Divides the machine. What stands in the way of another division is reserved anew.
    fn divide_anew(&mut self, now: &Classes, kept: &mut HashMap<u32, u32>) -> Result<(), Error> {
        let is_busy = |outcome: &Result<(), Error>| matches!(outcome, Err(Error::Refused { errno, .. }) if *errno == libc::EBUSY);
        let mut divided = self.host.set_classes(&now.table());
        if is_busy(&divided) {
            warn!("the machine is divided otherwise than the scheduler that was taken over has it");
        }
        for _ in 0..DIVIDE_TURNS_MAX {
            if !is_busy(&divided) {
                break;
            }
            let doomed = std::mem::take(&mut self.reservations.doomed);
            let ids = kept.drain().map(|(_, id)| id).chain(doomed);
            ids.collect::<Vec<_>>()
                .into_iter()
                .for_each(|id| self.end(id));
            divided = self.host.set_classes(&now.table());
        }
        divided
    }

    /// `kept`: the scheduler's number of it, where that has it already. `left`: so many threads may be looked at.
    fn restore(
        &mut self,
        (number, entry): (u32, &Entry),
        kept: Option<u32>,
        credits: &Credits,
        families: &Families,
        left: &mut usize,
    ) {
        let Entry::Reserve {
            uid,
            class,
            rate,
            auto,
            period_ns,
            target,
            since,
            groups,
            ..
        } = entry
        else {
            return;
        };
        // Of one that the scheduler has, it knows who shares it; without its owner it may be a child's.
        if kept.is_none() && !self.processes.exists(target) {
            debug!(number, "the owner of a reservation has ended meanwhile");
            return;
        }
        let ledger = &self.reservations.ledger;
        let class = check_number(number)
            .and_then(|()| check_period(*period_ns))
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
        let usable = credits.balance(number, Rate(*rate));
        let mut search = match (target, kept) {
            (Target::Process { pid, .. }, None) => {
                let children = self.processes.processes_below(*pid, families, *since);
                Search::with(target, children)
            }
            (Target::Process { pid, .. }, Some(_))
                if self.processes.all_threads(*pid).len() <= THREADS_AT_ONCE =>
            {
                Search::default()
            }
            // The daemon before may not have come to all of its threads.
            _ => Search::new(target),
        };
        let restored = admitted.and_then(|reservation| {
            let id = match kept {
                Some(id) => {
                    let terms = terms(&reservation, usable.max(RATE_MIN));
                    self.host.change_reservation(id, terms)?;
                    id
                }
                None => {
                    let wanted = (&reservation, usable);
                    let id = self.put_in_force(number, wanted, &mut search, left)?;
                    if search.found_nobody() && search.absent.is_empty() {
                        self.end(id);
                        return Err(not_scheduled(target));
                    }
                    id
                }
            };
            Ok((id, reservation))
        });
        match restored {
            Ok((id, reservation)) => {
                info!(number, target = target.number(), "reservation restored");
                self.take_in(number, (id, *since, search), reservation);
                self.reservations.set_groups(number, groups.clone());
            }
            Err(refusal) => {
                warn!(number, target = target.number(), %refusal, "a reservation cannot be restored");
                kept.into_iter().for_each(|id| self.end(id));
            }
        }
    }
}

/// Lists begin behind 0: that is damage.
fn check_number(number: u32) -> Result<(), Refusal> {
    if number > 0 {
        return Ok(());
    }
    let text = "no reservation has the number 0: expected 1 or more";
    Err(Refusal::new(Errno::ERANGE, text))
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
            // The file said something else meanwhile: what was made before that has been forgotten.
            Entry::Classes { .. } => classes = file.clone(),
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
