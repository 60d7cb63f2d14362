// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a loop runs on: a clock, and a poll.

use crate::epoll::{Epoll, EpollSleeper};
use crate::member::{Member, State};
use crate::poll::{self, ClockOnly, Next, Others, Sleeper, Standing, Turn};
use crate::{clock, warning, Error, NEVER};
use std::rc::Rc;

/// The two events that stand for the other members in a loop's queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proxies {
    /// When the due proxy is due; [`NEVER`]: not at all.
    pub yield_by_ns: u64,
    /// The rank of the best-effort proxy, if there is one.
    pub best_effort: Option<(u32, u64)>,
}

impl Proxies {
    /// Nobody else wants the CPU.
    pub fn none() -> Proxies {
        Proxies {
            yield_by_ns: NEVER,
            best_effort: None,
        }
    }
}

/// What an event loop runs on. Programs use a [`Member`]'s or none; tests bring clocks of their own.
pub trait Host {
    /// The clock that due times are compared with.
    fn now_ns(&self) -> u64;
    /// The proxies as they are right now.
    fn proxies(&self) -> Result<Proxies, Error>;
    /// What the others want right now.
    fn others(&self) -> Result<Others, Error>;
    /// Tells the others one's heads.
    fn publish(&mut self, next: Next, now_ns: u64) -> Result<(), Error>;
    /// As [`Member::poll_at`]; with `fds` where it may wait for file descriptors too, as [`Member::poll_epoll`].
    fn poll(&mut self, next: Next, now_ns: u64, fds: Option<&mut Epoll>) -> Result<(), Error>;

    /// The thread will sleep outside of the loop until `next`: as a poll that begins.
    ///
    /// # Errors
    /// As [`Member::poll_at`].
    fn rest(&mut self, next: Next, now_ns: u64) -> Result<(), Error> {
        self.publish(next, now_ns)
    }

    /// The thread is back: as the end of that poll.
    fn resume(&mut self) {}
}

pub(super) struct OnMember {
    state: Rc<State>,
    /// That its member was demoted has been said.
    told: bool,
    /// Leaves when the loop goes; C keeps its member itself.
    _member: Option<Member>,
}

impl OnMember {
    pub fn owning(member: Member) -> OnMember {
        OnMember {
            state: Rc::clone(member.state()),
            told: false,
            _member: Some(member),
        }
    }

    pub fn borrowing(member: &Member) -> OnMember {
        OnMember {
            state: Rc::clone(member.state()),
            told: false,
            _member: None,
        }
    }
}

impl OnMember {
    fn look_whether_demoted(&mut self) {
        if let Some(why) = self.state.why() {
            self.told = true;
            warning::warn(&format!(
                "an event loop's member was demoted to best effort: {why}. This is said once; consort_why() tells of later ones"
            ));
        }
    }
}

impl Host for OnMember {
    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    fn proxies(&self) -> Result<Proxies, Error> {
        let others = self.state.others()?;
        Ok(Proxies {
            yield_by_ns: match others.standing() {
                Standing::Demoted => 0, // the next poll restores it, and it is due at once
                _ => others.yield_by_ns,
            },
            best_effort: match self.state.keys_compare() {
                true => others.best_effort(),
                false => None,
            },
        })
    }

    fn others(&self) -> Result<Others, Error> {
        self.state.others()
    }

    fn publish(&mut self, next: Next, now_ns: u64) -> Result<(), Error> {
        self.state.publish(next.raw()?, now_ns)
    }

    fn poll(&mut self, next: Next, now_ns: u64, fds: Option<&mut Epoll>) -> Result<(), Error> {
        let next = next.raw()?;
        if !self.told {
            self.look_whether_demoted();
        }
        match fds {
            None => self.state.poll(next, now_ns, &mut ClockOnly)?,
            Some(epoll) => self.state.poll(next, now_ns, &mut EpollSleeper(epoll))?,
        };
        Ok(())
    }

    fn rest(&mut self, next: Next, now_ns: u64) -> Result<(), Error> {
        self.state.rest(next.raw()?, now_ns)
    }

    fn resume(&mut self) {
        self.state.resume();
    }
}

/// Without a member: only sleeps.
pub(super) struct Alone;

impl Host for Alone {
    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    fn proxies(&self) -> Result<Proxies, Error> {
        Ok(Proxies::none())
    }

    fn others(&self) -> Result<Others, Error> {
        Ok(Others::nobody())
    }

    fn publish(&mut self, _next: Next, _now_ns: u64) -> Result<(), Error> {
        Ok(())
    }

    fn poll(&mut self, next: Next, now_ns: u64, fds: Option<&mut Epoll>) -> Result<(), Error> {
        if poll::decide_alone(next.raw()?, now_ns) != Turn::Sleep {
            return Ok(());
        }
        match fds {
            Some(epoll) => EpollSleeper(epoll).sleep(next.due_ns),
            None => ClockOnly.sleep(next.due_ns),
        }
    }
}
