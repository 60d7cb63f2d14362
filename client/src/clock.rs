// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock that every time in this library is of, and sleeping on it.

use crate::Error;
use std::mem::MaybeUninit;

const NS_PER_S: u64 = 1_000_000_000;

/// Now, in nanoseconds of CLOCK_MONOTONIC.
#[inline]
pub fn now_ns() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the clock exists on every Linux and the pointer is valid, so the call fills `time`.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

pub(crate) fn timespec_from_ns(time_ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (time_ns / NS_PER_S) as libc::time_t,
        tv_nsec: (time_ns % NS_PER_S) as libc::c_long,
    }
}

/// Sleeps until `due_ns` (absolute), or until a signal handler has run.
pub(crate) fn sleep_until(due_ns: u64) -> Result<(), Error> {
    let due = timespec_from_ns(due_ns);
    // SAFETY: `due` is a valid timespec; no remaining time is asked for.
    let errno = unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &due,
            std::ptr::null_mut(),
        )
    };
    match errno {
        0 | libc::EINTR => Ok(()),
        errno => Err(Error::System {
            call: "clock_nanosleep",
            source: std::io::Error::from_raw_os_error(errno),
        }),
    }
}
