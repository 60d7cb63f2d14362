// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program whose threads wait for the lock of their process' map of memory.

use std::{thread, time::Duration};

use consort::now_ns;

use super::{
    argument,
    lock::{had_ns, reserve},
};
use crate::suite::board::{Board, Field};

const MS: u64 = 1_000_000;

/// A part of the process' memory, in small pages.
struct Region {
    start: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: it is an address, behind which nobody reads or writes once it has been filled.
unsafe impl Sync for Region {}
// SAFETY: as above.
unsafe impl Send for Region {}

impl Region {
    fn new(bytes: usize) -> Result<Region, String> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: makes new memory, which nobody gives back.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err("cannot map memory".into());
        }
        // SAFETY: within the memory above. Each page is its own, so that the kernel has to go through all of them.
        unsafe {
            libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
            std::ptr::write_bytes(start.cast::<u8>(), 1, bytes);
        }
        Ok(Region { start, bytes })
    }

    /// The kernel changes each page's protection, for which it writes to the process' map of memory.
    fn protect(&self, may_write: bool) {
        let protection = match may_write {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => libc::PROT_READ,
        };
        // SAFETY: the memory is nobody else's.
        unsafe { libc::mprotect(self.start, self.bytes, protection) };
    }
}

/// `mapper ROUNDS`: the main thread, which has not reserved, does nothing but hold the lock of the process' map of memory,
/// for 5 ms of CPU time or more each time. A thread that has reserved wants that lock so many times. Extra is how
/// long that waited, in microseconds.
pub fn mapper(board: &Board, arguments: &[&str]) -> Result<(), String> {
    const PAGE: usize = 4096;
    let rounds = argument::<u32>(arguments, 0)?;
    let small = Region::new(PAGE)?;
    let mut large = Region::new(16 << 20)?;
    let takes_ns = |region: &Region| {
        let since_ns = had_ns();
        region.protect(false);
        had_ns() - since_ns
    };
    while takes_ns(&large) < 5 * MS && large.bytes < 256 << 20 {
        large = Region::new(2 * large.bytes)?;
    }
    thread::scope(|scope| {
        let waiter = scope.spawn(|| -> Result<(), String> {
            reserve(0.3)?;
            for round in 0..rounds {
                thread::sleep(Duration::from_millis(20));
                let since_ns = now_ns();
                small.protect(round % 2 == 0);
                board.add(Field::Extra, (now_ns() - since_ns) / 1000);
                board.add(Field::Work, 1);
            }
            Ok(())
        });
        let mut may_write = false;
        while !waiter.is_finished() {
            may_write = !may_write;
            large.protect(may_write);
        }
        waiter.join().unwrap_or(Err("the waiter panicked".into()))
    })
}
