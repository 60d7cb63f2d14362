// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept for root: a part of what each class admits, that no other user can reserve, however many there are.

use std::fmt;

use nix::errno::Errno;

use crate::{
    admission::UserLimits,
    rate::{Rate, MILLION},
    reservations::Reservations,
    Refusal,
};

/// A part of what each class admits, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RootsPart(u64);

impl RootsPart {
    /// `None` for what is no part.
    pub fn of(value: f64) -> Option<RootsPart> {
        let part = Rate::of(value)?;
        (part <= Rate::ONE).then_some(RootsPart(part.0))
    }

    fn of_rate(self, admits: Rate) -> Rate {
        admits.share(Rate(self.0), Rate(MILLION))
    }
}

impl fmt::Display for RootsPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Rate(self.0).fmt(f)
    }
}

impl Reservations {
    /// Whether the class has so much left, also without what is kept for root, and the user's limits have it.
    pub(crate) fn admit(
        &self,
        limits: UserLimits,
        uid: u32,
        class: usize,
        rate: Rate,
        old: Option<u32>,
    ) -> Result<(), Refusal> {
        self.ledger.admit_within(limits, uid, class, rate, old)?;
        if uid == 0 || self.roots_part == RootsPart::default() {
            return Ok(());
        }
        self.check_roots_part(class, rate, old)
    }

    /// What root has reserved of its part is no longer kept. A user who asks for no more than before is not refused: the part may
    /// have been set since.
    fn check_roots_part(&self, number: usize, rate: Rate, old: Option<u32>) -> Result<(), Refusal> {
        let Some((class, admits)) = self
            .ledger
            .classes()
            .get(number)
            .and_then(|class| Some((class, class.admits()?)))
        else {
            return Ok(());
        };
        let (mut roots, mut users, mut freed) = (Rate(0), Rate(0), Rate(0));
        for (other, held) in self.ledger.iter().filter(|(_, held)| held.class == number) {
            match held.uid {
                _ if old == Some(other) => freed = held.rate,
                0 => roots = roots + held.rate,
                _ => users = users + held.rate,
            }
        }
        let kept = self.roots_part.of_rate(admits) - roots;
        let left = admits - (roots + users + kept);
        if rate <= freed || rate <= left {
            return Ok(());
        }
        let text = format!(
            "class {} admits rates of {admits} in sum, and keeps {kept} for root: {left} are left, not {rate}",
            class.name
        );
        Err(Refusal::new(Errno::ENOSPC, text))
    }
}
