// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is done about reservations a few times a second: who uses them, how much, and whether anybody still does.

use std::time::Instant;

use consort_kernel::{Error, ReservationUsage};
use tracing::debug;

use crate::{
    admission::{Range, Reservation},
    rate::Rate,
    service::Service,
    targets::Target,
};

/// Reservations looked at in each tick: bounds what it costs.
const SWEEP_RESERVATIONS: usize = 64;

/// The largest rate from `now` up to what is wanted, and does not fit, that `fits`; `now` if none does.
fn most_that_fits(now: Rate, wanted: Rate, fits: impl Fn(Rate) -> bool) -> Rate {
    let (mut least, mut most) = (now.0, wanted.0);
    while least + 1 < most {
        let middle = least + (most - least) / 2;
        if fits(Rate(middle)) {
            least = middle;
        } else {
            most = middle;
        }
    }
    Rate(least)
}

impl Service {
    /// Called a few times a second: notes what was used, and forgets what nobody uses any more.
    pub(crate) fn tick_reservations(&mut self, now: Instant) {
        for id in std::mem::take(&mut self.reservations.doomed) {
            self.end(id);
        }
        self.tick_searches(now);
        let swept = self.reservations.swept;
        let later = self.reservations.ledger.iter().map(|(number, _)| number);
        let numbers: Vec<u32> = later
            .filter(|number| *number > swept)
            .take(SWEEP_RESERVATIONS)
            .collect();
        self.reservations.swept = match numbers.last() {
            Some(last) if numbers.len() == SWEEP_RESERVATIONS => *last,
            _ => 0,
        };
        for number in numbers {
            if !self.drop_if_unused(number) {
                self.note_usage(number, now);
            }
        }
        if let Err(refusal) = self.reservations.pay() {
            debug!(%refusal, "the journal still owes what has ended");
        }
    }

    /// A cgroup's CPU time is the kernel's own sum.
    fn ran_ns(&self, id: u32, target: &Target) -> Result<u64, Error> {
        match target {
            Target::Cgroup { path, .. } => {
                Ok(self.processes.cgroup_ran_ns(path).unwrap_or_default())
            }
            _ => Ok(self.host.reservation_usage(id)?.ran_ns),
        }
    }

    pub(crate) fn usage(&self, id: u32, target: &Target) -> Result<ReservationUsage, Error> {
        let mut usage = self.host.reservation_usage(id)?;
        if let Target::Cgroup { path, .. } = target {
            usage.ran_ns = self.ran_ns(id, target)?;
            usage.tasks = self.processes.threads_in(path) as u32;
        }
        Ok(usage)
    }

    fn note_usage(&mut self, number: u32, now: Instant) {
        let Some((id, held)) = self.held(number) else {
            return;
        };
        // How many threads there are may be much to read, and is nobody's question here.
        let Ok(ran_ns) = self.ran_ns(id, &held.target) else {
            return;
        };
        let reservations = &mut self.reservations;
        let balance = reservations.balance(number);
        let given = reservations.ledger.effective(held.class, balance);
        let Some(in_force) = reservations.in_force.get_mut(&number) else {
            return;
        };
        if !in_force.history.note(now, ran_ns, given) {
            return;
        }
        let suggested = in_force.history.suggested(held.rate);
        if let (Some(suggested), Some(range)) = (suggested, held.auto) {
            self.follow_demand(number, held, suggested, range);
        }
    }

    /// An automatic rate becomes what is suggested, as far as class and user have it.
    fn follow_demand(&mut self, number: u32, held: Reservation, suggested: Rate, range: Range) {
        let rate = suggested.clamp(Rate(range.least), Rate(range.most));
        if rate == held.rate {
            return;
        }
        let limits = self.limits_held(number, &held.target);
        let groups = self.reservations.groups(number);
        let changed = match self.admit(limits, held.uid, held.class, rate, Some(number)) {
            Ok(()) => self.change(number, Reservation { rate, ..held }, groups),
            Err(refusal) => {
                let reservations = &self.reservations;
                let fits = |rate| {
                    let admitted =
                        reservations.admit(limits, held.uid, held.class, rate, Some(number));
                    admitted.is_ok()
                };
                match most_that_fits(held.rate, rate, fits) {
                    rate if rate > held.rate => {
                        self.change(number, Reservation { rate, ..held }, groups)
                    }
                    _ => Err(refusal),
                }
            }
        };
        match changed {
            Ok(_) => debug!(number, %rate, "an automatic rate follows"),
            Err(refusal) => debug!(number, %rate, %refusal, "an automatic rate cannot follow"),
        }
    }

    /// True when the reservation is over because no thread uses it any more.
    pub(crate) fn drop_if_unused(&mut self, number: u32) -> bool {
        let Some(in_force) = self.reservations.in_force.get(&number) else {
            return false;
        };
        let held = self.reservations.ledger.get(number);
        if held.is_some_and(|held| matches!(held.target, Target::Group { .. })) {
            // Names outlive those who have them.
            return false;
        }
        let is_used = in_force.waits_for_threads()
            || !matches!(self.host.reservation_usage(in_force.id), Ok(usage) if usage.tasks == 0);
        if is_used {
            return false;
        }
        debug!(number, "nobody uses a reservation any more");
        self.forget(number);
        true
    }
}
