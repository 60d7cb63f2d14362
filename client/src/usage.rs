// SPDX-License-Identifier: MIT OR Apache-2.0
//! Feedback: what this process' reservation asked for, has, and uses, so that a program can renegotiate it.

use crate::event_loop::{Event, EventLoop, Interest, When};
use crate::layout::{RawUsage, Request, DUE_AHEAD_MAX_NS, NEVER, RATE_ONE_CPU, RATE_UNKNOWN};
use crate::poll::{check_range, Next};
use crate::reservation::{no_answer, Question, WAIT};
use crate::Error;
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Instant;

/// Shortest time from one question to the next: the daemon looks about once a second.
pub const USAGE_PERIOD_MIN_NS: u64 = 100_000_000;

/// What a reservation asked for, has, and uses. Rates are parts of one CPU.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Usage {
    /// The nominal rate.
    pub asked: f64,
    /// Of that, what others use now.
    pub lent: f64,
    /// What others have lent to it.
    pub held: f64,
    /// The effective rate, with credits counted: what it has while all others of its class want theirs.
    pub given: f64,
    /// Over the last second, ten seconds and minute; none before there is anything to tell.
    pub used: [Option<f64>; 3],
    /// The nominal rate that would suit its recent use.
    pub suggested: Option<f64>,
    /// Of the last sixty seconds, those in which it used all that it was given.
    pub late_s: u32,
    /// Threads that share it now.
    pub threads: u32,
}

impl Usage {
    fn of(raw: &RawUsage) -> Usage {
        let rate = |millionths: u32| f64::from(millionths) / f64::from(RATE_ONE_CPU);
        let known = |millionths: u32| (millionths != RATE_UNKNOWN).then(|| rate(millionths));
        Usage {
            asked: rate(raw.asked),
            lent: rate(raw.lent),
            held: rate(raw.held),
            given: rate(raw.given),
            used: raw.used.map(known),
            suggested: known(raw.suggested),
            late_s: raw.late_s,
            threads: raw.threads,
        }
    }
}

/// What this process' reservation has now. Waits at most a second; an event loop asks without waiting:
/// [`EventLoop::watch_usage`].
///
/// # Errors
/// [`Error::Refused`] when it has none; [`Error::NoDaemon`].
pub fn usage() -> Result<Usage, Error> {
    read(ask(Instant::now() + WAIT)?.wait()?.usage)
}

fn ask(deadline: Instant) -> Result<Question, Error> {
    let (number, flags) = (0, 0);
    let request = Request::Usage { number, flags };
    Question::ask("tell the usage", &request, deadline)
}

fn read(raw: Option<RawUsage>) -> Result<Usage, Error> {
    let raw = raw.ok_or_else(|| Error::protocol("an answer without figures"))?;
    Ok(Usage::of(&raw))
}

/// A question that two events of a loop ask again and again: one asks, one takes the answer. Nobody waits.
pub(crate) struct Inquiry {
    question: Option<Question>,
    period_ns: u64,
    priority: u32,
    due_ns: u64,
}

impl Inquiry {
    /// # Errors
    /// [`Error::UsagePeriod`]; [`Error::PriorityRange`].
    pub fn every(period_ns: u64, priority: u32, now_ns: u64) -> Result<Inquiry, Error> {
        if !(USAGE_PERIOD_MIN_NS..=DUE_AHEAD_MAX_NS).contains(&period_ns) {
            return Err(Error::UsagePeriod { period_ns });
        }
        let answer = Next {
            due_ns: NEVER,
            best_effort: Some((priority, 0)),
        };
        check_range(answer.raw()?, now_ns)?;
        Ok(Inquiry {
            question: None,
            period_ns,
            priority,
            due_ns: now_ns,
        })
    }

    /// The first time; later ones follow by themselves.
    pub fn begin(&self, events: &mut EventLoop, asks: Event) -> Result<(), Error> {
        let due_ns = self.due_ns;
        events.submit(asks, When::Due { due_ns }).map(|_| ())
    }

