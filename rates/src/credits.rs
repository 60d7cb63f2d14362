// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credits (001): parts of a reservation that another one uses for a while. What is lent is never more than what is had,
//! and comes back with one word, or when either side ends. Nothing here talks to anybody.

use std::collections::{BTreeSet, HashMap};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    rate::{Rate, RATE_MIN},
    Refusal,
};

/// The most that a reservation may lend to, and the most that may lend to one.
pub const CREDITS_MAX: usize = 16;

/// A part of reservation `from` that reservation `to` uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    pub from: u32,
    pub to: u32,
    /// Millionths of one CPU.
    pub rate: u64,
}

/// All credits, oldest first; one for each pair.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credits {
    list: Vec<Credit>,
}

impl Credits {
    pub fn iter(&self) -> impl Iterator<Item = &Credit> {
        self.list.iter()
    }

    /// What `number` has lent.
    pub fn out(&self, number: u32) -> Rate {
        let lent = self.list.iter().filter(|credit| credit.from == number);
        lent.map(|credit| Rate(credit.rate)).sum()
    }

    /// What others have lent to `number`.
    pub fn held(&self, number: u32) -> Rate {
        let held = self.list.iter().filter(|credit| credit.to == number);
        held.map(|credit| Rate(credit.rate)).sum()
    }

    pub fn concern(&self, number: u32) -> bool {
        let is_its = |credit: &Credit| credit.from == number || credit.to == number;
        self.list.iter().any(is_its)
    }

    /// What `number` may use, with `own` reserved.
    pub fn balance(&self, number: u32, own: Rate) -> Rate {
        own + self.held(number) - self.out(number)
    }

    /// Lends `rate` more of `from`, which has reserved `own`, to `to`.
    ///
    /// # Errors
    /// EINVAL to itself or in a circle, ENOSPC for more than it has, with the numbers.
    pub fn lend(&mut self, from: u32, to: u32, own: Rate, rate: Rate) -> Result<(), Refusal> {
        if from == to {
            let text = "a reservation cannot lend to itself: expected two different ones";
            return Err(Refusal::new(Errno::EINVAL, text));
        }
        if self.find(from, to).is_none() {
            self.check_room(from, to)?;
        }
        if self.reaches(to, from) {
            let text = "the lender uses, maybe through others, what the receiver lends: it would lend in a circle";
            return Err(Refusal::new(Errno::EINVAL, text));
        }
        let balance = self.balance(from, own);
        if rate + RATE_MIN > balance {
            let text = format!(
                "cannot lend {rate}: the lender has {own} of its own, {} of others, {} lent already, and keeps \
                 {RATE_MIN}: expected at most {}",
                self.held(from),
                self.out(from),
                balance - RATE_MIN
            );
            return Err(Refusal::new(Errno::ENOSPC, text));
        }
        match self.find(from, to) {
            Some(credit) => credit.rate += rate.0,
            None => self.list.push(Credit {
                from,
                to,
                rate: rate.0,
            }),
        }
        Ok(())
    }

    /// Takes `rate` of a credit back, or all of it, and whatever the receiver cannot lend on without it. Returns the
    /// reservations whose balance changed.
    ///
    /// # Errors
    /// ENOENT when there is no such credit, ENOSPC when it is smaller.
    pub fn take_back(
        &mut self,
        from: u32,
        to: u32,
        rate: Option<Rate>,
        own: impl Fn(u32) -> Rate,
    ) -> Result<BTreeSet<u32>, Refusal> {
        let Some(credit) = self.find(from, to) else {
            let text = "nothing is lent there: `consort usage` shows who has lent what";
            return Err(Refusal::new(Errno::ENOENT, text));
        };
        let lent = Rate(credit.rate);
        let rate = rate.unwrap_or(lent);
        if rate > lent {
            let text = format!("cannot take {rate} back: {lent} are lent");
            return Err(Refusal::new(Errno::ENOSPC, text));
        }
        credit.rate -= rate.0;
        let mut changed = BTreeSet::from([from, to]);
        self.list.retain(|credit| credit.rate > 0);
        self.settle(to, &own, &mut changed);
        Ok(changed)
    }

