// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who has reserved what, and who may reserve more: the admission test of 004 section 3, for each class
//! `sum(nominal) + new <= capacity * (1 + overbooking)`, and the users' limits. Nothing here talks to anybody.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    ops::Bound,
};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    accounts::Accounts,
    classes::{Class, Classes},
    rate::Rate,
    Refusal,
};

/// Shortest and longest window over which a rate can be promised.
pub const PERIOD_MIN_NS: u64 = 1_000_000;
pub const PERIOD_MAX_NS: u64 = 10_000_000_000;

/// What a user other than root may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserLimits {
    /// Sum of nominal rates.
    pub rate: Rate,
    pub reservations: usize,
}

impl UserLimits {
    /// The more generous of each.
    pub fn or(self, other: UserLimits) -> UserLimits {
        UserLimits {
            rate: self.rate.max(other.rate),
            reservations: self.reservations.max(other.reservations),
        }
    }
}

impl Default for UserLimits {
    fn default() -> Self {
        UserLimits {
            rate: Rate(500_000),
            reservations: 64,
        }
    }
}

/// What was asked for and admitted. A `Target` is whom it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation<Target> {
    pub uid: u32,
    pub class: usize,
    pub rate: Rate,
    /// The rate follows demand, between these two.
    pub auto: Option<Range>,
    pub period_ns: u64,
    pub target: Target,
}

/// The least and the most that an automatic rate may be, in millionths of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub least: u64,
    pub most: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Held {
    rate: Rate,
    reservations: usize,
}

/// All reservations, and sums that are kept with them.
#[derive(Debug)]
pub struct Ledger<Target> {
    classes: Classes,
    limits: UserLimits,
    accounts: Accounts,
    by_number: BTreeMap<u32, Reservation<Target>>,
    by_target: HashMap<Target, u32>,
    /// By class.
    asked: HashMap<usize, Held>,
    /// By account.
    by_uid: HashMap<u32, Held>,
    /// How many have each period.
    periods: BTreeMap<u64, usize>,
    last_number: u32,
}

impl<Target: Clone + Eq + Hash> Ledger<Target> {
    pub fn new(classes: Classes, limits: UserLimits) -> Self {
        Ledger {
            classes,
            limits,
            accounts: Accounts::default(),
            by_number: BTreeMap::new(),
            by_target: HashMap::new(),
            asked: HashMap::new(),
            by_uid: HashMap::new(),
            periods: BTreeMap::new(),
            last_number: 0,
        }
    }

    /// Limits users by their accounts from now on.
    pub fn set_limits(&mut self, limits: UserLimits, accounts: Accounts) {
        self.limits = limits;
        self.accounts = accounts;
        self.by_uid.clear();
        for held in self.by_number.values() {
            let sums = self.by_uid.entry(self.accounts.of(held.uid)).or_default();
            sums.rate = sums.rate + held.rate;
            sums.reservations += 1;
        }
    }

    /// The sum of the nominal rates on an account, and how many there are.
    pub fn held_by(&self, account: u32) -> (Rate, usize) {
        let held = self.by_uid.get(&account).copied().unwrap_or_default();
        (held.rate, held.reservations)
    }

    /// Those of every user.
    pub fn limits(&self) -> UserLimits {
        self.limits
    }

    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    pub fn get(&self, number: u32) -> Option<&Reservation<Target>> {
        self.by_number.get(&number)
    }

    pub fn find(&self, target: &Target) -> Option<u32> {
        self.by_target.get(target).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Reservation<Target>)> {
        self.by_number.iter().map(|(number, held)| (*number, held))
    }

    /// Those after number `after`, by number.
    pub fn after(&self, after: u32) -> impl Iterator<Item = (u32, &Reservation<Target>)> {
        let later = self
            .by_number
            .range((Bound::Excluded(after), Bound::Unbounded));
        later.map(|(number, held)| (*number, held))
    }

    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The sum of nominal rates that a class has admitted.
    pub fn asked(&self, class: usize) -> Rate {
        self.asked.get(&class).copied().unwrap_or_default().rate
    }

    /// What the class gives for a nominal rate while all its reservations want the CPU: at most one CPU.
    pub fn effective(&self, class: usize, nominal: Rate) -> Rate {
        let capacity = self.classes.get(class).map_or(Rate(0), Class::capacity);
        capacity.share(nominal, self.asked(class)).min(Rate::ONE)
    }

    /// Tests whether `uid` may reserve `rate` in a class, in place of reservation `instead_of` if there is one.
    ///
    /// # Errors
    /// ENOSPC when the class has not that much left, EDQUOT at the user's limit; the text has the numbers.
    pub fn admit(
        &self,
        uid: u32,
        class: usize,
        rate: Rate,
        instead_of: Option<u32>,
    ) -> Result<(), Refusal> {
        self.admit_within(self.limits, uid, class, rate, instead_of)
    }

