// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reservations as the service keeps them: admitted in the ledger, in force in the scheduler, written in the journal.
//!
//! A request is done in this order: the ledger agrees, the scheduler does it, the journal keeps it, the program is
//! told. Killed at any point, the daemon comes back with what the journal says, and the scheduler, which went with it,
//! is told that and nothing else: what is admitted is what is in force.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use consort_kernel::Terms;
use nix::errno::Errno;
use serde::Deserialize;
use tracing::{debug, warn};

use crate::{
    admission::{Ledger, Range, Reservation, UserLimits, PERIOD_MAX_NS, PERIOD_MIN_NS},
    classes::Classes,
    config::Division,
    credits::Credits,
    journal::{Entry, Journal},
    peer::{Peer, Processes},
    rate::{Rate, RATE_MIN},
    service::Service,
    targets::{Named, Target},
    usage::History,
    Refusal,
};

/// So many reservations are searched for dead ones whenever a request would be refused; more of them not more often
/// than this.
const SEARCH_FREELY: usize = 64;
const SEARCH_INTERVAL: Duration = Duration::from_millis(250);
/// A process that makes threads while it gets its reservation is searched for new ones so often.
const SEARCHES_MAX: usize = 8;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    pub named: Named,
    pub class: String,
    pub rate: AskedRate,
    pub period_ns: u64,
}

/// Parts of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum AskedRate {
    Fixed(f64),
    /// Follows demand, between these two; begins with the least.
    Auto {
        least: f64,
        most: f64,
    },
}

impl AskedRate {
    fn checked(self) -> Result<(Rate, Option<Range>), Refusal> {
        let (least, most) = match self {
            AskedRate::Fixed(rate) => return Ok((Rate::asked(rate)?, None)),
            AskedRate::Auto { least, most } => (Rate::asked(least)?, Rate::asked(most)?),
        };
        if least > most {
            let text =
                format!("an automatic rate from {least} to {most}: expected the smaller one first");
            return Err(Refusal::new(Errno::ERANGE, text));
        }
        let (range, least) = (
            Range {
                least: least.0,
                most: most.0,
            },
            least,
        );
        Ok((least, Some(range)))
    }
}

pub struct Reservations {
    pub ledger: Ledger,
    pub credits: Credits,
    /// Of those who are in these Unix groups.
    group_limits: BTreeMap<u32, UserLimits>,
    /// As the operator's file divides the machine.
    pub(crate) file: Classes,
    pub(crate) journal: Option<Journal>,
    pub(crate) in_force: HashMap<u32, InForce>,
    /// Reservations that are over, and that the scheduler could not end yet.
    pub(crate) doomed: Vec<u32>,
    /// When the dead were last searched for among all.
    searched: Option<Instant>,
    /// Where the last sweep stopped.
    pub(crate) swept: u32,
}

/// What the scheduler knows of a reservation.
#[derive(Debug)]
pub struct InForce {
    /// The scheduler's number.
    pub id: u32,
    pub history: History,
}

impl Reservations {
    /// Without a journal: what is reserved ends with the daemon.
    pub fn new(division: Division) -> Self {
        Reservations {
            file: division.classes.clone(),
            ledger: Ledger::new(division.classes, division.limits),
            group_limits: division.group_limits,
            credits: Credits::default(),
            journal: None,
            in_force: HashMap::new(),
            doomed: Vec::new(),
            searched: None,
            swept: 0,
        }
    }

    pub fn in_force(&self, number: u32) -> Option<&InForce> {
        self.in_force.get(&number)
    }

    /// What a reservation may use: its own rate, with what it was lent and without what it has lent.
    pub fn balance(&self, number: u32) -> Rate {
        self.credits.balance(number, self.own(number))
    }

    pub(crate) fn own(&self, number: u32) -> Rate {
        self.ledger.get(number).map_or(Rate(0), |held| held.rate)
    }

    pub(crate) fn write(&mut self, entry: &Entry) -> Result<(), Refusal> {
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        journal.append(entry).map_err(|error| {
            let text = format!("cannot write the journal, so nothing was changed: {error}");
            Refusal::new(Errno::EIO, text)
        })
    }

