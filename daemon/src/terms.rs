// SPDX-License-Identifier: MIT OR Apache-2.0
//! On what terms a reservation is: what is asked for, on whose account, and what the scheduler is told.

use consort_kernel::Terms;
use nix::errno::Errno;

use crate::{
    admission::{Range, Reservation, PERIOD_MAX_NS, PERIOD_MIN_NS},
    rate::Rate,
    targets::Target,
    Refusal,
};

/// What the scheduler is told of a reservation that may use `rate`.
pub(crate) fn terms(reservation: &Reservation, rate: Rate) -> Terms {
    Terms {
        class: reservation.class as u32,
        rate: rate.weight(),
        period_ns: reservation.period_ns,
    }
}

/// On whose account a changed reservation is: what root has granted stays root's as long as it does not grow; what
/// grows is the account of whoever lets it grow.
pub(crate) fn payer(
    asker: u32,
    old: &Reservation,
    class: usize,
    rate: Rate,
    auto: Option<Range>,
) -> u32 {
    let most = auto.map_or(rate, |range| Rate(range.most));
    let grows = class != old.class || most > old.rate;
    match asker != 0 && old.uid != asker && grows {
        true => asker,
        false => old.uid,
    }
}

pub(crate) fn check_period(period_ns: u64) -> Result<(), Refusal> {
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
pub(crate) fn refuse_thread(error: &consort_kernel::Error) -> Result<(), Refusal> {
    match Errno::from_raw(error.errno()) {
        Errno::ESRCH | Errno::EEXIST => Ok(()),
        errno => Err(Refusal::new(errno, error.to_string())),
    }
}

/// Nobody of it can use a reservation.
pub(crate) fn not_scheduled(target: &Target) -> Refusal {
    let text = format!(
        "{} is not under the scheduler: it has ended, or a real-time policy, or has not opted in to a partial one",
        target.number()
    );
    Refusal::new(Errno::ESRCH, text)
}

/// All of it have a reservation.
pub(crate) fn taken(target: &Target) -> Refusal {
    let text = format!(
        "{} has a part in another reservation, such as its process': release that first, or reserve for a thread before \
         its process",
        target.number()
    );
    Refusal::new(Errno::EBUSY, text)
}

/// Those of a task without a reservation.
pub(crate) fn unknown(target: &Target) -> Refusal {
    let text = match target {
        Target::Cgroup { .. } | Target::Group { .. } => format!("{target} has no reservation"),
        target => format!("{} has no reservation", target.number()),
    };
    Refusal::new(Errno::ENOENT, text)
}
