// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cooperation without a kernel scheduler (000 section 2.2).
//!
//! Programs that link libconsort cooperate among themselves where no Consort scheduler runs: in containers, on older kernels,
//! where nobody may load BPF. The members of a domain share memory. Each publishes there what it wants next; whoever has a turn
//! decides at its poll, by core/'s policy, who has the next one, and wakes it.
//!
//! ```text
//!  rendezvous   which memory is a domain's: a file by its name
//!  runtime      the directory where that is                spaces   who cannot meet there: namespaces
//!  segment      that memory: it cannot shrink under anybody, and goes with its last user
//!  layout       what is in it: numbers                     table    the same, read and checked
//!  lock         one decision at a time, whoever dies in the middle of it
//!  round        one decision                               policy   core/, for a domain made of numbers
//!  room         how many may run at a time                 member   joining, polling, sleeping, leaving
//!  linux        futexes, clocks, who is alive              inspect  what `consort status` shows
//! ```
//!
//! It cannot police: nothing is taken from a member that does not poll, others only cease to wait for it.

pub mod inspect;
#[doc(hidden)]
pub mod layout;
mod linux;
mod lock;
mod member;
mod os;
mod policy;
mod rendezvous;
mod room;
mod round;
mod runtime;
mod segment;
mod spaces;
mod table;

pub use layout::{Shared, ABSENT, ASLEEP, AWAY, BYTES, OUT, RUNNING, SEATS, WAITING};
pub use linux::Linux;
pub use member::{JoinError, Lost, Member, Newcomer, Share, Wish};
pub use os::{Fate, Mistake, Os, Waited, Who, NEVER};
pub use policy::weight_of_nice;
pub use rendezvous::{path_of, random, Meeting};
pub use round::SIGN_NS;
pub use runtime::{Runtime, DIRECTORY_VARIABLE};
pub use table::{Table, Terms};
