// SPDX-License-Identifier: GPL-2.0-only
//! Loads Consort's scheduler into the kernel and talks to it.
//!
//! The scheduler is the sched_ext program of `kernel/bpf`. [`Scheduler::load`] puts it in charge; dropping the
//! [`Scheduler`] gives every task back to the stock scheduler. [`SafeScheduler`] is what is left when the kernel has
//! ejected it too often.

mod counters;
mod descriptors;
mod error;
mod exit;
mod globals;
mod groups;
mod handover;
mod kernel;
pub mod late;
mod late_skeleton;
mod log;
mod pages;
mod prepared;
mod records;
mod safe;
mod safe_skeleton;
mod scheduler;
mod skeleton;
mod struct_ops;
mod syscall;
mod topology;
pub mod trace;
mod tunables;
mod types;
mod user;
mod verifier;

pub use descriptors::Kept;
pub use error::Error;
pub use handover::{DomainLabel, Membership};
pub use kernel::{attached_scheduler, kernel_release, KERNEL_NEEDED};
pub use pages::ClientPage;
pub use prepared::Prepared;
pub use safe::SafeScheduler;
pub use scheduler::{identity, Scheduler};
pub use topology::Topology;
pub use tunables::*;
pub use types::*;
pub use user::{UserProgram, UserStatus, Verified, Verifying, USER_FUNCTIONS, USER_STEPS_MAX};
