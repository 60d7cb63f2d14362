// SPDX-License-Identifier: MIT OR Apache-2.0
//! What groups need from whatever schedules.

use std::{fmt, ops::Range, os::fd::OwnedFd, time::Duration};

pub use consort_df::Confined;
use consort_groups::Group;
use consort_kernel::{Error, Interval, RoleStatus, Thread, UserStatus};

/// A decision function of a user's own that the kernel is looking at.
pub trait Verification: fmt::Debug {
    /// Looks whether it is done, and does not wait.
    fn look(self: Box<Self>) -> Looked;
}

/// What has become of it.
#[derive(Debug)]
pub enum Looked {
    NotYet(Box<dyn Verification>),
    Done {
        program: OwnedFd,
        /// That one answer takes at most.
        steps: u32,
        /// CPU time that it took to verify it.
        took: Duration,
    },
    Refused {
        why: String,
        took: Duration,
    },
}

/// A thread that becomes a group's member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind {
    /// The scheduler's number of the group.
    pub group: u32,
    /// Which of the group's roles it plays; `None`: this group has none.
    pub role: Option<u32>,
    pub thread: Thread,
    /// Where it shares variables with the decision function: its program's page, and its slot there.
    pub page: Option<(u32, u32)>,
    /// The group is a cooperation domain.
    pub polls: bool,
}

/// A scheduler that has no groups refuses all of it.
pub trait GroupHost {
    /// Makes a group without threads and returns its number. Its threads use `reservation` while they are bound, unless
    /// they have one of their own.
    fn create_group(&mut self, _group: &Group, _reservation: Option<u32>) -> Result<u32, Error> {
        refuse("make a group")
    }

    /// The same for a group whose function is the one of its user's own at a number.
    fn create_user_group(
        &mut self,
        _group: &Group,
        _number: u32,
        _reservation: Option<u32>,
    ) -> Result<u32, Error> {
        refuse("make a group")
    }

    /// Has the kernel verify a function.
    fn verify_user(&self, _confined: &Confined) -> Result<Box<dyn Verification>, Error> {
        refuse("verify a decision function")
    }

    /// Puts a function at a number, in the place of the one that answers until then.
    fn put_user(&mut self, _number: u32, _program: &OwnedFd) -> Result<(), Error> {
        refuse("take a decision function")
    }

    fn drop_user(&mut self, _number: u32) {}

    /// A group's function is another one, at this number: it is asked again, should it have been too slow.
    fn set_user(&mut self, _group: u32, _number: u32) -> Result<(), Error> {
        refuse("take a decision function")
    }

    fn user_status(&self, _group: u32) -> Result<UserStatus, Error> {
        refuse("tell what a decision function does")
    }

    /// Removes a group that has no threads; EBUSY when some are still on the way.
    fn destroy_group(&mut self, _group: u32) -> Result<(), Error> {
        refuse("remove a group")
    }

    /// Other terms and first values for all roles of the member of `group` at `index`.
    fn set_member(
        &mut self,
        _id: u32,
        _group: &Group,
        _roles: Range<u32>,
        _index: usize,
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

    /// Gives a role a plan in place of the one that it has; without intervals: none. It begins anew `repeat_ns` after its
    /// beginning; 0: it does not.
    fn load_plan(
        &mut self,
        _group: u32,
        _role: u32,
        _intervals: &[Interval],
        _repeat_ns: u64,
    ) -> Result<(), Error> {
        refuse("load a plan")
    }

    /// When the relative times of a group's plans are 0: [`consort_kernel::NEVER_NS`] for a pause.
    fn begin_plans(&mut self, _group: u32, _zero_ns: u64, _bootstrap: u32) -> Result<(), Error> {
        refuse("begin plans")
    }
}

fn refuse<T>(doing: &'static str) -> Result<T, Error> {
    let errno = libc::EOPNOTSUPP;
    Err(Error::Refused { doing, errno })
}
