// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which domain to join, and on what terms.

use crate::layout::{
    Join, Name, Request, EVENT_MAX_NS, EVENT_MIN_NS, JOIN_PREEMPT, NAME_MAX, ORDER_PROGRAM,
    ORDER_PROGRESS, ORDER_SERVICE,
};
use crate::{Error, Member};

/// How a domain orders its members' best-effort events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Order {
    /// By the (priority, key) that the members publish.
    #[default]
    Program = ORDER_PROGRAM,
    /// Fewest due events served first, counted by the scheduler.
    Progress = ORDER_PROGRESS,
    /// Least CPU time received first, measured by the scheduler.
    Service = ORDER_SERVICE,
}

/// Where `consort run --domain` puts the domain of programs that name none.
const DOMAIN_VARIABLE: &str = "CONSORT_DOMAIN";

/// A cooperation domain to join. The options are the domain's: its first member sets them, and a later one
/// that asks for others is refused.
///
/// ```no_run
/// let member = consort::Domain::named("studio")
///     .event_ns(1_000_000)
///     .order(consort::Order::Program)
///     .join()?;
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    name: String,
    event_ns: u64,
    order: Order,
    preempt: bool,
}

impl Domain {
    /// The domain of that name: 1 to [`NAME_MAX`] visible ASCII characters other than '/'. An empty name is the
    /// domain that `consort run --domain` chose for this program, else a private one.
    pub fn named(name: impl Into<String>) -> Domain {
        Domain {
            name: name.into(),
            event_ns: 0,
            order: Order::Program,
            preempt: false,
        }
    }

    /// A domain for this thread alone, unless `consort run --domain` chose one for this program.
    pub fn private() -> Domain {
        Domain::named("")
    }

    /// The longest event that a member runs, in nanoseconds ([`EVENT_MIN_NS`] to [`EVENT_MAX_NS`]). 0, the
    /// default, leaves the choice to the scheduler.
    pub fn event_ns(mut self, event_ns: u64) -> Domain {
        self.event_ns = event_ns;
        self
    }

    /// How best-effort events are ordered.
    pub fn order(mut self, order: Order) -> Domain {
        self.order = order;
        self
    }

    /// Whether members are preempted at others' due times instead of being asked to poll.
    pub fn preempt(mut self, preempt: bool) -> Domain {
        self.preempt = preempt;
        self
    }

    /// Makes the calling thread a member; waits at most a second for the daemon. If no daemon is there, or it does not
    /// let the thread in (a quota, a container, another version), joining succeeds all the same: the member is on its own,
    /// [`Member::why_alone`] says why, and it asks again by itself while it polls.
    ///
    /// # Errors
    /// A name or option out of range, or other options than the domain has; [`Error::AlreadyMember`];
    /// [`Error::NoFreeSlot`]; [`Error::System`].
    pub fn join(&self) -> Result<Member, Error> {
        Member::join(&self.terms()?)
    }

    pub(crate) fn terms(&self) -> Result<Terms, Error> {
        let chosen_by_user = match self.name.is_empty() {
            true => std::env::var(DOMAIN_VARIABLE).unwrap_or_default(),
            false => String::new(),
        };
        let name = match chosen_by_user.is_empty() {
            true => &self.name,
            false => &chosen_by_user,
        };
        check_name(name)?;
        if self.event_ns != 0 && !(EVENT_MIN_NS..=EVENT_MAX_NS).contains(&self.event_ns) {
            return Err(Error::EventRange {
                event_ns: self.event_ns,
            });
        }
        Ok(Terms {
            wants: Wants::Domain {
                event_ns: self.event_ns,
                order: self.order as u32,
                flags: if self.preempt { JOIN_PREEMPT } else { 0 },
            },
            name: message_name(name)?,
            keys_compare: self.order == Order::Program,
        })
    }
}

/// What to say when joining, checked; said again when rejoining.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub wants: Wants,
    /// Of the domain, empty for a private one; or of the thread.
    pub name: Name,
    /// Whether the domain orders by the keys that programs publish.
    pub keys_compare: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Wants {
    Domain {
        event_ns: u64,
        order: u32,
        flags: u32,
    },
    /// To be known by a name.
    Name,
}

impl Terms {
    /// It is not a domain but the thread that is called so.
    pub fn is_name(&self) -> bool {
        matches!(self.wants, Wants::Name)
    }

    /// For a thread and a slot of the page.
    pub fn request(&self, tid: i32, slot: u32) -> Request {
        let name = self.name;
        match self.wants {
            Wants::Name => Request::Announce { tid, slot, name },
            Wants::Domain {
                event_ns,
                order,
                flags,
            } => Request::Join(Join {
                tid,
                slot,
                event_ns,
                order,
                flags,
                domain: name,
            }),
        }
    }

    /// The domain's name, empty for a private one.
    pub fn name(&self) -> String {
        let bytes = self.name.bytes().into_iter().flatten();
        bytes.map(char::from).collect()
    }
}

/// A checked name, for a message.
pub(crate) fn message_name(name: &str) -> Result<Name, Error> {
    Name::new(name).ok_or(Error::NameTooLong { bytes: name.len() })
}

pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong { bytes: name.len() });
    }
    match name.chars().find(|c| *c == '/' || !c.is_ascii_graphic()) {
        Some(bad) => Err(Error::NameCharacter {
            name: name.to_owned(),
            bad,
        }),
        None => Ok(()),
    }
}
