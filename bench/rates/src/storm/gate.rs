// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds processes until they are let go one by one, however long that takes: by a signal that is kept for them.

use consort_bench_player::error::Error;

const SIGNAL: libc::c_int = libc::SIGUSR1;

fn signals() -> libc::sigset_t {
    // SAFETY: a zeroed set is valid, and the signal is one.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, SIGNAL);
        set
    }
}

/// From now on the signal waits: for the caller, and for processes that it starts.
///
/// # Errors
/// When the kernel refuses.
pub fn close() -> Result<(), Error> {
    // SAFETY: the set is valid, and the old one is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals(), std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(Error::last_os("block a signal")),
    }
}

/// Waits until the calling process is let go.
pub fn wait() {
    let mut signal = 0;
    // SAFETY: both are valid; the signal is blocked.
    while unsafe { libc::sigwait(&signals(), &mut signal) } == libc::EINTR {}
}

/// Lets a process go, now or when it comes to the gate.
///
/// # Errors
/// When there is no such process.
pub fn open(pid: libc::pid_t) -> Result<(), Error> {
    // SAFETY: sends a signal to a child that has not been waited for.
    match unsafe { libc::kill(pid, SIGNAL) } {
        0 => Ok(()),
        _ => Err(Error::last_os(&format!("signal process {pid}"))),
    }
}
