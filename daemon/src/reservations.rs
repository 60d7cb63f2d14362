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

use nix::errno::Errno;
use serde::Deserialize;
use tracing::{debug, warn};

use crate::{
    admission::{Ledger, Range, Reservation, UserLimits},
    audit,
    classes::Classes,
    config::Division,
    credits::Credits,
    journal::{Entry, Journal},
    peer::{Peer, Processes},
    rate::{Rate, RATE_MIN},
    root::RootsPart,
    search::{Search, THREADS_AT_ONCE},
    service::Service,
    targets::{Named, Target},
    terms::{check_period, not_scheduled, payer, taken, terms, unknown},
    usage::History,
    Refusal,
};

/// So many reservations are searched for dead ones whenever a request would be refused; more of them not more often
/// than this.
const SEARCH_FREELY: usize = 64;
const SEARCH_INTERVAL: Duration = Duration::from_millis(250);

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
        let range = Range {
            least: least.0,
            most: most.0,
        };
        Ok((least, Some(range)))
    }
}

pub struct Reservations {
    pub ledger: Ledger,
    pub credits: Credits,
    /// Of those who are in these Unix groups.
    pub(crate) group_limits: BTreeMap<u32, UserLimits>,
    pub(crate) roots_part: RootsPart,
    /// As the operator's file divides the machine.
    pub(crate) file: Classes,
    pub(crate) journal: Option<Journal>,
    /// Why there is none, or why it could not be written the last time.
    pub(crate) journal_error: Option<String>,
    /// The journal lacks what has ended since: nothing is appended until it is written anew.
    pub(crate) owes: bool,
    /// When that was tried last.
    pub(crate) tried: Option<Instant>,
    pub(crate) in_force: HashMap<u32, InForce>,
    /// Reservations that are over, and that the scheduler could not end yet.
    pub(crate) doomed: Vec<u32>,
    /// When the dead were last searched for among all.
    searched: Option<Instant>,
    /// Where the last sweep stopped.
    pub(crate) swept: u32,
    /// For whose threads was looked last.
    pub(crate) searched_for: u32,
}

/// What the scheduler knows of a reservation.
#[derive(Debug)]
pub struct InForce {
    /// The scheduler's number.
    pub id: u32,
    pub history: History,
    /// When it began, in clock ticks after boot.
    pub since: u64,
    /// A cgroup is in no Unix group: those of who has asked for it, as far as they had limits then.
    pub(crate) groups: Vec<u32>,
    pub(crate) search: Search,
}

impl InForce {
    /// Threads may be found that get it, or come back from another class.
    pub(crate) fn waits_for_threads(&self) -> bool {
        !self.search.is_over() || !self.search.absent.is_empty()
    }
}

