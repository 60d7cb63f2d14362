// SPDX-License-Identifier: GPL-2.0-only
//! Memory of the scheduler's, mapped: what is written here it reads at once, and the other way round.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    ptr::{self, NonNull},
};

use libbpf_rs::{MapCore, MapHandle};

use crate::Error;

/// The variables of one section, as its skeleton type says, or the entries of an array.
#[derive(Debug)]
pub(crate) struct Globals<T> {
    at: NonNull<T>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, and is reached through one owner.
unsafe impl<T> Send for Globals<T> {}

impl<T> Globals<T> {
    /// Maps a section, or an array; those that the kernel has frozen can be read only.
    pub fn map(section: &MapHandle, is_frozen: bool) -> Result<Self, Error> {
        let failed = |error| Error::system("cannot map the scheduler's variables", error);
        // Rust counts what follows the last variable up to the next multiple of the alignment.
        let value = (section.value_size() as usize).next_multiple_of(align_of::<T>());
        let known = value * section.max_entries() as usize;
        if known < size_of::<T>() {
            let text =
                "they are shorter than expected: kernel/bpf and kernel/src do not fit together";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        let protection = match is_frozen {
            true => libc::PROT_READ,
            false => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: a fresh shared mapping, at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                known,
                protection,
                libc::MAP_SHARED,
                section.as_fd().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(at.cast::<T>()) {
            Some(mapped) if at != libc::MAP_FAILED => Ok(Globals {
                at: mapped,
                bytes: known,
            }),
            _ => Err(failed(io::Error::last_os_error())),
        }
    }

    /// The kernel reads and writes the same memory at any time: single fields only, by volatile access where it matters.
    pub fn as_ptr(&self) -> *mut T {
        self.at.as_ptr()
    }

    /// How many of them there are, one after another: of a section that has one for each CPU.
    pub fn count(&self) -> usize {
        self.bytes / size_of::<T>()
    }
}

impl<T> Drop for Globals<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with as many bytes, and nobody has a reference that outlives this.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// Reads one field now.
macro_rules! read {
    ($globals:expr, $($field:tt)+) => {
        // SAFETY: a field of mapped memory that lives as long as its owner; volatile, as the kernel writes it at any time.
        unsafe { std::ptr::read_volatile(&raw const (*$globals.as_ptr()).$($field)+) }
    };
}

/// Writes one field now, whole.
macro_rules! write {
    ($globals:expr, $value:expr, $($field:tt)+) => {
        // SAFETY: as in `read`; the kernel reads it at any time.
        unsafe { std::ptr::write_volatile(&raw mut (*$globals.as_ptr()).$($field)+, $value) }
    };
}

pub(crate) use {read, write};
