// SPDX-License-Identifier: MIT OR Apache-2.0
//! Group files: how a program describes itself as groups with decision functions (003 section 3.2.4). Pure: nothing here
//! talks to anybody. The daemon puts in force what is read here, the command checks it, the simulator takes the same.
//!
//! ```toml
//! [group.film]
//! function = "pipeline"     # whose turn it is: fair, coop, period, plan, pipeline or follow
//! class = "guaranteed"      # with rate and period: a reservation that all its members share
//! rate = 0.4
//! period = "33ms"
//! high = 8                  # items: the function's own
//! state = { queued = 0 }    # what each member publishes, with its first value
//! members = [
//!     "read",
//!     "scale",
//!     { name = "show", interval = "4ms" },
//!     { name = "x", follows = "show", rule = { executable = "/usr/lib/xorg/Xorg", user = "root" } },
//! ]
//! ```
//!
//! A member is a name: a thread announces it, or is found by rule; `docs/groups.md` has all of it.

pub mod accessors;
mod check;
pub mod description;
pub mod difference;
pub mod frames;
pub mod function;
mod problem;
mod read;
pub mod rule;
mod units;
pub mod variable;

pub use description::{Description, Group, Member, Promise};
pub use problem::{Problem, Problems};
pub use read::read;

/// The longest group file: it is sent in one message.
pub const FILE_BYTES_MAX: usize = 96 << 10;
/// Groups of one file.
pub const GROUPS_MAX: usize = 64;
/// Threads that the members of one file stand for.
pub const MEMBERS_MAX: usize = 2048;
/// Threads of a group whose function looks at each of them to choose: all but `fair` and `coop`.
pub const CHOICE_MAX: usize = 32;
/// Groups above one another.
pub const DEPTH_MAX: usize = 8;
/// Bytes of the name of a file, a group or a member.
pub const NAME_BYTES_MAX: usize = 63;