    /// A reservation ends: what it has lent comes back, and what it was lent returns. Returns whose balance changed.
    pub fn end(&mut self, number: u32, own: impl Fn(u32) -> Rate) -> BTreeSet<u32> {
        let mut changed = BTreeSet::new();
        let gone = |credit: &&Credit| credit.from == number || credit.to == number;
        for credit in self.list.iter().filter(gone) {
            changed.extend([credit.from, credit.to]);
        }
        self.list
            .retain(|credit| credit.from != number && credit.to != number);
        for other in changed.clone() {
            if other != number {
                self.settle(other, &own, &mut changed);
            }
        }
        changed.remove(&number);
        changed
    }

    /// Takes back, the newest first, what `number` has lent and does not have any more; and so on, down the chain.
    pub fn settle(&mut self, number: u32, own: &impl Fn(u32) -> Rate, changed: &mut BTreeSet<u32>) {
        let has = own(number) + self.held(number);
        let mut missing = self.out(number) + RATE_MIN - has;
        let mut receivers = Vec::new();
        for credit in self.list.iter_mut().rev() {
            if credit.from != number || missing == Rate(0) {
                continue;
            }
            let back = missing.min(Rate(credit.rate));
            credit.rate -= back.0;
            missing = missing - back;
            receivers.push(credit.to);
        }
        self.list.retain(|credit| credit.rate > 0);
        for receiver in receivers {
            changed.extend([number, receiver]);
            self.settle(receiver, own, changed);
        }
    }

    /// Bounds what one reservation can be made to remember, and to tell.
    fn check_room(&self, from: u32, to: u32) -> Result<(), Refusal> {
        let of = |is_its: &dyn Fn(&Credit) -> bool| {
            self.list.iter().filter(|credit| is_its(credit)).count()
        };
        let (lent, held) = (
            of(&|credit| credit.from == from),
            of(&|credit| credit.to == to),
        );
        let text = match (lent < CREDITS_MAX, held < CREDITS_MAX) {
            (true, true) => return Ok(()),
            (false, _) => format!("the lender has lent to {lent} others, the most there may be: recollect from some first"),
            (_, false) => format!("{held} others have lent to the receiver, the most there may be: return some first"),
        };
        Err(Refusal::new(Errno::EDQUOT, text))
    }

    /// Gives back all that `number` was lent, and whatever it cannot lend on without it. Returns the reservations whose
    /// balance changed.
    pub fn give_back(&mut self, number: u32, own: impl Fn(u32) -> Rate) -> BTreeSet<u32> {
        let mut changed = BTreeSet::new();
        for credit in self.list.iter().filter(|credit| credit.to == number) {
            changed.extend([credit.from, number]);
        }
        self.list.retain(|credit| credit.to != number);
        self.settle(number, &own, &mut changed);
        changed
    }

    /// What has changed since `before`: the credits that are new or other ones, in their order, and those that have
    /// gone, with a rate of 0.
    pub fn since(&self, before: &Credits) -> Vec<Credit> {
        let rates = |credits: &Credits| -> HashMap<(u32, u32), u64> {
            let pair = |credit: &Credit| ((credit.from, credit.to), credit.rate);
            credits.list.iter().map(pair).collect()
        };
        let (then, now) = (rates(before), rates(self));
        let gone = before
            .list
            .iter()
            .filter(|credit| !now.contains_key(&(credit.from, credit.to)));
        let gone = gone.map(|credit| Credit { rate: 0, ..*credit });
        let other = |credit: &&Credit| then.get(&(credit.from, credit.to)) != Some(&credit.rate);
        gone.chain(self.list.iter().filter(other).copied())
            .collect()
    }

