// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the service manager how the daemon is (the protocol of sd_notify(3)); silent where there is none.

use std::{
    env,
    io::{self, IoSlice},
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags, UnixAddr};
use tracing::warn;

/// Tells the service manager again and again that the daemon's loop goes round, where it wants to know
/// (`WATCHDOG_USEC`).
#[derive(Debug)]
pub struct Watchdog {
    every: Option<Duration>,
    next: Instant,
}

impl Watchdog {
    /// As the environment says; another process' wish is not ours.
    pub fn asked_for() -> Self {
        let read = |name| env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = read("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let limit = read("WATCHDOG_USEC").filter(|limit| *limit > 0 && is_ours);
        Watchdog {
            // Half of it, as sd_watchdog_enabled(3) has it.
            every: limit.map(|limit| Duration::from_micros(limit) / 2),
            next: Instant::now(),
        }
    }

    pub fn feed(&mut self, now: Instant) {
        let Some(every) = self.every.filter(|_| now >= self.next) else {
            return;
        };
        self.next = now + every;
        notify("WATCHDOG=1");
    }
}

/// Sends `state`, such as `READY=1`, to the socket that `NOTIFY_SOCKET` names.
pub fn notify(state: &str) {
    if let Err(error) = notify_with(state, &[]) {
        warn!(%error, "cannot notify the service manager");
    }
}

/// How long the daemon waits for a manager that is behind.
const PATIENCE: Duration = Duration::from_millis(250);

/// The same, with descriptors.
///
/// # Errors
/// EAGAIN where the manager is far behind, or those of sending.
pub(crate) fn notify_with(state: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    let name = name.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(rest) => UnixAddr::new_abstract(rest)?,
        None => UnixAddr::new(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let descriptors: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let control = match descriptors.is_empty() {
        true => &[][..],
        false => &rights[..],
    };
    let flags = MsgFlags::MSG_NOSIGNAL;
    let parts = [IoSlice::new(state.as_bytes())];
    sendmsg(socket.as_raw_fd(), &parts, control, flags, Some(&address))?;
    Ok(())
}