    /// What the owner of process `pid` may have, by the groups that the process is in.
    fn limits_of(&self, processes: &Processes, pid: i32) -> UserLimits {
        let everybodys = self.ledger.limits();
        if self.group_limits.is_empty() {
            return everybodys;
        }
        let groups = processes.groups_of(pid).into_iter();
        groups
            .filter_map(|group| self.group_limits.get(&group).copied())
            .fold(everybodys, UserLimits::or)
    }

    fn may_search(&mut self) -> bool {
        let now = Instant::now();
        let recent = |then: Instant| now.saturating_duration_since(then) < SEARCH_INTERVAL;
        if self.ledger.len() > SEARCH_FREELY && self.searched.is_some_and(recent) {
            return false;
        }
        self.searched = Some(now);
        true
    }

    fn entry(&self, number: u32, reservation: &Reservation) -> Entry {
        let class = self.ledger.classes().get(reservation.class);
        Entry::Reserve {
            number,
            uid: reservation.uid,
            class: class.map_or_else(String::new, |class| class.name.clone()),
            rate: reservation.rate.0,
            auto: reservation.auto,
            period_ns: reservation.period_ns,
            target: reservation.target.clone(),
        }
    }

    /// Everything that holds, as a journal would say it.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        if self.file != *self.ledger.classes() {
            entries.push(Entry::Classes {
                file: self.file.clone(),
                now: self.ledger.classes().clone(),
            });
        }
        let held = self.ledger.iter();
        entries.extend(held.map(|(number, reservation)| self.entry(number, reservation)));
        if self.credits != Credits::default() {
            let credits = self.credits.clone();
            entries.push(Entry::Credits { credits });
        }
        entries
    }

    pub(crate) fn compact(&mut self) {
        let holding = self.ledger.len();
        if !self
            .journal
            .as_ref()
            .is_some_and(|journal| journal.is_stale(holding))
        {
            return;
        }
        let entries = self.entries();
        let rewritten = self
            .journal
            .as_mut()
            .map(|journal| journal.rewrite(&entries));
        if let Some(Err(error)) = rewritten {
            warn!(%error, "cannot shorten the journal");
        }
    }
}

impl Service {
    /// Reserves, or changes what is reserved for the same process or thread.
    ///
    /// # Errors
    /// ERANGE for a rate or period out of range, ENOENT for an unknown class, ENOSPC or EDQUOT when there is not that
    /// much left, ESRCH, EPERM. Nothing is changed then.
    pub fn reserve(&mut self, peer: &Peer, ask: &Ask) -> Result<u32, Refusal> {
        let class = self.reservations.ledger.classes().find(&ask.class)?;
        let (rate, auto) = ask.rate.checked()?;
        check_period(ask.period_ns)?;
        let target = self.processes.named(peer, &ask.named)?;
        let old = self.reservations.ledger.find(&target);
        let uid = match old.and_then(|number| self.reservations.ledger.get(number)) {
            Some(old) => old.uid,
            None => peer.uid,
        };
        let limits = self.limits_of(&target, peer.pid);
        self.admit(limits, uid, class, rate, old)?;
        let moves = old.filter(|old| {
            self.reservations
                .ledger
                .get(*old)
                .is_some_and(|old| old.class != class)
        });
        if moves.is_some_and(|old| self.reservations.credits.concern(old)) {
            let text =
                "credits stay in their class: recollect and return them before changing the class";
            return Err(Refusal::new(Errno::EBUSY, text));
        }
        let period_ns = ask.period_ns;
        let wanted = Reservation {
            uid,
            class,
            rate,
            auto,
            period_ns,
            target,
        };
        match old {
            Some(number) => self.change(number, wanted),
            None => self.begin(wanted, rate),
        }
    }

    /// The limits of the target's owner; a cgroup is in no group, who asks for it is.
    pub(crate) fn limits_of(&self, target: &Target, asker: i32) -> UserLimits {
        let pid = match target {
            Target::Process { pid, .. } | Target::Thread { pid, .. } => *pid,
            Target::Cgroup { .. } => asker,
        };
        self.reservations.limits_of(&self.processes, pid)
    }

