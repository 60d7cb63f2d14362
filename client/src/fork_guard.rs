// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lets a forked child know that it is one, for the price of a load.
//!
//! One word of memory that the kernel zeroes in every child, however it was forked. It holds the number of
//! the process that wrote it; handles remember the number that they were made under.

use crate::Error;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
/// Copied by fork, so numbers never repeat down a line of children.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// The word that is another one after a fork. Never unmapped.
pub fn word() -> Result<&'static AtomicU64, Error> {
    let known = WORD.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: only ever set to a mapping that lasts for the process' life.
        return Ok(unsafe { &*known });
    }
    let fresh = map_word()?;
    match WORD.compare_exchange(
        std::ptr::null_mut(),
        fresh,
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        // SAFETY: as above.
        Ok(_) => Ok(unsafe { &*fresh }),
        Err(winner) => {
            // SAFETY: `fresh` was mapped here with this size and nobody else knows it.
            unsafe { libc::munmap(fresh.cast(), size_of::<AtomicU64>()) };
            // SAFETY: as above.
            Ok(unsafe { &*winner })
        }
    }
}

/// This process' number; a new one for a child that asks for the first time.
pub fn number() -> Result<u64, Error> {
    let word = word()?;
    let current = word.load(Ordering::Acquire);
    if current != 0 {
        return Ok(current);
    }
    let fresh = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    match word.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(fresh),
        Err(winner) => Ok(winner),
    }
}

fn map_word() -> Result<*mut AtomicU64, Error> {
    // SAFETY: a fresh private mapping at an address of the kernel's choice; the kernel rounds the size up
    // to a page both times.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            size_of::<AtomicU64>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if memory == libc::MAP_FAILED {
            return Err(Error::system("mmap"));
        }
        if libc::madvise(memory, size_of::<AtomicU64>(), libc::MADV_WIPEONFORK) != 0 {
            let error = Error::system("madvise(MADV_WIPEONFORK)");
            libc::munmap(memory, size_of::<AtomicU64>());
            return Err(error);
        }
        Ok(memory.cast())
    }
}
