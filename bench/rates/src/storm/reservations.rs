// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client that asks the daemon: reserves, renegotiates, lends, recollects, releases, and asks for what must be refused.

use super::gate;
use super::tally::{Answer, Tally};
use consort::Reservation;
use consort_bench_player::clock::{now_ns, NS_PER_MS};
use consort_bench_player::error::Error;
use consort_bench_player::fleet::Schedule;
use consort_sim::random::Random;
use serde::{Deserialize, Serialize};

const CLASSES: [&str; 2] = ["guaranteed", "adaptive"];
const PERIODS_NS: [u64; 4] = [NS_PER_MS, 10 * NS_PER_MS, 30 * NS_PER_MS, 1000 * NS_PER_MS];
/// Millionths of a CPU.
const RATES: std::ops::Range<u64> = 1_000..50_000;
/// Below the shortest period.
const BAD_PERIOD_NS: u64 = NS_PER_MS / 2;

type Ask = fn() -> Result<(), consort::Error>;

const REFUSED: [(&str, Ask); 4] = [
    ("an unknown class", || {
        Reservation::in_class("none").rate(0.01).reserve()
    }),
    ("too short a period", || {
        let wanted = Reservation::in_class(CLASSES[0]).rate(0.01);
        wanted.period_ns(BAD_PERIOD_NS).reserve()
    }),
    ("a credit to itself", || {
        consort::lend(std::process::id(), 0.001)
    }),
    ("more credit than anybody has", || consort::lend(1, 1.0)),
];

/// What a client holds of its own, by what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Told {
    Nothing,
    /// The number of the class, and the rate.
    Holds(usize, f64),
    /// The last answer did not come.
    Unknown,
}

impl Told {
    pub fn class(number: usize) -> &'static str {
        CLASSES[number]
    }
}

struct Client {
    random: Random,
    partner: Option<u32>,
    told: Told,
    tally: Tally,
}

/// Asks until the window's end, holds what it then has until it is let go, and releases it; or ends with it, as every other one.
pub fn storm(seed: u64, partner: Option<u32>, schedule: Schedule) -> Result<(Tally, Told), Error> {
    let mut client = Client {
        random: Random::new(seed),
        partner,
        told: Told::Nothing,
        tally: Tally::default(),
    };
    while now_ns() < schedule.window_end_ns {
        client.ask_something()?;
    }
    gate::wait();
    if seed.is_multiple_of(2) && matches!(client.told, Told::Holds(..)) {
        consort::release().map_err(Error::Cooperation)?;
    }
    Ok((client.tally, client.told))
}

impl Client {
    fn ask_something(&mut self) -> Result<(), Error> {
        match self.random.between(0, 8) {
            0..3 => self.reserve(),
            3 => self.release(),
            4 => self.lend(),
            5 => self.recollect(),
            _ => return self.ask_what_is_refused(),
        }
        Ok(())
    }

    /// Anew, or another rate, class and period.
    fn reserve(&mut self) {
        let class = self.random.between(0, CLASSES.len() as u64) as usize;
        let rate = self.random.between(RATES.start, RATES.end) as f64 / 1e6;
        let period_ns = *self.random.pick(&PERIODS_NS);
        let wanted = Reservation::in_class(CLASSES[class])
            .rate(rate)
            .period_ns(period_ns);
        match self.tally.count(|| answer(wanted.reserve())) {
            Answer::Granted => self.told = Told::Holds(class, rate),
            Answer::None => self.told = Told::Unknown,
            _ => {}
        }
    }

    fn release(&mut self) {
        match self.tally.count(|| answer(consort::release())) {
            Answer::Granted => self.told = Told::Nothing,
            Answer::None => self.told = Told::Unknown,
            _ => {}
        }
    }

    fn lend(&mut self) {
        let Some(partner) = self.partner else {
            return;
        };
        let rate = self.random.between(1, RATES.start) as f64 / 1e6;
        self.tally.count(|| answer(consort::lend(partner, rate)));
    }

    fn recollect(&mut self) {
        let Some(partner) = self.partner else {
            return;
        };
        self.tally
            .count(|| answer(consort::recollect(partner, None)));
    }

    fn ask_what_is_refused(&mut self) -> Result<(), Error> {
        let (what, ask) = *self.random.pick(&REFUSED);
        match self.tally.count(|| answer(ask())) {
            Answer::Granted => {
                let text = format!("{what} was granted, expected a refusal");
                Err(Error::Usage(text))
            }
            _ => Ok(()),
        }
    }
}

fn answer(done: Result<(), consort::Error>) -> Answer {
    match done {
        Ok(()) => Answer::Granted,
        Err(
            consort::Error::Refused {
                errno: libc::EAGAIN,
                ..
            }
            | consort::Error::Gone,
        ) => Answer::TurnedAway,
        Err(consort::Error::Refused { errno, .. }) => Answer::Refused(errno),
        Err(_) => Answer::None,
    }
}
