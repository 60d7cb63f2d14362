// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reserved rates: a part of a CPU for this process, whatever the others do; and credits, parts of it for others.

use crate::connection::{Connection, Reply, Ticket};
use crate::layout::{Name, Request, RATE_ONE_CPU, RESERVE_THREAD};
use crate::link::{connect_to_daemon, new_socket, refuse, Reached};
use crate::process::Process;
use crate::Error;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// How long an answer is awaited.
pub(crate) const WAIT: Duration = Duration::from_secs(1);

/// What to reserve: a rate of a class, for this process and all that it will start.
///
/// ```no_run
/// consort::Reservation::in_class("guaranteed").rate(0.3).period_ns(33_000_000).reserve()?;
/// // ... and when less will do, in one step:
/// consort::Reservation::in_class("guaranteed").rate(0.2).reserve()?;
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Reservation {
    class: String,
    rate: f64,
    period_ns: u64,
    /// 0: this process.
    number: i32,
    thread: bool,
}

impl Reservation {
    /// A reservation in the class of that name; `consort class list` shows those that there are.
    pub fn in_class(class: impl Into<String>) -> Reservation {
        Reservation {
            class: class.into(),
            rate: 0.0,
            period_ns: 30_000_000,
            number: 0,
            thread: false,
        }
    }

    /// The nominal rate: a part of one CPU, above 0 and at most 1.
    pub fn rate(mut self, rate: f64) -> Reservation {
        self.rate = rate;
        self
    }

    /// The time over which the rate is needed, in nanoseconds: a millisecond to ten seconds, 30 ms by default.
    pub fn period_ns(mut self, period_ns: u64) -> Reservation {
        self.period_ns = period_ns;
        self
    }

    /// For another process of the same user, instead of this one; root may name any.
    pub fn for_process(mut self, pid: u32) -> Reservation {
        (self.number, self.thread) = (pid as i32, false);
        self
    }

    /// For one thread, by its number (gettid), instead of this process.
    pub fn for_thread(mut self, tid: u32) -> Reservation {
        (self.number, self.thread) = (tid as i32, true);
        self
    }

    /// Reserves, or changes what is reserved already, in one step. Waits at most a second.
    ///
    /// # Errors
    /// [`Error::RateRange`]; [`Error::NoDaemon`]; [`Error::Refused`] with the daemon's reason and its numbers: nothing
    /// has changed then.
    pub fn reserve(&self) -> Result<(), Error> {
        let Some(class) = Name::new(&self.class) else {
            let bytes = self.class.len();
            return Err(Error::ClassTooLong { bytes });
        };
        let request = Request::Reserve {
            number: self.number,
            flags: if self.thread { RESERVE_THREAD } else { 0 },
            class,
            millionths: millionths(self.rate)?,
            period_ns: self.period_ns,
        };
        ask("reserve", &request)
    }
}

/// Ends this process' reservation.
///
/// # Errors
/// [`Error::Refused`] when it has none; [`Error::NoDaemon`].
pub fn release() -> Result<(), Error> {
    let (number, flags) = (0, 0);
    ask("release", &Request::Release { number, flags })
}

/// Lends a part of this process' reservation to process or thread `to`, until it is recollected or either ends.
///
/// # Errors
/// [`Error::RateRange`]; [`Error::Refused`] for more than there is, to itself, in a circle, to a stranger without a
/// reservation, into another class.
pub fn lend(to: u32, rate: f64) -> Result<(), Error> {
    let (to, millionths) = (to as i32, millionths(rate)?);
    ask("lend", &Request::Lend { to, millionths })
}

/// Takes back what was lent to `to`, or a part of it.
///
/// # Errors
/// [`Error::Refused`] when less or nothing is lent there; [`Error::RateRange`].
pub fn recollect(to: u32, rate: Option<f64>) -> Result<(), Error> {
    let (to, millionths) = (to as i32, rate.map_or(Ok(0), millionths)?);
    ask("recollect", &Request::Recollect { to, millionths })
}

fn millionths(rate: f64) -> Result<u32, Error> {
    let millionths = (rate * f64::from(RATE_ONE_CPU)).round();
    match (1.0..=f64::from(RATE_ONE_CPU)).contains(&millionths) {
        true => Ok(millionths as u32),
        false => Err(Error::RateRange {
            millionths: millionths as i64,
        }),
    }
}

fn ask(action: &'static str, request: &Request) -> Result<(), Error> {
    let process = Process::current()?;
    let kept = process.take_kept();
    // A daemon that is not there any more has not got it: the next one may be.
    let asked = kept.and_then(|connection| Question::on(connection, action, request).ok());
    let mut question = match asked {
        Some(question) => question,
        None => Question::ask(action, request, Instant::now() + WAIT)?,
    };
    let reply = question.reply()?;
    // With a refusal the daemon may end the connection, which the next call would take for the daemon's own end.
    refuse(action, &reply)?;
    process.keep(question.connection);
    Ok(())
}

/// One request on a connection without a page.
pub(crate) struct Question {
    action: &'static str,
    connection: Connection,
    ticket: Ticket,
}

impl Question {
    /// Sends it, and waits until `deadline` where many others connect to the daemon.
    pub fn ask(
        action: &'static str,
        request: &Request,
        deadline: Instant,
    ) -> Result<Question, Error> {
        let socket = new_socket()?;
        match connect_to_daemon(&socket, deadline)? {
            Reached::Daemon => {}
            Reached::Nobody => return Err(Error::NoDaemon),
            Reached::Crowd => return Err(no_answer()),
        }
        Question::on(Connection::new(socket), action, request)
    }

    /// Sends it on a connection on which nothing else is awaited.
    fn on(
        mut connection: Connection,
        action: &'static str,
        request: &Request,
    ) -> Result<Question, Error> {
        let ticket = connection.send(request)?;
        Ok(Question {
            action,
            connection,
            ticket,
        })
    }

    /// Readable when the answer has come.
    pub fn fd(&self) -> RawFd {
        self.connection.fd()
    }

    /// The answer, if it has come.
    pub fn answer(&mut self) -> Result<Option<Reply>, Error> {
        let reply = self.connection.answer(self.ticket)?;
        reply.map(|reply| self.granted(reply)).transpose()
    }

    /// The answer, awaited for a second.
    pub fn wait(mut self) -> Result<Reply, Error> {
        let reply = self.reply()?;
        self.granted(reply)
    }

    /// The same, be it a refusal.
    fn reply(&mut self) -> Result<Reply, Error> {
        let reply = self.connection.wait(self.ticket, Instant::now() + WAIT)?;
        reply.ok_or_else(no_answer)
    }

    fn granted(&self, reply: Reply) -> Result<Reply, Error> {
        refuse(self.action, &reply)?;
        Ok(reply)
    }
}

pub(crate) fn no_answer() -> Error {
    let waited_ms = WAIT.as_millis() as u64;
    Error::NoAnswer { waited_ms }
}
