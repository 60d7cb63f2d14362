// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the service manager how the daemon is (the protocol of sd_notify(3)); silent where there is none.

use std::{
    env,
    os::linux::net::SocketAddrExt,
    os::unix::net::{SocketAddr, UnixDatagram},
    time::{Duration, Instant},
};

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
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let name = name.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(rest) => SocketAddr::from_abstract_name(rest),
        None => {
            use std::os::unix::ffi::OsStrExt;
            SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))
        }
    };
    let sent = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = sent {
        warn!(%error, "cannot notify the service manager");
    }
}
