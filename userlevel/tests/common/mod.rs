// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of this host share: a directory, a seat, work.

use consort_userlevel::{random, Linux, Lost, Meeting, Member, Newcomer, Os, Terms, Wish};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub const MS: u64 = 1_000_000;
pub const TERMS: Terms = Terms {
    event_ns: MS,
    order: 1,
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
        let meeting = Meeting::attend(directory, "studio", TERMS).ok()?;
        let os = Linux::new();
        let newcomer = Newcomer {
            who: os.me(),
            owner: random(),
            cpus: u64::MAX,
            cpus_most: 1,
            weight: 1 << 20,
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