    /// The same for a user who has limits of its own.
    ///
    /// # Errors
    /// Those of [`Ledger::admit`].
    pub fn admit_within(
        &self,
        limits: UserLimits,
        uid: u32,
        class: usize,
        rate: Rate,
        instead_of: Option<u32>,
    ) -> Result<(), Refusal> {
        let old = instead_of.and_then(|number| self.by_number.get(&number));
        let freed = old
            .filter(|old| old.class == class)
            .map_or(Rate(0), |old| old.rate);
        self.check_class(class, self.asked(class) - freed, rate)?;
        if uid == 0 {
            return Ok(());
        }
        let account = self.accounts.of(uid);
        let held = self.by_uid.get(&account).copied().unwrap_or_default();
        // What is replaced makes room only where it was this user's.
        let own_old = old.filter(|old| self.accounts.of(old.uid) == account);
        let old_rate = own_old.map_or(Rate(0), |old| old.rate);
        if held.rate - old_rate + rate > limits.rate {
            let text = format!(
                "user {uid} may reserve rates of {} in sum and has {}: expected at most {} more, not {rate}",
                limits.rate,
                held.rate - old_rate,
                limits.rate - (held.rate - old_rate)
            );
            return Err(Refusal::new(Errno::EDQUOT, text));
        }
        if own_old.is_none() && held.reservations >= limits.reservations {
            let text = format!(
                "user {uid} has {} reservations, the most that one user may have: release some",
                held.reservations
            );
            return Err(Refusal::new(Errno::EDQUOT, text));
        }
        Ok(())
    }

    fn check_class(&self, class: usize, asked: Rate, rate: Rate) -> Result<(), Refusal> {
        let Some(class) = self.classes.get(class) else {
            return Err(Refusal::new(Errno::ENOENT, "the class has gone"));
        };
        let Some(admits) = class.admits() else {
            return Ok(());
        };
        if asked + rate <= admits {
            return Ok(());
        }
        let text = format!(
            "class {} admits rates of {admits} in sum (capacity {}, overbooking {}) and has admitted {asked}: {} are \
             left, not {rate}",
            class.name,
            class.capacity(),
            class.overbooking,
            admits - asked
        );
        Err(Refusal::new(Errno::ENOSPC, text))
    }

    /// Tests whether the machine may be divided so: what was admitted must still be.
    ///
    /// # Errors
    /// EBUSY, with the numbers of the first class that would have admitted too much.
    pub fn check_classes(&self, changed: &Classes) -> Result<(), Refusal> {
        for (number, class) in self.classes.iter() {
            let asked = self.asked(number);
            // Another one in its place is not it.
            let to = changed.get(number).filter(|to| to.name == class.name);
            let order = to.map_or(class.order, |to| to.order);
            if asked > Rate(0) && order != class.order {
                let text = format!(
                    "class {} has reservations, of {asked} in sum: their order can be changed once they are released",
                    class.name
                );
                return Err(Refusal::new(Errno::EBUSY, text));
            }
            let admits = to.map_or(Some(Rate(0)), Class::admits);
            let Some(admits) = admits.filter(|admits| *admits < asked) else {
                continue;
            };
            let text = format!(
                "class {} has admitted rates of {asked} in sum, and would admit {admits}: release {} first",
                class.name,
                asked - admits
            );
            return Err(Refusal::new(Errno::EBUSY, text));
        }
        Ok(())
    }

    /// Divides the machine anew; `check_classes` must have agreed.
    pub fn set_classes(&mut self, classes: Classes) {
        self.classes = classes;
    }

    /// The shortest period of all reservations; 0 when there are none.
    pub fn shortest_period_ns(&self) -> u64 {
        self.periods.keys().next().copied().unwrap_or(0)
    }

    /// The number of the next reservation that is taken in: the one after the last new one's that none has. After the
    /// greatest the least follow.
    pub fn next_number(&self) -> u32 {
        let mut number = self.last_number;
        loop {
            number = number.checked_add(1).unwrap_or(1);
            if !self.by_number.contains_key(&number) {
                return number;
            }
        }
    }

    /// Takes an admitted reservation in.
    pub fn insert(&mut self, number: u32, reservation: Reservation<Target>) {
        if self.remove(number).is_none() {
            self.last_number = number;
        }
        for held in [
            self.asked.entry(reservation.class).or_default(),
            self.by_uid
                .entry(self.accounts.of(reservation.uid))
                .or_default(),
        ] {
            held.rate = held.rate + reservation.rate;
            held.reservations += 1;
        }
        *self.periods.entry(reservation.period_ns).or_default() += 1;
        self.by_target.insert(reservation.target.clone(), number);
        self.by_number.insert(number, reservation);
    }

    pub fn remove(&mut self, number: u32) -> Option<Reservation<Target>> {
        let gone = self.by_number.remove(&number)?;
        self.by_target.remove(&gone.target);
        if let Some(count) = self.periods.get_mut(&gone.period_ns) {
            *count -= 1;
            if *count == 0 {
                self.periods.remove(&gone.period_ns);
            }
        }
        Self::take(&mut self.asked, gone.class, gone.rate);
        Self::take(&mut self.by_uid, self.accounts.of(gone.uid), gone.rate);
        Some(gone)
    }

    fn take<K: Hash + Eq>(sums: &mut HashMap<K, Held>, key: K, rate: Rate) {
        let Some(held) = sums.get_mut(&key) else {
            return;
        };
        held.rate = held.rate - rate;
        held.reservations -= 1;
        if held.reservations == 0 {
            sums.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests;
