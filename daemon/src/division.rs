// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `consort class list` and `consort usage` show: how the machine is divided, and who has reserved and used what.

use std::time::Instant;

use consort_abi::{consort_usage_reply, CONSORT_RATE_ONE_CPU, CONSORT_RATE_UNKNOWN};
use serde::Serialize;

use crate::{
    admission::Reservation,
    classes::{Order, Overbooking, FLEXIBLE},
    credits::Credit,
    pages::first_page,
    peer::Peer,
    rate::Rate,
    service::Service,
    targets::{Named, Target},
    terms::unknown,
    usage::{History, WINDOWS},
    Refusal,
};

#[derive(Debug, Serialize)]
pub struct DivisionStatus {
    pub cpus: u32,
    /// In the order of their numbers, `flexible` last.
    pub classes: Vec<ClassStatus>,
}

#[derive(Debug, Serialize)]
pub struct ClassStatus {
    pub name: String,
    /// CPUs.
    pub capacity: f64,
    /// A part of the capacity; `null`: unlimited.
    pub overbooking: Option<f64>,
    /// `null` for `flexible`, which has no reservations.
    pub order: Option<Order>,
    /// The most that nominal rates may sum up to; `null`: anything.
    pub admits: Option<f64>,
    /// The sum of nominal rates admitted.
    pub asked: f64,
    /// What its reservations get in sum while all want the CPU.
    pub given: f64,
    /// CPUs that its reservations used over the last second; `null` for `flexible`.
    pub used: Option<f64>,
    pub reservations: usize,
}

/// Some of the asking user's reservations, or of everybody's for root, by number.
#[derive(Debug, Serialize)]
pub struct ReservationPage {
    pub reservations: Vec<ReservationStatus>,
    /// Ask again with `after` set to the last one's `reservation`.
    pub more: bool,
}

#[derive(Debug, Serialize)]
pub struct ReservationStatus {
    pub reservation: u32,
    pub uid: u32,
    /// "process", "thread", "cgroup" or "group".
    pub kind: &'static str,
    pub number: i32,
    pub command: String,
    pub class: String,
    /// The nominal rate.
    pub asked: f64,
    /// Of that and of what it was lent, what others use now; each with the number of the reservation.
    pub lent: Vec<CreditStatus>,
    /// What others have lent to it.
    pub held: Vec<CreditStatus>,
    /// The effective rate: credits are counted.
    pub given: f64,
    pub period_ns: u64,
    /// The least and the most of an automatic rate.
    pub auto: Option<[f64; 2]>,
    /// Of the last sixty seconds, those in which it used all that it was given.
    pub late_seconds: usize,
    /// The nominal rate that would suit its recent use; `null` before that can be told.
    pub suggested: Option<f64>,
    /// CPUs used over the last second, ten seconds and minute; `null` before there is anything to tell.
    pub used: [Option<f64>; 3],
    pub used_total_ns: u64,
    /// Threads that share it now.
    pub threads: u32,
}

#[derive(Debug, Serialize)]
pub struct CreditStatus {
    /// The other side.
    pub reservation: u32,
    pub rate: f64,
}

impl DivisionStatus {
    pub fn of(service: &Service) -> Self {
        let ledger = &service.reservations.ledger;
        let classes = ledger.classes().iter().map(|(number, class)| {
            let held: Vec<(u32, &Reservation)> = ledger
                .iter()
                .filter(|(_, held)| held.class == number)
                .collect();
            let given: Rate = held
                .iter()
                .map(|(_, held)| ledger.effective(number, held.rate))
                .sum();
            let used = held
                .iter()
                .filter_map(|(number, held)| service.used(*number, &held.target).0[0]);
            ClassStatus {
                name: class.name.clone(),
                capacity: class.capacity().value(),
                overbooking: match class.overbooking {
                    Overbooking::Part(part) => Some(Rate(part).value()),
                    Overbooking::Unlimited => None,
                },
                order: Some(class.order),
                admits: class.admits().map(Rate::value),
                asked: ledger.asked(number).value(),
                given: given.value(),
                used: Some(used.fold(0.0, |sum, rate| sum + rate)),
                reservations: held.len(),
            }
        });
        let flexible = ClassStatus {
            name: FLEXIBLE.to_owned(),
            capacity: ledger.classes().flexible().value(),
            overbooking: None,
            order: None,
            admits: None,
            asked: 0.0,
            given: ledger.classes().flexible().value(),
            used: None,
            reservations: 0,
        };
        DivisionStatus {
            cpus: ledger.classes().cpus,
            classes: classes.chain([flexible]).collect(),
        }
    }
}