    /// Takes in what [`Credits::since`] told.
    pub fn apply(&mut self, changes: &[Credit]) {
        for change in changes {
            match self.find(change.from, change.to) {
                Some(credit) => credit.rate = change.rate,
                None => self.list.push(*change),
            }
        }
        self.list.retain(|credit| credit.rate > 0);
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn find(&mut self, from: u32, to: u32) -> Option<&mut Credit> {
        let is_it = |credit: &&mut Credit| credit.from == from && credit.to == to;
        self.list.iter_mut().find(is_it)
    }

    /// Whether something of `from` is used by `to`, through however many others.
    fn reaches(&self, from: u32, to: u32) -> bool {
        let mut seen = BTreeSet::from([from]);
        let mut left = vec![from];
        while let Some(at) = left.pop() {
            if at == to {
                return true;
            }
            let next = self.list.iter().filter(|credit| credit.from == at);
            left.extend(next.map(|credit| credit.to).filter(|to| seen.insert(*to)));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own(rate: u64) -> impl Fn(u32) -> Rate {
        move |_| Rate(rate)
    }

    #[test]
    fn to_itself_in_a_circle_and_more_than_there_is() {
        let mut credits = Credits::default();
        let errno = |result: Result<(), Refusal>| result.unwrap_err().errno;
        assert_eq!(
            errno(credits.lend(1, 1, Rate(1000), Rate(1))),
            Errno::EINVAL
        );
        credits.lend(1, 2, Rate(1000), Rate(500)).unwrap();
        credits.lend(2, 3, Rate(0), Rate(400)).unwrap();
        assert_eq!(
            errno(credits.lend(3, 1, Rate(1000), Rate(1))),
            Errno::EINVAL
        );
        let refusal = credits.lend(1, 2, Rate(1000), Rate(401)).unwrap_err();
        assert_eq!(refusal.errno, Errno::ENOSPC);
        assert!(refusal.text.contains("at most 0.0004"), "{}", refusal.text);
        credits.lend(1, 2, Rate(1000), Rate(400)).unwrap();
        assert_eq!(credits.balance(2, Rate(0)), Rate(500));
        assert_eq!(
            credits.take_back(2, 1, None, own(0)).unwrap_err().errno,
            Errno::ENOENT
        );
        let too_much = credits
            .take_back(1, 2, Some(Rate(901)), own(0))
            .unwrap_err();
        assert!(
            too_much.text.contains("0.0009 are lent"),
            "{}",
            too_much.text
        );
    }

    #[test]
    fn recollected_down_the_chain() {
        let mut credits = Credits::default();
        let own = |number| Rate(if number == 1 { 10_000 } else { 0 });
        credits.lend(1, 2, own(1), Rate(5_000)).unwrap();
        credits.lend(2, 3, own(2), Rate(4_000)).unwrap();
        credits.lend(3, 4, own(3), Rate(3_000)).unwrap();
        let changed = credits.take_back(1, 2, Some(Rate(2_000)), own).unwrap();
        // 2 keeps the least there is of the 3 000 that it has, and lends the rest on.
        assert_eq!(credits.out(2), Rate(2_900));
        assert_eq!(credits.out(3), Rate(2_800));
        assert_eq!(changed, BTreeSet::from([1, 2, 3, 4]));
        let changed = credits.end(2, own);
        assert_eq!(credits, Credits::default());
        assert_eq!(changed, BTreeSet::from([1, 3, 4]));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Lend(u32, u32, u64),
        TakeBack(u32, u32, Option<u64>),
        End(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let number = || 0u32..6;
        prop_oneof![
            5 => (number(), number(), 1u64..60_000).prop_map(|(from, to, rate)| Step::Lend(from, to, rate)),
            2 => (number(), number(), prop::option::of(1u64..60_000)).prop_map(|(from, to, rate)| Step::TakeBack(from, to, rate)),
            1 => number().prop_map(Step::End),
        ]
    }

    proptest! {
        /// Whatever is lent, returned and ended in whatever order: the sum of what all may use is the sum of what all have
        /// reserved, and nobody is below nothing.
        #[test]
        fn nothing_is_made_and_nothing_is_lost(
            reserved in prop::collection::vec(prop_oneof![Just(0u64), 100u64..100_000], 6), steps in prop::collection::vec(step(), 1..80),
        ) {
            let own = |number: u32| Rate(reserved[number as usize]);
            let mut credits = Credits::default();
            for step in steps {
                let before = credits.clone();
                let refused = match step {
                    Step::Lend(from, to, rate) => credits.lend(from, to, own(from), Rate(rate)).is_err(),
                    Step::TakeBack(from, to, rate) => credits.take_back(from, to, rate.map(Rate), own).is_err(),
                    Step::End(number) => {
                        credits.end(number, own);
                        prop_assert!(!credits.concern(number));
                        false
                    }
                };
                prop_assert!(!refused || credits == before);
                let mut replayed = before.clone();
                replayed.apply(&credits.since(&before));
                prop_assert_eq!(&replayed, &credits);
                for number in 0..6 {
                    let has = own(number) + credits.held(number);
                    let out = credits.out(number);
                    prop_assert!(out == Rate(0) || out + RATE_MIN <= has, "{} lends {} of {}", number, out, has);
                }
                let usable: Rate = (0..6).map(|number| credits.balance(number, own(number))).sum();
                prop_assert_eq!(usable, reserved.iter().map(|rate| Rate(*rate)).sum());
            }
        }
    }
}
