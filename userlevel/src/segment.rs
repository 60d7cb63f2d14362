// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a domain: a System V segment, of all kinds of shared memory the one that nobody can shorten under those who
//! have it mapped (a file that is truncated kills its readers), and that the kernel removes with its last user, however that
//! ends. It has no name: rendezvous.rs says which it is.

use crate::layout::{Shared, BYTES};
use crate::table::Table;
use std::io;
use std::ptr::NonNull;

pub struct Segment {
    id: i32,
    base: NonNull<Shared>,
}

// SAFETY: shared memory that is accessed through atomics alone.
unsafe impl Send for Segment {}

/// Who may use it: the bits of a file's mode, and a group.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub mode: u32,
    pub group: u32,
}

impl Segment {
    /// New memory, all zero. It goes with its last user.
    ///
    /// # Errors
    /// What the kernel says: too many segments, no memory, or none of this kind here.
    pub fn create(access: Access) -> io::Result<Segment> {
        let mode = libc::IPC_CREAT | libc::IPC_EXCL | (access.mode & 0o666) as i32;
        // SAFETY: plain system call.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, BYTES, mode) };
        if id < 0 {
            return Err(io::Error::last_os_error());
        }
        let segment = Segment::map(id).and_then(|segment| {
            if access.mode & 0o060 != 0 {
                give_to_group(id, access)?;
            }
            Ok(segment)
        });
        // From here on it lives as long as it is mapped; Linux lets others map it all the same.
        // SAFETY: plain system call.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        segment
    }

    /// The memory of that number, if it is of the right size and `creator`'s.
    ///
    /// # Errors
    /// It is gone, or somebody else's, or something else.
    pub fn open(id: i32, creator: u32) -> io::Result<Segment> {
        let status = status(id)?;
        if status.shm_segsz as usize != BYTES || status.shm_perm.cuid != creator {
            return Err(io::Error::from_raw_os_error(libc::ESTALE));
        }
        Segment::map(id)
    }

    fn map(id: i32) -> io::Result<Segment> {
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let base = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        if base as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidInput)?;
        let segment = Segment { id, base };
        // SAFETY: the range is mapped: the number is that of a segment of this size. A child does not have it.
        let refused = unsafe { libc::madvise(base.as_ptr().cast(), BYTES, libc::MADV_DONTFORK) };
        match refused {
            0 => Ok(segment),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn id(&self) -> i32 {
        self.id
    }

    /// The memory. The table must not be used after the segment is dropped.
    pub fn table(&self) -> Table {
        // SAFETY: mapped until this is dropped, readable and writable.
        unsafe { Table::new(self.base) }
    }

    /// In a forked child, which does not have the mapping: nothing is to be given back.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; tables of it are not used any more.
        unsafe { libc::shmdt(self.base.as_ptr().cast()) };
    }
}

fn status(id: i32) -> io::Result<libc::shmid_ds> {
    let mut status = std::mem::MaybeUninit::<libc::shmid_ds>::uninit();
    // SAFETY: the pointer is valid; `status` is read only if the call filled it.
    unsafe {
        match libc::shmctl(id, libc::IPC_STAT, status.as_mut_ptr()) {
            0 => Ok(status.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn give_to_group(id: i32, access: Access) -> io::Result<()> {
    let mut status = status(id)?;
    status.shm_perm.gid = access.group;
    // SAFETY: the pointer is valid, and the kernel only reads.
    match unsafe { libc::shmctl(id, libc::IPC_SET, &mut status) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