    /// In the callback of `asks`: what keeps an answer from coming, the last one or this one.
    pub fn ask(
        &mut self,
        events: &mut EventLoop,
        [asks, answers]: [Event; 2],
    ) -> Result<(), Error> {
        // Before its file descriptor is closed.
        events.cancel(answers);
        let is_late = self.question.take().is_some();
        self.due_ns = self
            .due_ns
            .saturating_add(self.period_ns)
            .max(events.now_ns());
        self.begin(events, asks)?;
        let question = self.question.insert(ask(Instant::now())?);
        let fd = question.fd();
        events.submit(answers, self.answered(fd))?;
        match is_late {
            true => Err(no_answer()),
            false => Ok(()),
        }
    }

    fn answered(&self, fd: RawFd) -> When {
        When::Ready {
            fd,
            interest: Interest::READ,
            priority: self.priority,
            key: 0,
        }
    }

    /// In the callback of `answers`: none if it was not the whole answer yet.
    pub fn answer(
        &mut self,
        events: &mut EventLoop,
        answers: Event,
    ) -> Option<Result<Usage, Error>> {
        let question = self.question.as_mut()?;
        let outcome = match question.answer() {
            Ok(None) => {
                let fd = question.fd();
                return events.submit(answers, self.answered(fd)).err().map(Err);
            }
            Ok(Some(reply)) => read(reply.usage),
            Err(error) => Err(error),
        };
        events.cancel(answers);
        self.question = None;
        Some(outcome)
    }
}

/// Names a watch of one loop; copies name the same.
#[derive(Clone, Copy, Debug)]
pub struct UsageWatch {
    asks: Event,
    answers: Event,
}

impl EventLoop {
    /// Asks for this process' usage now and every `period_ns` ([`USAGE_PERIOD_MIN_NS`] to a day), and calls back with each
    /// answer, or with what keeps it from coming, as a best-effort event of that priority. [`EventLoop::run`] goes on
    /// until [`EventLoop::end_usage_watch`].
    ///
    /// # Errors
    /// [`Error::UsagePeriod`]; [`Error::PriorityRange`].
    pub fn watch_usage(
        &mut self,
        period_ns: u64,
        priority: u32,
        callback: impl FnMut(&mut EventLoop, Result<Usage, Error>) + 'static,
    ) -> Result<UsageWatch, Error> {
        let inquiry = Inquiry::every(period_ns, priority, self.now_ns())?;
        let inquiry = Rc::new(RefCell::new(inquiry));
        let callback = Rc::new(RefCell::new(callback));
        // An event learns its own name after it is made.
        let names = Rc::new(Cell::new(None));
        let asks = self.event({
            let (inquiry, callback) = (Rc::clone(&inquiry), Rc::clone(&callback));
            let names = Rc::clone(&names);
            move |events| {
                let Some(names) = names.get() else {
                    return;
                };
                let asked = inquiry.borrow_mut().ask(events, names);
                if let Err(error) = asked {
                    (callback.borrow_mut())(events, Err(error));
                }
            }
        });
        let answers = self.event({
            let (inquiry, names) = (Rc::clone(&inquiry), Rc::clone(&names));
            move |events| {
                let Some([_, answers]) = names.get() else {
                    return;
                };
                let answer = inquiry.borrow_mut().answer(events, answers);
                if let Some(outcome) = answer {
                    (callback.borrow_mut())(events, outcome);
                }
            }
        });
        names.set(Some([asks, answers]));
        inquiry.borrow().begin(self, asks)?;
        Ok(UsageWatch { asks, answers })
    }

    /// Ends a watch; also from its callback. No effect if it has ended.
    pub fn end_usage_watch(&mut self, watch: UsageWatch) {
        self.remove(watch.answers);
        self.remove(watch.asks);
    }
}
