// SPDX-License-Identifier: MIT OR Apache-2.0
//! What never changes of a process or thread, kept by the kernel's own name for it. To make one of its files is what a request
//! costs most of, and programs ask again and again about the same ones: such a file is read once.
//!
//! That name is the inode number of a descriptor of the process: nothing else ever has it (Linux 6.9).

use std::{
    collections::HashMap,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use nix::{
    errno::Errno,
    poll::{poll, PollFd, PollFlags, PollTimeout},
    sys::{stat::fstat, statfs::fstatfs},
};

use crate::procfs::{Stat, Status};

/// More than talk to the daemon at a time. With one more all are forgotten, and read again.
const KNOWN_MAX: usize = 16384;

/// Of linux/magic.h and linux/pidfd.h.
const PID_FS: i64 = 0x5049_4446;
const PIDFD_THREAD: libc::c_int = libc::O_EXCL;
const PIDFD_GET_INFO: libc::Ioctl =
    nix::request_code_readwrite!(0xff, 11, size_of::<Info>()) as libc::Ioctl;

/// The first version of the kernel's `struct pidfd_info`.
#[repr(C)]
struct Info {
    mask: u64,
    cgroup: u64,
    pid: u32,
    process: u32,
    parent: u32,
    /// User and group: real, effective, saved, of the file system.
    owners: [[u32; 2]; 4],
    exit_code: i32,
}

/// A process or thread as the kernel hands it out, by its number; `None`: there is none, or the kernel does not tell.
pub(crate) fn open(number: i32) -> Option<OwnedFd> {
    let open = |flags: libc::c_int| {
        // SAFETY: the call has no memory of ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, number, flags) };
        // SAFETY: the kernel just made this descriptor for us.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    };
    open(0).or_else(|| open(PIDFD_THREAD))
}

/// True when the whole process has ended, or the thread.
pub(crate) fn has_ended(descriptor: impl AsFd) -> bool {
    let mut ready = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    poll(&mut ready, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

/// Whose a process is: its real, effective and saved user, and that of its files. `None` where the kernel does not tell
/// (before Linux 6.13), and when it has ended.
pub(crate) fn owners(descriptor: impl AsFd) -> Option<[u32; 4]> {
    info(descriptor.as_fd()).map(|info| info.owners.map(|[user, _]| user))
}

fn info(descriptor: BorrowedFd<'_>) -> Option<Info> {
    // SAFETY: all bytes zero are a valid struct of integers.
    let mut info: Info = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the kernel writes as much as the request's number says, which is the struct's size.
    let told = unsafe { libc::ioctl(descriptor.as_raw_fd(), PIDFD_GET_INFO, &mut info) };
    (told == 0).then_some(info)
}

/// What never changes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Whose thread it is; its own number: it is a process.
    pub pid: i32,
    /// In clock ticks after boot.
    pub start: u64,
    pub is_kernels: bool,
}

impl Facts {
    /// Of the process or thread `it`, or where the kernel tells less of that, the one whose folder that is.
    pub fn read(it: BorrowedFd<'_>, folder: &Path) -> Option<Self> {
        let stat = Stat::of(folder)?;
        let told = info(it).map(|info| i64::from(info.process));
        let pid = told.or_else(|| Status::read(folder)?.number("Tgid:"))?;
        Some(Facts {
            pid: pid.try_into().ok()?,
            start: stat.start,
            is_kernels: stat.is_kernels(),
        })
    }
}

/// Whether a process has a pid namespace of its own.
pub(crate) fn is_namespaced(status: &Status) -> Option<bool> {
    Some(status.numbers("NSpid:")?.len() > 1)
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub facts: Kept<Facts>,
    pub namespaced: Kept<bool>,
}

/// By the kernel's names.
#[derive(Debug, Clone)]
pub(crate) struct Kept<T>(Arc<Mutex<HashMap<u64, T>>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(Arc::default())
    }
}

impl<T: Copy> Kept<T> {
    /// What is known, or what `read` finds out of one that lives on when that has been done: so its number was nobody else's.
    pub fn of(&self, it: impl AsFd, read: impl FnOnce() -> Option<T>) -> Option<T> {
        let name = name(&it).ok()?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = all.get(&name) {
            return Some(*kept);
        }
        let found = read().filter(|_| !has_ended(&it))?;
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        all.insert(name, found);
        Some(found)
    }
}

/// # Errors
/// ENOTSUP where names are not the kernel's own.
fn name(descriptor: impl AsFd) -> Result<u64, Errno> {
    let descriptor = descriptor.as_fd();
    if fstatfs(descriptor)?.filesystem_type().0 != PID_FS {
        return Err(Errno::ENOTSUP);
    }
    Ok(fstat(descriptor)?.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn folder(number: i32) -> std::path::PathBuf {
        format!("/proc/{number}").into()
    }

    #[test]
    fn a_process_is_read_once() {
        let me = std::process::id() as i32;
        let known = Known::default().facts;
        let read = Facts::read(open(me).unwrap().as_fd(), &folder(me)).unwrap();
        let Some(first) = known.of(open(me).unwrap(), || Some(read)) else {
            eprintln!("not tested: this kernel has no names for processes");
            return;
        };
        let again = known.of(open(me).unwrap(), || panic!("it is known"));
        assert_eq!((first, again), (read, Some(read)));
        assert_eq!((read.pid, read.is_kernels), (me, false));
    }

    #[test]
    fn a_thread_is_known_by_its_own_number() {
        let (me, tid) = (std::process::id() as i32, nix::unistd::gettid().as_raw());
        let it = open(tid).unwrap();
        let facts = Facts::read(it.as_fd(), &folder(tid)).unwrap();
        let known = Known::default().facts.of(it, || Some(facts));
        assert_eq!(facts.pid, me);
        assert!(known.is_none_or(|known| known == facts));
    }

    /// What was read of a number may have been about the next one that has it.
    #[test]
    fn who_ends_meanwhile_is_not_kept() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let number = child.id() as i32;
        let it = open(number).unwrap();
        let user = nix::unistd::getuid().as_raw();
        assert!(owners(&it).is_none_or(|owners| owners == [user; 4]));
        let known = Known::default().facts;
        let found = known.of(&it, || {
            let facts = Facts::read(it.as_fd(), &folder(number));
            child.kill().unwrap();
            child.wait().unwrap();
            facts
        });
        assert_eq!((found, owners(&it)), (None, None));
        assert!(open(number).is_none());
    }
}
