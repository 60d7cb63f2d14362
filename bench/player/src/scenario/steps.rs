// SPDX-License-Identifier: MIT OR Apache-2.0
//! One task's program, carried out by the calling process.

use super::journal::Journal;
use super::radio::Receiver;
use super::world;
use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS};
use crate::error::Error;
use consort::{Domain, Member, Next, Order, NEVER};
use consort_sim::random::Random;
use consort_sim::rates::RateRequest;
use consort_sim::setup::{self, Due, Length, Program, Setup, Step};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// How long a hog works between looks at the clock: as in the simulator, nobody sees it do that.
const HOG_PIECE_NS: u64 = 1_000 * NS_PER_MS;
const MILLION: f64 = 1e6;

/// What one process knows while it carries its task out.
pub struct Running<'a> {
    pub setup: &'a Setup,
    pub pids: &'a world::Pids,
    /// Whether somebody is there who can be asked for rates.
    pub asks: bool,
    pub end_ns: u64,
    /// The latest multiple of each timer.
    pub timers: BTreeMap<u32, u64>,
    pub random: Random,
    pub journal: Journal,
    /// Its timers are packets, where it is a receiver.
    pub receiver: Option<Receiver>,
    pub member: Option<Member>,
}

/// Breaks where the run is over, or the program is.
type Flow = Result<ControlFlow<()>, Error>;

const GO_ON: Flow = Ok(ControlFlow::Continue(()));
const ENDED: Flow = Ok(ControlFlow::Break(()));

fn unable(what: &str) -> Error {
    Error::Usage(format!(
        "{what} is not carried out by processes, only simulated"
    ))
}

fn order_of(number: u32) -> Result<Order, Error> {
    let orders = [Order::Program, Order::Progress, Order::Service];
    let known = orders.into_iter().find(|it| *it as u32 == number);
    known.ok_or_else(|| Error::Usage(format!("no library knows the order {number} of a domain")))
}

impl Running<'_> {
    /// From its beginning to its end, or the run's.
    pub fn carry_out(&mut self, program: &Program) -> Result<(), Error> {
        match program {
            Program::Steps(steps) => self.all(steps).map(|_| ()),
            Program::Hog => {
                while now_ns() < self.end_ns {
                    let left_ns = self.end_ns.saturating_sub(now_ns());
                    self.journal.work(HOG_PIECE_NS.min(left_ns), self.end_ns);
                }
                Ok(())
            }
            other => Err(unable(&format!("{other:?}"))),
        }
    }

    fn all(&mut self, steps: &[Step]) -> Flow {
        for step in steps {
            if now_ns() >= self.end_ns {
                return ENDED;
            }
            if self.one(step)?.is_break() {
                return ENDED;
            }
        }
        GO_ON
    }

    fn one(&mut self, step: &Step) -> Flow {
        match step {
            Step::Run(length) => {
                let length_ns = self.draw(length)?;
                self.journal.work(length_ns, self.end_ns);
            }
            Step::Sleep(length) => {
                let length_ns = self.draw(length)?;
                sleep_until_ns(now_ns() + length_ns);
            }
            Step::Timer {
                timer,
                period_ns,
                absolute,
            } => {
                match &mut self.receiver {
                    Some(receiver) => {
                        self.journal.answered(receiver.answered_after_ns());
                        if !receiver.wait()? {
                            return ENDED;
                        }
                    }
                    None => sleep_until_ns(self.next_of_timer(*timer, *period_ns, *absolute)),
                }
                self.journal.stamp();
            }
            // SAFETY: takes and changes nothing.
            Step::Yield => drop(unsafe { libc::sched_yield() }),
            Step::Nice(nice) => crate::processes::set_nice(*nice)?,
            Step::Join(domain) => {
                let setup::Domain {
                    name,
                    event_ns,
                    preempt,
                    order,
                } = &self.setup.domains[*domain];
                let domain = Domain::named(name.as_str())
                    .event_ns(*event_ns)
                    .preempt(*preempt)
                    .order(order_of(*order)?);
                self.member = Some(domain.join().map_err(Error::Cooperation)?);
            }
            Step::Leave => self.member = None,
            Step::Poll { due, best_effort } => self.poll(due, *best_effort)?,
            Step::Rates(request) => self.ask(request)?,
            // What the kernel has to do then, it does for this program as for any.
            Step::Exit(_) => return ENDED,
            Step::Loop { times, steps } => return self.turns(*times, steps),
            other => return Err(unable(&format!("{other:?}"))),
        }
        GO_ON
    }

    fn draw(&mut self, length: &Length) -> Result<u64, Error> {
        Ok(match length {
            Length::Fixed(ns) => *ns,
            Length::Uniform { min_ns, max_ns } => self.random.between(*min_ns, max_ns + 1),
            Length::Normal {
                mean_ns,
                deviation_ns,
            } => {
                let drawn_ns = *mean_ns as f64 + self.random.normal() * *deviation_ns as f64;
                drawn_ns.max(0.0) as u64
            }
            Length::Exponential { mean_ns } => {
                (-(1.0 - self.random.unit()).ln() * *mean_ns as f64) as u64
            }
            other => return Err(unable(&format!("{other:?}"))),
        })
    }

    fn ask(&self, request: &RateRequest) -> Result<(), Error> {
        if !self.asks {
            return Ok(());
        }
        match request {
            RateRequest::Lend { to, rate } => {
                consort::lend(self.pids.get(*to), *rate as f64 / MILLION)
            }
            RateRequest::Recollect { from, rate } => {
                consort::recollect(self.pids.get(*from), rate.map(|rate| rate as f64 / MILLION))
            }
            other => return Err(unable(&format!("{other:?}"))),
        }
        .map_err(Error::Cooperation)
    }

    fn turns(&mut self, times: Option<u64>, steps: &[Step]) -> Flow {
        let mut left = times.unwrap_or(u64::MAX);
        while left > 0 {
            left -= u64::from(times.is_some());
            if self.all(steps)?.is_break() {
                return ENDED;
            }
        }
        GO_ON
    }

    /// As the simulator counts them.
    fn next_of_timer(&mut self, timer: u32, period_ns: u64, absolute: bool) -> u64 {
        let now_ns = now_ns();
        let at_ns = self.timers.entry(timer).or_insert(now_ns);
        *at_ns += period_ns;
        if *at_ns < now_ns && !absolute {
            *at_ns = now_ns;
        }
        *at_ns
    }

    fn poll(&mut self, due: &Due, best_effort: Option<(u32, u64)>) -> Result<(), Error> {
        let due_ns = match due {
            Due::Never => NEVER,
            Due::In(length) => now_ns() + self.draw(length)?,
            Due::Timer {
                timer,
                period_ns,
                absolute,
            } => self.next_of_timer(*timer, *period_ns, *absolute),
            Due::Raw(due_ns) => *due_ns,
        };
        let next = Next {
            due_ns,
            best_effort,
        };
        let Some(member) = &self.member else {
            return Err(Error::NotAMember);
        };
        member.poll(next).map_err(Error::Cooperation)?;
        Ok(())
    }
}
