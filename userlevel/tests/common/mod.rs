// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of this host share: a directory, a seat, work.

// Each of the tests' programs uses a part of it.
#![allow(dead_code)]

use consort_userlevel::{
    path_of, random, Linux, Lost, Meeting, Member, Newcomer, Os, Runtime, Share, Terms, Wish,
};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub const MS: u64 = 1_000_000;
pub const TERMS: Terms = Terms {
    event_ns: MS,
    order: 1,
};
pub const SHARE: Share = Share {
    cpus: u64::MAX,
    cpus_most: 1,
    weight: 1 << 20,
};

/// A directory of this test's own.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Directory {
        let path = std::env::temp_dir().join(format!("consort-test-{:016x}", random()));
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The file of the tests' domain.
pub fn file(directory: &Path) -> PathBuf {
    path_of(directory, "studio")
}

/// Whether this process' directories are chosen, as by [`DIRECTORY_VARIABLE`]: forked children must not touch the environment,
/// which another thread may have locked.
///
/// [`DIRECTORY_VARIABLE`]: consort_userlevel::DIRECTORY_VARIABLE
pub static IS_CHOSEN: AtomicBool = AtomicBool::new(false);

pub fn runtime(directory: &Path) -> Runtime {
    match IS_CHOSEN.load(Relaxed) {
        true => Runtime::chosen(directory),
        false => Runtime::at(directory),
    }
}

/// Runs `what` in a child process, in its only thread. Returns how that ended: 0, it said so.
pub fn in_child(what: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child calls what is tested, and ends.
    match unsafe { libc::fork() } {
        0 => {
            let is_well = what();
            // SAFETY: ends the child without running what belongs to its parent.
            unsafe { libc::_exit(i32::from(!is_well)) }
        }
        child => {
            let mut status = -1;
            // SAFETY: our child; the pointer is valid.
            unsafe { libc::waitpid(child, &mut status, 0) };
            status
        }
    }
}

pub struct Seat {
    pub member: Member<Linux>,
    pub meeting: Meeting,
}

impl Seat {
    pub fn take(directory: &Path) -> Seat {
        Seat::try_to_take(directory).unwrap()
    }

    /// None: the memory is not a domain's, or ceased to be one just now.
    pub fn try_to_take(directory: &Path) -> Option<Seat> {
        let meeting = Meeting::attend(&runtime(directory), "studio", TERMS).ok()?;
        let os = Linux::new();
        let newcomer = Newcomer {
            who: os.me(),
            owner: random(),
            share: SHARE,
        };
        let joined = Member::join(meeting.table(), os, meeting.token(), TERMS, &newcomer);
        let member = joined.ok()?;
        Some(Seat { member, meeting })
    }

    /// A poll of a member that always has something to do, and is due in a moment.
    pub fn poll(&self) -> Result<(), Lost> {
        let due_ns = self.member.os().now_ns() + 5 * MS;
        self.member.poll(Wish {
            due_ns,
            key: 0,
            priority: 0,
        })
    }

    pub fn leave(self) {
        if self.member.leave() {
            self.meeting.adjourn();
        }
    }
}

pub fn work() {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(200) {
        std::hint::spin_loop();
    }
}
