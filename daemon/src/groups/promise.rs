// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a group has promised to its members: a reservation like others, admitted in the same ledger, that no thread of its
//! own keeps alive and that the journal does not know: its file is in the store.

use consort_groups::Promise;

use super::FileKey;
use crate::{
    admission::{Reservation, UserLimits},
    search::Search,
    service::Service,
    targets::Target,
    terms::{check_period, terms, unknown},
    Refusal,
};

fn target(key: &FileKey, group: &str) -> Target {
    Target::Group {
        uid: key.uid,
        file: key.name.clone(),
        group: group.to_owned(),
    }
}

impl Service {
    /// Makes, changes or ends the reservation of a group; `limits` are its user's, `None`: it was within them before.
    pub(super) fn set_promise(
        &mut self,
        key: &FileKey,
        group: &str,
        to: Option<&Promise>,
        limits: Option<UserLimits>,
    ) -> Result<(), Refusal> {
        let target = target(key, group);
        let old = self.reservations.ledger.find(&target);
        let Some(promise) = to else {
            let number = old.ok_or_else(|| unknown(&target))?;
            self.drop_reservation(number);
            return Ok(());
        };
        let class = self.reservations.ledger.classes().find(&promise.class)?;
        check_period(promise.period_ns)?;
        match limits {
            Some(limits) => self.admit(limits, key.uid, class, promise.rate, old)?,
            None => self
                .reservations
                .ledger
                .admit(0, class, promise.rate, old)?,
        }
        let wanted = Reservation {
            uid: key.uid,
            class,
            rate: promise.rate,
            auto: None,
            period_ns: promise.period_ns,
            target,
        };
        let wanted_terms = terms(&wanted, wanted.rate);
        match old.and_then(|number| Some((number, self.held(number)?.0))) {
            Some((number, id)) => {
                self.host.change_reservation(id, wanted_terms)?;
                self.take_in(number, (id, 0, Search::default()), wanted);
            }
            None => {
                let id = self.host.create_reservation(wanted_terms)?;
                let number = self.reservations.ledger.next_number();
                self.take_in(number, (id, 0, Search::default()), wanted);
            }
        }
        Ok(())
    }

    /// The scheduler's number of a group's reservation.
    pub(super) fn reservation_of_group(&self, key: &FileKey, group: &str) -> Option<u32> {
        let number = self.reservations.ledger.find(&target(key, group))?;
        Some(self.reservations.in_force(number)?.id)
    }

    /// CPUs that a group's reservation used over the last second; `None` before there is anything to tell.
    pub(super) fn used_by_group(&self, key: &FileKey, group: &str) -> Option<f64> {
        let target = target(key, group);
        let number = self.reservations.ledger.find(&target)?;
        self.used(number, &target).0[0]
    }
}
