// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calling thread's timer slack: how late the kernel may wake it to save power.

/// Sets it to the least there is; gives what it was.
pub fn sharpen() -> Option<u64> {
    // SAFETY: plain system call about the calling thread.
    let before_ns = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    set(1);
    u64::try_from(before_ns).ok()
}

/// Sets it, in nanoseconds. Real-time threads have none, and ignore it.
pub fn set(slack_ns: u64) {
    // SAFETY: as above; it cannot fail for the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns as libc::c_ulong, 0, 0, 0) };
}
