// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells threads apart for the price of an instruction.

/// A number that no other living thread has.
#[inline]
pub fn number() -> usize {
    let number: usize;
    // SAFETY: reads the thread pointer, which the ABI keeps in this register and, on x86-64, also in the
    // first word that it points to.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, fs:0", out(reg) number, options(nostack, preserves_flags, readonly));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) number, options(nostack, preserves_flags, nomem));
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            number = libc::pthread_self() as usize;
        }
    }
    number
}
