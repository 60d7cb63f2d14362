// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many descriptors the daemon may have.

use nix::sys::resource::{getrlimit, setrlimit, Resource};
use tracing::warn;

/// Descriptors for every client that the scheduler has room for, and some.
/// Two each: its connection, and its process.
const DESCRIPTORS: u64 = 16384;

pub(crate) fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft >= DESCRIPTORS {
            return Ok(());
        }
        setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, hard.max(DESCRIPTORS))
            .or_else(|_| setrlimit(Resource::RLIMIT_NOFILE, hard, hard))
    });
    if let Err(error) = raised {
        warn!(%error, "cannot raise the limit of open files: fewer programs can connect");
    }
}
