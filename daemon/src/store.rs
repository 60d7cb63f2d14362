// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service manager's descriptor store (systemd.service(5), FileDescriptorStoreMax=): what is in it outlives the daemon,
//! and comes back to the next one. A daemon that nobody has given a store leaves nothing.

use std::{
    collections::BTreeMap,
    env, io,
    os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd},
    sync::Once,
};

use nix::fcntl::{fcntl, FcntlArg, FdFlag};
use tracing::warn;

use crate::notify::notify_with;

/// `SD_LISTEN_FDS_START`.
const FIRST: RawFd = 3;

/// The descriptors that the service manager has handed to this process, by name (sd_listen_fds_with_names(3)): the socket
/// that it listens at for the daemon, and what the daemon before has left. Once; empty from then on.
pub fn inherited() -> BTreeMap<String, OwnedFd> {
    static ONCE: Once = Once::new();
    let mut named = BTreeMap::new();
    ONCE.call_once(|| named = take());
    named
}

fn take() -> BTreeMap<String, OwnedFd> {
    let number = |name| env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) {
        return BTreeMap::new();
    }
    let count = number("LISTEN_FDS").and_then(|count| RawFd::try_from(count).ok());
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let descriptors = FIRST..FIRST + count.unwrap_or_default();
    let named = descriptors.map(|fd| {
        // SAFETY: the manager says that it is open, and nobody else here knows of it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(fd) };
        if let Err(errno) = fcntl(&descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)) {
            warn!(%errno, "programs that the daemon starts would inherit its descriptors");
        }
        (names.next().unwrap_or_default().to_owned(), descriptor)
    });
    named.collect()
}

/// The store, if there is one, and what the daemon has put there.
#[derive(Debug, Default)]
pub struct Store {
    is_there: bool,
}

impl Store {
    /// As the environment says (`FDSTORE`, since systemd 254).
    pub fn of_the_manager() -> Self {
        let room = env::var("FDSTORE").ok().and_then(|room| room.parse().ok());
        Store {
            is_there: room.is_some_and(|room: u32| room > 0),
        }
    }

    /// Whether what is put there outlives this process.
    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// Puts a connection there. The manager forgets it when its other end hangs up.
    pub fn keep_connection(&self, name: &str, socket: BorrowedFd<'_>) {
        self.put(&format!("FDSTORE=1\nFDNAME={name}"), socket);
    }

    /// Puts any other descriptor there: the kernel says of maps that are polled that they have an error, and the manager
    /// would forget them.
    pub fn keep(&self, name: &str, descriptor: BorrowedFd<'_>) {
        self.put(&format!("FDSTORE=1\nFDPOLL=0\nFDNAME={name}"), descriptor);
    }

    fn put(&self, state: &str, descriptor: BorrowedFd<'_>) {
        if self.is_there {
            warn_of(notify_with(state, &[descriptor]));
        }
    }

    /// Takes it out again.
    pub fn forget(&self, name: &str) {
        if self.is_there {
            warn_of(notify_with(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), &[]));
        }
    }
}

fn warn_of(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        warn!(%error, "the service manager does not keep what the next daemon would need");
    }
}