impl Reservations {
    /// Without a journal: what is reserved ends with the daemon.
    pub fn new(division: Division) -> Self {
        Reservations {
            file: division.classes.clone(),
            ledger: {
                let mut ledger = Ledger::new(division.classes, division.limits);
                ledger.set_limits(division.limits, division.accounts);
                ledger
            },
            group_limits: division.group_limits,
            roots_part: division.roots_part,
            credits: Credits::default(),
            journal: None,
            journal_error: None,
            owes: false,
            tried: None,
            in_force: HashMap::new(),
            doomed: Vec::new(),
            searched: None,
            swept: 0,
            searched_for: 0,
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

    /// What the owner of process `pid` may have, by the groups that the process is in.
    fn limits_of(&self, processes: &Processes, pid: i32) -> UserLimits {
        if self.group_limits.is_empty() {
            return self.ledger.limits();
        }
        self.limits_of_groups(&processes.groups_of(pid))
    }

    fn limits_of_groups(&self, groups: &[u32]) -> UserLimits {
        let limits = groups.iter().filter_map(|it| self.group_limits.get(it));
        limits.copied().fold(self.ledger.limits(), UserLimits::or)
    }

    pub(crate) fn groups(&self, number: u32) -> Vec<u32> {
        let held = self.in_force.get(&number);
        held.map_or_else(Vec::new, |held| held.groups.clone())
    }

    pub(crate) fn set_groups(&mut self, number: u32, groups: Vec<u32>) {
        if let Some(held) = self.in_force.get_mut(&number) {
            held.groups = groups;
        }
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
            Some(old) => payer(peer.uid, old, class, rate, auto),
            None => peer.uid,
        };
        let limits = self.limits_of(&target, peer.pid);
        self.admit(limits, uid, class, rate, old)?;
        self.check_leaves_class(old, class)?;
        let groups = match old.filter(|_| uid != peer.uid) {
            Some(old) => self.reservations.groups(old),
            None => self.groups_kept(&target, peer.pid),
        };
        let period_ns = ask.period_ns;
        let wanted = Reservation {
            uid,
            class,
            rate,
            auto,
            period_ns,
            target,
        };
        let details = format!("{} of {} for {}", rate, ask.class, wanted.target);
        let number = match old {
            Some(number) => self.change(number, wanted, groups)?,
            None => self.begin(wanted, rate, groups)?,
        };
        audit::done(self, peer, "reserve", &details);
        Ok(number)
    }

    /// What a reservation has lent keeps it in its class.
    fn check_leaves_class(&self, number: Option<u32>, class: usize) -> Result<(), Refusal> {
        let reservations = &self.reservations;
        let moves = |number: &u32| {
            let held = reservations.ledger.get(*number);
            held.is_some_and(|held| held.class != class)
        };
        let lends = |number| reservations.credits.out(number) > Rate(0);
        if !number.filter(moves).is_some_and(lends) {
            return Ok(());
        }
        let text = "credits stay in their class: recollect what is lent before changing the class";
        Err(Refusal::new(Errno::EBUSY, text))
    }

    /// The limits of the target's owner; a cgroup is in no Unix group, its asker is.
    pub(crate) fn limits_of(&self, target: &Target, asker: i32) -> UserLimits {
        let pid = match target {
            Target::Process { pid, .. } | Target::Thread { pid, .. } => *pid,
            Target::Cgroup { .. } | Target::Group { .. } => asker,
        };
        self.limits_of_process(pid)
    }

    /// The same of one that is there already.
    pub(crate) fn limits_held(&self, number: u32, target: &Target) -> UserLimits {
        match target {
            Target::Process { pid, .. } | Target::Thread { pid, .. } => {
                self.limits_of_process(*pid)
            }
            Target::Cgroup { .. } | Target::Group { .. } => {
                let groups = self.reservations.groups(number);
                self.reservations.limits_of_groups(&groups)
            }
        }
    }

    /// What is remembered of who asks for a cgroup, and may have gone when its rate grows.
    fn groups_kept(&self, target: &Target, asker: i32) -> Vec<u32> {
        let limits = &self.reservations.group_limits;
        if limits.is_empty() || !matches!(target, Target::Cgroup { .. }) {
            return Vec::new();
        }
        let mut groups = self.processes.groups_of(asker);
        groups.retain(|group| limits.contains_key(group));
        groups
    }

    /// The limits of a process' owner.
    pub(crate) fn limits_of_process(&self, pid: i32) -> UserLimits {
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
        let refused = self.reservations.admit(limits, uid, class, rate, old);
        if refused.is_ok() || !self.reservations.may_search() {
            return refused;
        }
        let ledger = self.reservations.ledger.iter();
        let all: Vec<u32> = ledger.map(|(number, _)| number).collect();
        for number in all {
            self.drop_if_unused(number);
        }
        self.reservations.admit(limits, uid, class, rate, old)
    }

    /// `usable`: at which rate it begins; its own, unless it is made for a credit.
    pub(crate) fn begin(
        &mut self,
        wanted: Reservation,
        usable: Rate,
        groups: Vec<u32>,
    ) -> Result<u32, Refusal> {
        // Before its threads are looked for: a child that is forked meanwhile has a part in it.
        let since = self.processes.now_ticks();
        let number = self.reservations.ledger.next_number();
        let (mut search, mut left) = (Search::new(&wanted.target), THREADS_AT_ONCE);
        let id = self.put_in_force(number, (&wanted, usable), &mut search, &mut left)?;
        if search.found_nobody() {
            self.end(id);
            return Err(match search.is_taken {
                true => taken(&wanted.target),
                false => not_scheduled(&wanted.target),
            });
        }
        let origin = (since, &groups[..]);
        let entry = self.reservations.entry(number, &wanted, origin);
        if let Err(refusal) = self.reservations.write(&entry) {
            self.end(id);
            return Err(refusal);
        }
        debug!(number, target = wanted.target.number(), rate = %wanted.rate, "reserved");
        self.take_in(number, (id, since, search), wanted);
        self.reservations.set_groups(number, groups);
        self.reservations.compact();
        Ok(number)
    }

    pub(crate) fn take_in(
        &mut self,
        number: u32,
        (id, since, search): (u32, u64, Search),
        reservation: Reservation,
    ) {
        let in_force = InForce {
            id,
            history: History::default(),
            since,
            groups: Vec::new(),
            search,
        };
        self.reservations.in_force.insert(number, in_force);
        self.reservations.ledger.insert(number, reservation);
        self.tell_period();
    }

    fn tell_period(&mut self) {
        let period_ns = self.reservations.ledger.shortest_period_ns();
        self.host.set_shortest_period(period_ns);
    }

    /// One that goes to another class gives back what it was lent there: nobody can be kept in a class by a loan. The journal
    /// need not say so: credits stay in their class.
    pub(crate) fn change(
        &mut self,
        number: u32,
        wanted: Reservation,
        groups: Vec<u32>,
    ) -> Result<u32, Refusal> {
        let Some((id, old)) = self.held(number) else {
            return Err(unknown(&wanted.target));
        };
        let moves = wanted.class != old.class;
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
            let rate = match what.class == old.class {
                true => what.rate + held_rate - out,
                false => what.rate,
            };
            service.host.change_reservation(id, terms(what, rate))
        };
        apply(self, &wanted)?;
        let origin = (self.reservations.since(number), &groups[..]);
        let entry = self.reservations.entry(number, &wanted, origin);
        if let Err(refusal) = self.reservations.write(&entry) {
            if let Err(error) = apply(self, &old) {
                warn!(number, %error, "a change that could not be kept cannot be undone");
            }
            return Err(refusal);
        }
        if let Some(in_force) = self.reservations.in_force.get_mut(&number) {
            in_force.history.begin_anew();
        }
        self.reservations.set_groups(number, groups);
        self.reservations.ledger.insert(number, wanted);
        if moves {
            self.give_back(number);
        }
        self.tell_period();
        self.reservations.compact();
        Ok(number)
    }

    pub(crate) fn held(&self, number: u32) -> Option<(u32, Reservation)> {
        let held = self.reservations.ledger.get(number)?;
        Some((self.reservations.in_force.get(&number)?.id, held.clone()))
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
        audit::done(self, peer, "release", &target.to_string());
        Ok(number)
    }

    pub(crate) fn drop_reservation(&mut self, number: u32) {
        // First: a journal that is written anew with its credits' end has no line of it.
        self.reservations.ledger.remove(number);
        self.end_credits(number);
        self.tell_period();
        if let Some(gone) = self.reservations.in_force.remove(&number) {
            self.end(gone.id);
        }
    }
}
