// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that costs a fixed number of instructions.
//!
//! A loop that watches the clock would let a preempted player off the work it missed. Here a microsecond
//! of work is a number of instructions, so an interrupted chunk still costs the same afterwards. In an
//! instruction-counted guest (`shift=1`) it is 500 of them to the microsecond, exactly; elsewhere
//! `--instructions-per-us` says how many, see `calibrate`.

use std::sync::atomic::{AtomicU64, Ordering};

/// What an instruction-counted guest executes in a microsecond.
pub const GUEST_INSTRUCTIONS_PER_US: u64 = 500;
/// 98 no-ops, a decrement and a branch: long blocks are what an emulator runs fastest.
const INSTRUCTIONS_PER_TURN: u64 = 100;

/// Work between looks at the clock, where a time ends it: shorter pieces cost more than they tell.
const PIECE_NS: u64 = 100_000;

static INSTRUCTIONS_PER_US: AtomicU64 = AtomicU64::new(GUEST_INSTRUCTIONS_PER_US);

/// Sets how many instructions this machine executes in a microsecond.
pub fn set_instructions_per_us(count: u64) {
    INSTRUCTIONS_PER_US.store(count.max(1), Ordering::Relaxed);
}

/// What was set, or the default.
pub fn instructions_per_us() -> u64 {
    INSTRUCTIONS_PER_US.load(Ordering::Relaxed)
}

/// Executes `instructions` instructions, rounded to whole turns of the loop, at least one.
#[inline(never)]
pub fn burn_instructions(instructions: u64) {
    let turns = (instructions / INSTRUCTIONS_PER_TURN).max(1);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: touches no memory and no register besides the declared counter and the flags.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 98",
            "nop",
            ".endr",
            "dec {turns}",
            "jnz 2b",
            turns = inout(reg) turns => _,
            options(nomem, nostack)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 98",
            "nop",
            ".endr",
            "subs {turns}, {turns}, #1",
            "b.ne 2b",
            turns = inout(reg) turns => _,
            options(nomem, nostack)
        );
    }
}

/// Works for `duration_ns` of CPU time.
pub fn burn_ns(duration_ns: u64) {
    burn_instructions(duration_ns * instructions_per_us() / 1000);
}

/// Works for `duration_ns` of CPU time, or until that time has come; returns the CPU time, at least one piece.
pub fn burn_until(duration_ns: u64, until_ns: u64) -> u64 {
    if until_ns == u64::MAX {
        burn_ns(duration_ns);
        return duration_ns;
    }
    let mut done_ns = 0;
    while done_ns < duration_ns {
        let piece_ns = PIECE_NS.min(duration_ns - done_ns);
        burn_ns(piece_ns);
        done_ns += piece_ns;
        if crate::clock::now_ns() >= until_ns {
            break;
        }
    }
    done_ns
}

/// Instructions of this loop that the machine executes in a microsecond, the best of several tries of
/// 10 ms: the fastest try is the one that nobody interrupted.
pub fn calibrate() -> u64 {
    const TRIES: usize = 9;
    let mut instructions = 1_000_000;
    let mut best_per_us = 1;
    for _ in 0..TRIES {
        let before_ns = crate::clock::now_ns();
        burn_instructions(instructions);
        let took_ns = (crate::clock::now_ns() - before_ns).max(1);
        best_per_us = best_per_us.max(instructions * 1000 / took_ns);
        instructions = best_per_us * 10_000;
    }
    best_per_us
}
