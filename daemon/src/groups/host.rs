// SPDX-License-Identifier: MIT OR Apache-2.0
//! What groups need from whatever schedules.

use std::ops::Range;

use consort_groups::{variable::VARIABLES_MAX, Group, Member};
use consort_kernel::Error;

/// A thread that becomes a group's member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind {
    /// The scheduler's number of the group.
    pub group: u32,
    /// Which of the group's roles it plays; `None`: this group has none.
    pub role: Option<u32>,
    pub tid: i32,
    /// Where it shares variables with the decision function: its program's page, and its slot there.
    pub page: Option<(u32, u32)>,
    /// The group is a cooperation domain.
    pub polls: bool,
}

/// What a member does, and what became of its intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoleStatus {
    /// Its thread wants the CPU, or has it.
    pub awake: bool,
    pub runs: bool,
    /// Its interval is on.
    pub on: bool,
    pub state: [i64; VARIABLES_MAX],
    pub control: [i64; VARIABLES_MAX],
    /// The beginning of its interval or of the next one, of CLOCK_MONOTONIC; `None`: there is none to come.
    pub from_ns: Option<u64>,
    /// Intervals in which it ran, if it had anything to do.
    pub kept: u64,
    /// The others, by cause: nobody played it; asleep; without a seat; beyond the group's share; behind other due events.
    pub missed: [u64; 5],
    pub late_max_ns: u64,
}

/// A scheduler that has no groups refuses all of it.
pub trait GroupHost {
    /// Makes a group without threads and returns its number. Its threads use `reservation` while they are bound, unless
    /// they have one of their own.
    fn create_group(&mut self, _group: &Group, _reservation: Option<u32>) -> Result<u32, Error> {
        refuse("make a group")
    }

    /// Removes a group that has no threads; EBUSY when some are still on the way.
    fn destroy_group(&mut self, _group: u32) -> Result<(), Error> {
        refuse("remove a group")
    }

    /// Other terms and first values for all roles of a member.
    fn set_member(
        &mut self,
        _group: u32,
        _roles: Range<u32>,
        _member: &Member,
    ) -> Result<(), Error> {
        refuse("change a member")
    }

    fn bind(&mut self, _bind: Bind) -> Result<(), Error> {
        refuse("bind a thread")
    }

    fn unbind(&mut self, _bind: Bind) -> Result<(), Error> {
        refuse("unbind a thread")
    }

    fn role_status(&self, _group: u32, _role: u32) -> Result<RoleStatus, Error> {
        refuse("tell what a member does")
    }
}

fn refuse<T>(doing: &'static str) -> Result<T, Error> {
    let errno = libc::EOPNOTSUPP;
    Err(Error::Refused { doing, errno })
}
