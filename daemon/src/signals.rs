// SPDX-License-Identifier: MIT OR Apache-2.0
//! The signals that end the daemon, and SIGHUP, which lets it read its file again: blocked from the start, and read
//! where it waits.

use std::{os::fd::AsFd, time::Duration};

use nix::{
    errno::Errno,
    poll::{poll, PollFd, PollFlags, PollTimeout},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};

/// A signal that has come, and who sent it.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub signal: Signal,
    pub uid: u32,
    pub pid: i32,
}

/// # Errors
/// When the kernel refuses.
pub fn blocked() -> Result<SignalFd, Errno> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// The signal that has come, if one has.
pub fn pending(signals: &SignalFd) -> Result<Option<Sent>, Errno> {
    let Some(info) = signals.read_signal()? else {
        return Ok(None);
    };
    let signal = Signal::try_from(info.ssi_signo as i32)?;
    let (uid, pid) = (info.ssi_uid, info.ssi_pid as i32);
    Ok(Some(Sent { signal, uid, pid }))
}

/// Sleeps for so long, or until a signal comes.
pub fn wait(signals: &SignalFd, pause: Duration) -> Result<Option<Sent>, Errno> {
    let timeout = PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX);
    let mut descriptors = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    match poll(&mut descriptors, timeout) {
        Err(Errno::EINTR) | Ok(_) => pending(signals),
        Err(errno) => Err(errno),
    }
}
