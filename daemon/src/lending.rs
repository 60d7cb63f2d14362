// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about credits: lend, recollect, return; and what the end of a reservation does to its credits.

use std::collections::BTreeSet;

use nix::errno::Errno;
use tracing::{debug, warn};

use crate::{
    admission::Reservation,
    audit,
    credits::Credits,
    journal::Entry,
    peer::Peer,
    rate::Rate,
    service::Service,
    targets::{Scope, Target},
    terms::terms,
    Refusal,
};

/// Which part of a credit is to come back, to whom, from whom.
#[derive(Debug, Clone, Copy)]
pub struct Back {
    pub from: i32,
    pub to: i32,
    /// `None`: all of it.
    pub rate: Option<f64>,
}

impl Service {
    /// Lends a part of what process or thread `from` has reserved to `to`, which gets a reservation of its own for it
    /// if it has none. `consort usage` shows both.
    ///
    /// # Errors
    /// ENOENT when the lender has no reservation, ENOSPC for more than it has left, EINVAL to itself or in a circle or
    /// into another class, EPERM for a stranger's, ERANGE, ESRCH. Nothing is changed then.
    pub fn lend(&mut self, peer: &Peer, from: i32, to: i32, rate: f64) -> Result<(), Refusal> {
        self.lend_unlogged(peer, from, to, rate)?;
        let details = format!("{rate} of {from} to {to}");
        audit::done(self, peer, "lend", &details);
        Ok(())
    }

    fn lend_unlogged(&mut self, peer: &Peer, from: i32, to: i32, rate: f64) -> Result<(), Refusal> {
        let rate = Rate::asked(rate)?;
        let lender = self.processes.target(peer, from, Scope::Any)?;
        let from = self.number_held(&lender)?;
        let receiver = self.processes.look(peer, to, Scope::Any)?;
        let existing = self.reservations.ledger.find(&receiver.target);
        let mut credits = self.reservations.credits.clone();
        let own = self.reservations.own(from);
        // A task with a reservation may be given more by anybody.
        if let Some(to) = existing {
            self.check_same_class(from, to)?;
            credits.lend(from, to, own, rate)?;
            return self.adopt(credits, BTreeSet::from([from, to]));
        }
        // To leave everybody's class for a small credit may be to lose: only its owner decides that.
        let target = receiver.named_by(peer)?;
        credits.lend(from, 0, own, rate)?;
        let to = self.begin_for_credit(peer, from, target, rate)?;
        let mut credits = self.reservations.credits.clone();
        let lent = credits.lend(from, to, own, rate).map_err(Refusal::from);
        let lent = lent.and_then(|()| self.adopt(credits, BTreeSet::from([from, to])));
        if lent.is_err() {
            self.forget(to);
        }
        lent
    }

    fn number_held(&self, target: &Target) -> Result<u32, Refusal> {
        let held = self.reservations.ledger.find(target);
        held.ok_or_else(|| {
            let text = format!("{} has no reservation to lend from", target.number());
            Refusal::new(Errno::ENOENT, text)
        })
    }

    fn check_same_class(&self, from: u32, to: u32) -> Result<(), Refusal> {
        let class = |number| self.reservations.ledger.get(number).map(|held| held.class);
        if class(from) == class(to) {
            return Ok(());
        }
        let text = "the receiver has reserved in another class: credits stay in their class";
        Err(Refusal::new(Errno::EINVAL, text))
    }

    /// A reservation in the lender's class that has nothing of its own.
    fn begin_for_credit(
        &mut self,
        peer: &Peer,
        from: u32,
        target: Target,
        rate: Rate,
    ) -> Result<u32, Refusal> {
        let Some((_, lender)) = self.held(from) else {
            return Err(lender_gone());
        };
        let uid = peer.uid;
        let limits = self.limits_of(&target, peer.pid);
        self.admit(limits, uid, lender.class, Rate(0), None)?;
        if self.held(from).is_none() {
            return Err(lender_gone());
        }
        let wanted = Reservation {
            uid,
            rate: Rate(0),
            auto: None,
            target,
            ..lender
        };
        self.begin(wanted, rate, Vec::new())
    }

    /// Ends a reservation that is over, whether the journal can be written or not.
    pub(crate) fn forget(&mut self, number: u32) {
        self.reservations.note(&Entry::Release { number });
        self.drop_reservation(number);
    }

    /// Takes a credit back, or a part of it: asked for by the lender's owner, or by the holder's, or by root; also where root
    /// has reserved for them.
    ///
    /// # Errors
    /// ENOENT when nothing is lent there, ENOSPC when less is, EPERM when both are strangers'.
    pub fn take_back(&mut self, peer: &Peer, back: Back) -> Result<(), Refusal> {
        let rate = back.rate.map(Rate::asked).transpose()?;
        let seen = [back.from, back.to].map(|number| self.processes.look(peer, number, Scope::Any));
        let [from, to] = seen;
        let (from, to) = (from?, to?);
        let owns_one = [&from, &to].iter().any(|one| one.is_of(peer));
        let (lender, receiver) = (from.target, to.target);
        let nothing = || {
            let (to, from) = (receiver.number(), lender.number());
            let text = format!(
                "nothing is lent to {to} by {from}: `consort usage` shows who has lent what"
            );
            Refusal::new(Errno::ENOENT, text)
        };
        let held = |whose| self.reservations.ledger.find(whose);
        let (Some(from), Some(to)) = (held(&lender), held(&receiver)) else {
            return Err(nothing());
        };
        let is_ones_own = |number| {
            let held = self.reservations.ledger.get(number);
            peer.uid == 0 || held.is_some_and(|held| held.uid == peer.uid)
        };
        if !owns_one && !is_ones_own(from) && !is_ones_own(to) {
            let text = "both reservations belong to others: recollect what is yours, or return what you were lent";
            return Err(Refusal::new(Errno::EPERM, text));
        }
        let mut credits = self.reservations.credits.clone();
        let reservations = &self.reservations;
        let taken = credits.take_back(from, to, rate, |number| reservations.own(number));
        let changed = taken.map_err(|refusal| match refusal.errno {
            Errno::ENOENT => nothing(),
            _ => refusal.into(),
        })?;
        self.adopt(credits, changed)?;
        let details = format!("what {} has of {}", back.to, back.from);
        audit::done(self, peer, "recollect", &details);
        Ok(())
    }