    /// The dead are forgotten before the living are refused; where there are many, that is not looked at each time.
    pub(crate) fn admit(
        &mut self,
        limits: UserLimits,
        uid: u32,
        class: usize,
        rate: Rate,
        old: Option<u32>,
    ) -> Result<(), Refusal> {
        let ledger = &self.reservations.ledger;
        let refused = ledger.admit_within(limits, uid, class, rate, old);
        if refused.is_ok() || !self.reservations.may_search() {
            return Ok(refused?);
        }
        let ledger = self.reservations.ledger.iter();
        let all: Vec<u32> = ledger.map(|(number, _)| number).collect();
        for number in all {
            self.drop_if_unused(number);
        }
        let ledger = &self.reservations.ledger;
        Ok(ledger.admit_within(limits, uid, class, rate, old)?)
    }

    /// `usable`: at which rate it begins; its own, unless it is made for a credit.
    pub(crate) fn begin(&mut self, wanted: Reservation, usable: Rate) -> Result<u32, Refusal> {
        let threads = self.processes.threads_of(&wanted.target);
        let id = self.put_in_force(&wanted, usable, &threads)?;
        let number = self.reservations.ledger.next_number();
        let entry = self.reservations.entry(number, &wanted);
        if let Err(refusal) = self.reservations.write(&entry) {
            self.end(id);
            return Err(refusal);
        }
        debug!(number, target = wanted.target.number(), rate = %wanted.rate, "reserved");
        self.take_in(number, id, wanted);
        self.reservations.compact();
        Ok(number)
    }

    pub(crate) fn take_in(&mut self, number: u32, id: u32, reservation: Reservation) {
        let history = History::default();
        self.reservations
            .in_force
            .insert(number, InForce { id, history });
        self.reservations.ledger.insert(number, reservation);
        self.tell_period();
    }

    fn tell_period(&mut self) {
        let period_ns = self.reservations.ledger.shortest_period_ns();
        self.host.set_shortest_period(period_ns);
    }

    pub(crate) fn put_in_force(
        &mut self,
        wanted: &Reservation,
        usable: Rate,
        threads: &[i32],
    ) -> Result<u32, Refusal> {
        let id = self
            .host
            .create_reservation(terms(wanted, usable.max(RATE_MIN)))?;
        let added = match &wanted.target {
            Target::Cgroup { path, id: cgroup } => self.adopt_cgroup(id, path, *cgroup),
            target => self.add_threads(id, target, threads),
        };
        match added {
            Ok(()) => Ok(id),
            Err(refusal) => {
                self.end(id);
                Err(refusal)
            }
        }
    }

    fn adopt_cgroup(&mut self, id: u32, path: &str, cgroup: u64) -> Result<(), Refusal> {
        self.host.adopt_cgroup(id, cgroup).map_err(|error| {
            let text = match Errno::from_raw(error.errno()) {
                Errno::ESRCH => format!(
                    "cgroup {path} has no queue of its own: it has gone, has no cpu controller, or is too deep"
                ),
                Errno::EBUSY => format!("{path}, or a cgroup that it is in, has a reservation: release that first"),
                _ => error.to_string(),
            };
            Refusal::new(Errno::from_raw(error.errno()), text)
        })
    }

    /// Threads that are made meanwhile share their maker's reservation, or are found by looking again.
    fn add_threads(&mut self, id: u32, target: &Target, threads: &[i32]) -> Result<(), Refusal> {
        let mut threads = threads.to_vec();
        let mut added = 0;
        for _ in 0..SEARCHES_MAX {
            let before = added;
            for tid in &threads {
                match self.host.add_to_reservation(id, *tid) {
                    Ok(()) => added += 1,
                    Err(error) => refuse_thread(&error)?,
                }
            }
            threads = self.processes.threads_of(target);
            if added == before {
                break;
            }
        }
        if added > 0 {
            return Ok(());
        }
        let text = format!(
            "{} is not under the scheduler: it has ended, or a real-time policy, or has not opted in to a partial one",
            target.number()
        );
        Err(Refusal::new(Errno::ESRCH, text))
    }

