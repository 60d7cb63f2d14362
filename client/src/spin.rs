// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notices a member that does nothing but poll: it wants the CPU always, and has no work for it.

use std::cell::Cell;
use std::mem::MaybeUninit;

use crate::warning;

/// So many polls without a sleep are looked at together.
pub const POLLS: u32 = 1 << 16;
/// CPU time of a poll with hardly anything beside it. Work that is worth a poll takes longer; a poll itself does, where it
/// is not optimised.
const NOTHING_NS: u64 = if cfg!(debug_assertions) {
    20_000
} else {
    2_000
};

/// What is remembered from one look to the next.
#[derive(Default)]
pub struct SpinWatch {
    cpu_ns: Cell<u64>,
    told: Cell<bool>,
}

impl SpinWatch {
    /// To be called with the number of polls since the member last slept; warns once.
    pub fn look(&self, polls: u32) {
        if !polls.is_multiple_of(POLLS) || self.told.get() {
            return;
        }
        let now_ns = thread_cpu_ns();
        let took_ns = now_ns.saturating_sub(self.cpu_ns.replace(now_ns));
        if polls > POLLS && took_ns < u64::from(POLLS) * NOTHING_NS {
            self.told.set(true);
            warning::warn(
                "a member polls again and again with no work in between, and keeps the CPU busy: it always says that it \
                 has something to do. Give it a due time in the future, and a best-effort event only while there is one",
            );
        }
    }
}

fn thread_cpu_ns() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the clock exists on every Linux and the pointer is valid, so the call fills `time`.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