    /// Gives all that `number` was lent back to the lenders, whether the journal can be written or not.
    pub(crate) fn give_back(&mut self, number: u32) {
        let mut credits = self.reservations.credits.clone();
        let reservations = &self.reservations;
        let changed = credits.give_back(number, |other| reservations.own(other));
        self.adopt_anyway(credits, &changed);
    }

    /// Makes changed credits those that hold: in the scheduler, in the journal, here.
    fn adopt(&mut self, credits: Credits, changed: BTreeSet<u32>) -> Result<(), Refusal> {
        // Else a journal that is written anew would say what may still be refused.
        self.reservations.pay()?;
        let changes = credits.since(&self.reservations.credits);
        let before = std::mem::replace(&mut self.reservations.credits, credits);
        let applied = self
            .weigh(&changed)
            .and_then(|()| self.reservations.write(&Entry::Lent { changes }));
        if let Err(refusal) = applied {
            self.reservations.credits = before;
            if let Err(error) = self.weigh(&changed) {
                warn!(%error, "a change that could not be kept cannot be undone");
            }
            return Err(refusal);
        }
        self.drop_empty(&changed);
        self.reservations.compact();
        Ok(())
    }

    /// The same for credits that end with something that has happened, and so end whatever fails.
    fn adopt_anyway(&mut self, credits: Credits, changed: &BTreeSet<u32>) {
        if changed.is_empty() {
            return;
        }
        let changes = credits.since(&self.reservations.credits);
        self.reservations.credits = credits;
        if let Err(refusal) = self.weigh(changed) {
            warn!(%refusal, "the scheduler has not taken in that credits have ended");
        }
        self.reservations.note(&Entry::Lent { changes });
        self.drop_empty(changed);
        self.reservations.compact();
    }

    /// Tells the scheduler what reservations may use now: first those that have less. All that can be are changed.
    fn weigh(&mut self, changed: &BTreeSet<u32>) -> Result<(), Refusal> {
        let held: Vec<(u32, Reservation, Rate)> = changed
            .iter()
            .filter_map(|number| {
                let (id, held) = self.held(*number)?;
                Some((id, held, self.reservations.balance(*number)))
            })
            .collect();
        let lends_first = |held: &&(u32, Reservation, Rate)| held.2 < held.1.rate;
        let (less, more): (Vec<_>, Vec<_>) = held.iter().partition(lends_first);
        let mut outcome = Ok(());
        for (id, held, balance) in less.into_iter().chain(more) {
            let told = self.host.change_reservation(*id, terms(held, *balance));
            outcome = outcome.and(told.map_err(Refusal::from));
        }
        outcome
    }

    /// Ends reservations that had credits only, and have them no more.
    fn drop_empty(&mut self, changed: &BTreeSet<u32>) {
        for number in changed {
            let reservations = &self.reservations;
            if reservations.ledger.get(*number).is_some()
                && reservations.balance(*number) == Rate(0)
            {
                debug!(number, "nothing is lent to it any more");
                self.forget(*number);
            }
        }
    }

    /// A reservation is about to end.
    pub(crate) fn end_credits(&mut self, number: u32) {
        if !self.reservations.credits.concern(number) {
            return;
        }
        let mut credits = self.reservations.credits.clone();
        let reservations = &self.reservations;
        let changed = credits.end(number, |other| match other == number {
            true => Rate(0),
            false => reservations.own(other),
        });
        self.adopt_anyway(credits, &changed);
    }

    /// Credits of an earlier daemon, as far as both sides are still there, and of one class.
    pub(crate) fn restore_credits(&mut self, credits: Credits) {
        let mut changed: BTreeSet<u32> =
            self.reservations.ledger.iter().map(|held| held.0).collect();
        let mut kept = credits.clone();
        for credit in credits.iter() {
            for number in [credit.from, credit.to] {
                if self.reservations.ledger.get(number).is_none() {
                    let reservations = &self.reservations;
                    kept.end(number, |other| reservations.own(other));
                }
            }
        }
        let reservations = &self.reservations;
        let own = |number| reservations.own(number);
        let class = |number| reservations.ledger.get(number).map(|held| held.class);
        for credit in credits.iter() {
            if class(credit.from) != class(credit.to) {
                // Unless it has gone with one of its sides.
                let _ = kept.take_back(credit.from, credit.to, None, own);
            }
        }
        for number in changed.clone() {
            kept.settle(number, &own, &mut changed);
        }
        if let Err(refusal) = self.adopt(kept, changed) {
            warn!(%refusal, "credits cannot be restored");
        }
    }
}

fn lender_gone() -> Refusal {
    let text = "the lender has just ended, and its reservation with it: name one that lives";
    Refusal::new(Errno::ENOENT, text)
}