    pub(crate) fn change(&mut self, number: u32, wanted: Reservation) -> Result<u32, Refusal> {
        let Some((id, old)) = self.held(number) else {
            return Err(unknown(&wanted.target));
        };
        let credits = &self.reservations.credits;
        let (held_rate, out) = (credits.held(number), credits.out(number));
        if out > Rate(0) && wanted.rate + held_rate < out + RATE_MIN {
            let text = format!(
                "{out} of it are lent: recollect some, or ask for at least {}",
                out + RATE_MIN - held_rate
            );
            return Err(Refusal::new(Errno::EBUSY, text));
        }
        let apply = |service: &mut Service, what: &Reservation| {
            let rate = what.rate + held_rate - out;
            service.host.change_reservation(id, terms(what, rate))
        };
        apply(self, &wanted)?;
        let entry = self.reservations.entry(number, &wanted);
        if let Err(refusal) = self.reservations.write(&entry) {
            if let Err(error) = apply(self, &old) {
                warn!(number, %error, "a change that could not be kept cannot be undone");
            }
            return Err(refusal);
        }
        if let Some(in_force) = self.reservations.in_force.get_mut(&number) {
            in_force.history.begin_anew();
        }
        self.reservations.ledger.insert(number, wanted);
        self.tell_period();
        self.reservations.compact();
        Ok(number)
    }

    pub(crate) fn held(&self, number: u32) -> Option<(u32, Reservation)> {
        let id = self.reservations.in_force.get(&number)?.id;
        Some((id, self.reservations.ledger.get(number)?.clone()))
    }

    /// Ends the reservation of a process or thread.
    ///
    /// # Errors
    /// ENOENT when it has none, EPERM for a stranger's.
    pub fn release(&mut self, peer: &Peer, named: &Named) -> Result<u32, Refusal> {
        let target = self.processes.named(peer, named)?;
        let held = self.reservations.ledger.find(&target);
        let number = held.ok_or_else(|| unknown(&target))?;
        self.reservations.write(&Entry::Release { number })?;
        self.drop_reservation(number);
        self.reservations.compact();
        Ok(number)
    }

    pub(crate) fn drop_reservation(&mut self, number: u32) {
        self.end_credits(number);
        self.reservations.ledger.remove(number);
        self.tell_period();
        if let Some(gone) = self.reservations.in_force.remove(&number) {
            self.end(gone.id);
        }
    }

    pub(crate) fn end(&mut self, id: u32) {
        match self.host.end_reservation(id) {
            Ok(()) => {}
            Err(error) if error.errno() == libc::EAGAIN => self.reservations.doomed.push(id),
            Err(error) => warn!(reservation = id, %error, "cannot end a reservation"),
        }
    }
}

/// What the scheduler is told of a reservation that may use `rate`.
pub(crate) fn terms(reservation: &Reservation, rate: Rate) -> Terms {
    Terms {
        class: reservation.class as u32,
        rate: rate.weight(),
        period_ns: reservation.period_ns,
    }
}

fn check_period(period_ns: u64) -> Result<(), Refusal> {
    if (PERIOD_MIN_NS..=PERIOD_MAX_NS).contains(&period_ns) {
        return Ok(());
    }
    let text = format!(
        "period {} is out of range: expected {} to {}",
        consort_kernel::format_ns(period_ns),
        consort_kernel::format_ns(PERIOD_MIN_NS),
        consort_kernel::format_ns(PERIOD_MAX_NS)
    );
    Err(Refusal::new(Errno::ERANGE, text))
}

/// What the scheduler says of one thread: those that ended meanwhile, or share it already, are no obstacle.
fn refuse_thread(error: &consort_kernel::Error) -> Result<(), Refusal> {
    match Errno::from_raw(error.errno()) {
        Errno::ESRCH | Errno::EEXIST => Ok(()),
        errno => Err(Refusal::new(errno, error.to_string())),
    }
}

pub(crate) fn unknown(target: &Target) -> Refusal {
    let text = match target {
        Target::Cgroup { path, .. } => format!("cgroup {path} has no reservation"),
        target => format!("{} has no reservation", target.number()),
    };
    Refusal::new(Errno::ENOENT, text)
}
