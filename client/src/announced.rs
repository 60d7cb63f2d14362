// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that has a name: group files name it, a decision function decides when it runs, and the two share variables.

use crate::domain::{check_name, message_name, Terms, Wants};
use crate::{Error, Member};

/// Says what the calling thread is called in group files (`consort apply`), whether one names it yet or not; waits at most a
/// second for the daemon. If no daemon is there, announcing succeeds all the same: the thread is on its own,
/// [`Announced::why_alone`] says why, and it asks again by itself while it tells something.
///
/// ```no_run
/// let show = consort::announce("show")?;
/// show.set_state(0, 3)?; // what the group file calls the first state variable
/// let wanted = show.control(0)?;
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// A name that is none; [`Error::AlreadyMember`]; [`Error::NoFreeSlot`]; [`Error::System`].
pub fn announce(name: &str) -> Result<Announced, Error> {
    check_name(name)?;
    // What group files can say.
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_known) {
        let name = name.to_owned();
        return Err(Error::ThreadName { name });
    }
    let terms = Terms {
        wants: Wants::Name,
        name: message_name(name)?,
        keys_compare: false,
    };
    let member = Member::join(&terms)?;
    Ok(Announced { member })
}

/// The calling thread under its name. Dropping it, and the thread's end, take the name back. It stays with its thread, as a
/// [`Member`] does.
pub struct Announced {
    member: Member,
}

impl Announced {
    /// Publishes a state variable, by its place in the group file. No system call.
    ///
    /// # Errors
    /// [`Error::VariableRange`]; [`Error::Forked`].
    #[inline]
    pub fn set_state(&self, index: usize, value: i64) -> Result<(), Error> {
        self.member.state().set_variable(index, value)
    }

    /// What was published last.
    ///
    /// # Errors
    /// As [`Announced::set_state`].
    pub fn state(&self, index: usize) -> Result<i64, Error> {
        self.member.state().variable(index)
    }

    /// A control variable, by its place in the group file: what the decision function says. 0 before it has said anything.
    ///
    /// # Errors
    /// As [`Announced::set_state`].
    #[inline]
    pub fn control(&self, index: usize) -> Result<i64, Error> {
        self.member.state().control(index)
    }

    /// The thread is about to submit something to the server that follows it, and may sleep until that is done.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn begin_submission(&self) -> Result<(), Error> {
        self.member.state().begin_submission()
    }

    /// It has submitted: the server that follows it runs next, if it has anything to do.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn end_submission(&self) -> Result<(), Error> {
        self.member.state().end_submission()
    }

    /// The thread has done what its interval was for, such as a frame: it needs no more of it.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn done(&self) -> Result<(), Error> {
        self.member.state().done()
    }

    /// The plans of its group begin now.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn trigger_plans(&self) -> Result<(), Error> {
        self.member.state().trigger_plans()
    }

    /// Lets the decision function look at once at what was published. It does so anyway when the thread gives the CPU up.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn look(&self) -> Result<(), Error> {
        self.member.state().look()
    }

    pub(crate) fn into_member(self) -> Member {
        self.member
    }

    /// For members of `coop` groups, which poll.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// Why the daemon has not taken the name: an errno, and what it said. `None`: it has, or no daemon is there.
    pub fn why_alone(&self) -> Option<(i32, String)> {
        self.member.why_alone()
    }

    /// Takes the name back and waits at most a second for the daemon to confirm it.
    ///
    /// # Errors
    /// What the daemon says against it. The thread has no name all the same.
    pub fn leave(self) -> Result<(), Error> {
        self.member.leave()
    }
}
