// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's files of processes and threads. To make one is what a request costs most of: each is read once, for all that
//! is asked of it.

use std::{fs::File, io::Read, path::Path};

/// More than most of these files have: one call reads them, and another one finds their end.
const TEXT_BYTES: usize = 4096;

/// When a thread started; `None` when it has ended. Its folder is below its process' `task`.
pub(crate) fn thread_start(folder: &Path) -> Option<u64> {
    Stat::read(folder)
        .filter(|stat| !stat.has_ended())
        .map(|stat| stat.start)
}

/// When a process started. Its first thread may have ended before the others.
pub(crate) fn start_time(folder: &Path) -> Option<u64> {
    Stat::of(folder).map(|stat| stat.start)
}

/// The process that started this one, or has adopted it, and this one's start time.
pub(crate) fn parent_and_start(folder: &Path) -> Option<(i32, u64)> {
    Stat::of(folder).map(|stat| (stat.parent, stat.start))
}

/// Whether the kernel runs it for itself, as kthreadd and all that it starts.
pub(crate) fn is_kernel_thread(folder: &Path) -> bool {
    Stat::of(folder).is_some_and(|stat| stat.is_kernels())
}

/// Some of what proc_pid_stat(5) lists.
pub(crate) struct Stat {
    pub state: char,
    pub parent: i32,
    flags: u64,
    /// Below 0: of a real-time class.
    pub priority: i64,
    pub start: u64,
    pub policy: u32,
}

impl Stat {
    /// Of a process' first thread, or of any thread by its own number. The file in that folder itself says the same, and the
    /// kernel sums up all threads of the process for it: whoever has many would keep the daemon busy.
    pub fn of(folder: &Path) -> Option<Self> {
        Stat::read(&folder.join("task").join(folder.file_name()?))
    }

    pub fn read(folder: &Path) -> Option<Self> {
        let text = read_text(&folder.join("stat"))?;
        // The command in parentheses may contain anything, so fields are counted after the last one: the
        // state is field 3, the parent field 4, the flags are field 9, the priority is field 18, the start time field 22, the
        // policy field 41.
        let (_, fields) = text.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        Some(Stat {
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            flags: fields.nth(4)?.parse().ok()?,
            priority: fields.nth(8)?.parse().ok()?,
            start: fields.nth(3)?.parse().ok()?,
            policy: fields.nth(18)?.parse().ok()?,
        })
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Whether it is a thread of the kernel's.
    pub fn is_kernels(&self) -> bool {
        /// `PF_KTHREAD` of the kernel's linux/sched.h: ps(1) and others have relied on it for twenty years.
        const KERNEL_THREAD: u64 = 0x0020_0000;
        self.flags & KERNEL_THREAD != 0
    }
}

/// A task's status, as proc_pid_status(5) has it.
pub(crate) struct Status(String);

impl Status {
    pub fn read(folder: &Path) -> Option<Self> {
        read_text(&folder.join("status")).map(Status)
    }

    /// The numbers after `label`.
    pub fn numbers(&self, label: &str) -> Option<Vec<i64>> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(label))?;
        line.split_ascii_whitespace()
            .map(|number| number.parse().ok())
            .collect()
    }

    /// The first of them.
    pub fn number(&self, label: &str) -> Option<i64> {
        self.numbers(label)?.first().copied()
    }
}

/// A process's name, which is in most of these files, need not be UTF-8.
pub(crate) fn read_text(path: &Path) -> Option<String> {
    let mut bytes = Vec::with_capacity(TEXT_BYTES);
    // Without a limit the library would ask for the size first, which is 0 for all of them.
    File::open(path)
        .ok()?
        .take(u64::MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = String::from_utf8(bytes);
    Some(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