impl ReservationPage {
    /// The reservations after number `after` that user `shown_uid` has, or everybody.
    pub fn of(service: &Service, shown_uid: Option<u32>, after: Option<u32>) -> Self {
        let after = after.unwrap_or_default();
        let found = service
            .reservations
            .ledger
            .after(after)
            .filter(|(_, held)| shown_uid.is_none_or(|uid| uid == held.uid));
        let told = found.map(|(number, held)| service.describe(number, held));
        let (reservations, more) = first_page(told);
        ReservationPage { reservations, more }
    }
}

impl Service {
    /// The reservation of whom `peer` names; `None`: there is none, or it is a stranger's.
    pub fn reservation_of(&self, peer: &Peer, named: &Named) -> Option<ReservationStatus> {
        let target = self.processes.named(peer, named).ok()?;
        let number = self.reservations.ledger.find(&target)?;
        let held = self.reservations.ledger.get(number)?;
        Some(self.describe(number, held))
    }

    fn describe(&self, number: u32, held: &Reservation) -> ReservationStatus {
        let ledger = &self.reservations.ledger;
        let class = ledger.classes().get(held.class);
        let (used, used_total_ns, threads) = self.used(number, &held.target);
        let in_force = self.reservations.in_force(number);
        let history = in_force.map(|in_force| &in_force.history);
        ReservationStatus {
            reservation: number,
            uid: held.uid,
            kind: match held.target {
                Target::Process { .. } => "process",
                Target::Thread { .. } => "thread",
                Target::Cgroup { .. } => "cgroup",
                Target::Group { .. } => "group",
            },
            number: held.target.number(),
            command: self.processes.command(&held.target),
            class: class.map_or_else(String::new, |class| class.name.clone()),
            asked: held.rate.value(),
            lent: self.credits(|credit| (credit.from == number).then_some(credit.to)),
            held: self.credits(|credit| (credit.to == number).then_some(credit.from)),
            given: ledger
                .effective(held.class, self.reservations.balance(number))
                .value(),
            period_ns: held.period_ns,
            auto: held
                .auto
                .map(|range| [range.least, range.most].map(|rate| Rate(rate).value())),
            late_seconds: history.map_or(0, History::late_seconds),
            suggested: history
                .and_then(|history| history.suggested(held.rate))
                .map(Rate::value),
            used,
            used_total_ns,
            threads,
        }
    }

    /// What a program is told of a reservation.
    ///
    /// # Errors
    /// ENOENT when it has none; those of naming a target.
    pub fn usage_of(&self, peer: &Peer, named: &Named) -> Result<consort_usage_reply, Refusal> {
        let target = self.processes.named(peer, named)?;
        let number = self.reservations.ledger.find(&target);
        let found = number.and_then(|number| Some((number, self.reservations.ledger.get(number)?)));
        let (number, held) = found.ok_or_else(|| unknown(&target))?;
        let told = self.describe(number, held);
        let millionths = |rate: f64| (rate * f64::from(CONSORT_RATE_ONE_CPU)).round() as u32;
        let sum = |credits: &[CreditStatus]| millionths(credits.iter().map(|it| it.rate).sum());
        let known = |rate: Option<f64>| rate.map_or(CONSORT_RATE_UNKNOWN, millionths);
        Ok(consort_usage_reply {
            asked: millionths(told.asked),
            lent: sum(&told.lent),
            held: sum(&told.held),
            given: millionths(told.given),
            used: told.used.map(known),
            suggested: known(told.suggested),
            late_s: told.late_seconds as u32,
            threads: told.threads,
            ..consort_usage_reply::default()
        })
    }

    fn credits(&self, other_side: impl Fn(&Credit) -> Option<u32>) -> Vec<CreditStatus> {
        let of = |credit: &Credit| {
            let (reservation, rate) = (other_side(credit)?, Rate(credit.rate).value());
            Some(CreditStatus { reservation, rate })
        };
        self.reservations.credits.iter().filter_map(of).collect()
    }

    /// CPUs used over each window, the sum in nanoseconds, and the threads that share it now.
    pub(crate) fn used(&self, number: u32, target: &Target) -> ([Option<f64>; 3], u64, u32) {
        let Some(in_force) = self.reservations.in_force(number) else {
            return ([None; 3], 0, 0);
        };
        let usage = self.usage(in_force.id, target).unwrap_or_default();
        let now = Instant::now();
        let rate = |window| in_force.history.rate(window, now, usage.ran_ns);
        (
            WINDOWS.map(|window| rate(window).map(Rate::value)),
            usage.ran_ns,
            usage.tasks,
        )
    }
}
