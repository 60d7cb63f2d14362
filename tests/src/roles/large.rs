// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program with much memory, which takes long to end.

use std::{thread::sleep, time::Duration};

use super::argument;
use crate::suite::board::{Board, Field};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

/// `large MIB`: has that much memory in small pages, and ends when it is told to.
pub fn large(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let bytes = argument::<usize>(arguments, 0)? * MIB;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, wherever the kernel puts it.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        let error = std::io::Error::last_os_error();
        return Err(format!("cannot map {bytes} bytes: {error}"));
    }
    // SAFETY: the range was just mapped. A kernel without huge pages refuses, and needs no telling.
    unsafe { libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE) };
    for at in (0..bytes).step_by(PAGE) {
        // SAFETY: within the range.
        unsafe { memory.cast::<u8>().add(at).write_volatile(1) };
    }
    board.set(Field::Ready, 1);
    while board.get(Field::Command) == 0 {
        sleep(Duration::from_millis(1));
    }
    Ok(())
}
