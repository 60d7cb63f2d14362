// SPDX-License-Identifier: MIT OR Apache-2.0
//! CLOCK_MONOTONIC: reading it, and sleeping until a time on it.

pub const NS_PER_US: u64 = 1000;
pub const NS_PER_MS: u64 = 1_000_000;
pub const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

/// Sleeps until `time_ns`; returns at once if it has passed. Signals do not shorten it.
pub fn sleep_until_ns(time_ns: u64) {
    let until = libc::timespec {
        tv_sec: (time_ns / NS_PER_S) as libc::time_t,
        tv_nsec: (time_ns % NS_PER_S) as libc::c_long,
    };
    // SAFETY: `until` is valid, and an absolute sleep takes no remainder.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &until,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// Asks for timers without slack: the default of 50 us would be a floor under every tardiness.
pub fn no_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and changes only the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}
