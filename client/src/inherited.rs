// SPDX-License-Identifier: MIT OR Apache-2.0
//! A socket that a forked child has too, and closes: the daemon shall see the end of the connection when the parent ends.
//!
//! A program that closes what it does not know, as daemons do when they start, may have another file by that number. It is
//! the program's own, and stays.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Known without the locks that a parent may have held.
#[derive(Debug)]
pub struct Inherited {
    /// -1: none.
    number: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl Inherited {
    pub fn none() -> Self {
        Inherited {
            number: AtomicI32::new(-1),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
        }
    }

    pub fn note(&self, fd: RawFd) {
        self.forget();
        let Some((device, inode)) = file_at(fd) else {
            return;
        };
        self.device.store(device, Ordering::Relaxed);
        self.inode.store(inode, Ordering::Relaxed);
        self.number.store(fd, Ordering::Release);
    }

    pub fn forget(&self) {
        self.number.store(-1, Ordering::Release);
    }

    /// In a child, between fork and exec: whoever holds the socket as an `OwnedFd` never drops it there.
    pub fn close(&self) {
        let number = self.number.swap(-1, Ordering::AcqRel);
        let noted = (
            self.device.load(Ordering::Relaxed),
            self.inode.load(Ordering::Relaxed),
        );
        if number >= 0 && file_at(number) == Some(noted) {
            // SAFETY: it is the socket, which nobody else closes in this process.
            unsafe { libc::close(number) };
        }
    }
}

/// Device and inode.
pub type File = (libc::dev_t, libc::ino_t);

/// Which file a number is, if it is one.
pub fn file_at(fd: RawFd) -> Option<File> {
    // SAFETY: all bytes zero are a valid struct, which the kernel fills.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let told = unsafe { libc::fstat(fd, &mut stat) };
    (told == 0).then_some((stat.st_dev, stat.st_ino))
}
