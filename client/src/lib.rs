// SPDX-License-Identifier: MIT OR Apache-2.0
//! Be on time together with the other programs of a cooperation domain.
//!
//! A thread joins a [`Domain`], then polls between its units of work. Each [`Member::poll`] says when the
//! thread wants the CPU next, gives the CPU to whoever needs it more, and returns what the others wait for. The
//! same program runs unchanged where no Consort scheduler is there: members of a domain then cooperate among themselves
//! (`CONSORT_HOST=kernel`, `user` or `none` chooses), and others are on their own.
//!
//! ```no_run
//! use consort::{Domain, Next};
//!
//! let member = Domain::named("studio").event_ns(1_000_000).join()?;
//! let mut due_ns = consort::now_ns() + 10_000_000;
//! loop {
//!     let others = member.poll(Next::due(due_ns))?;
//!     // ... at most a millisecond of work, then poll again ...
//!     println!("others are due at {}", others.due_ns);
//!     due_ns += 10_000_000;
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), consort::Error>(())
//! ```
//!
//! All times are absolute nanoseconds of CLOCK_MONOTONIC ([`now_ns`]); [`NEVER`] means no such time.

mod announced;
mod c;
mod choice;
mod clock;
mod connection;
mod domain;
mod epoll;
mod error;
mod event_loop;
mod fork_guard;
mod inherited;
mod kept;
mod layout;
mod link;
mod member;
mod page;
mod poll;
mod process;
mod reservation;
mod shared_state;
mod slack;
mod spin;
pub mod trace;
mod train;
mod usage;
mod user_level;
mod warning;
mod why;

pub use announced::{announce, Announced};
pub use clock::now_ns;
pub use domain::{Domain, Order};
pub use epoll::Epoll;
pub use error::Error;
pub use event_loop::{Event, EventLoop, Host, Interest, Proxies, Waker, When};
pub use layout::{
    DUE_AHEAD_MAX_NS, EVENT_MAX_NS, EVENT_MIN_NS, NAME_MAX, NEVER, PRIORITY_MAX, SLOTS, VARIABLES,
};
pub use member::Member;
pub use poll::{Next, Others, Standing};
/// What a poll does, for those that model programs: the simulator.
#[doc(hidden)]
pub mod decision {
    pub use crate::poll::{decide, decide_alone, RawNext, Told, Turn};
}
pub use reservation::{lend, recollect, release, Reservation};
pub use shared_state::SharedState;
pub use train::Train;
pub use usage::{usage, Usage, UsageWatch, USAGE_PERIOD_MIN_NS};
pub use warning::{on_warning, Listener};
pub use why::Why;

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
