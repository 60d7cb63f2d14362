// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is at the other end of a connection, and which threads are its own.
//!
//! The kernel vouches for the process that connected (SO_PEERCRED). A process inherits connections across
//! fork, and process numbers are reused, so each use checks that the number still means that process: its
//! start time and its owner must be the same.

use std::{
    fs,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::socket::{getsockopt, sockopt},
};

use crate::Refusal;

/// Threads of a process in a pid namespace that are searched for the one that it names.
const NAMESPACED_THREADS_MAX: usize = 1024;

/// The process that opened a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// In the init pid namespace, like all numbers here that are not said to be the program's.
    pub pid: i32,
    pub uid: u32,
    /// Clock ticks after boot: with `pid`, names one process for ever.
    pub start: u64,
    /// The program's name, as it calls itself; for display.
    pub command: String,
    /// The process has a pid namespace of its own, in which its threads have other numbers.
    pub namespaced: bool,
}

/// A thread that was found to belong to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    pub tid: i32,
    /// Clock ticks after boot.
    pub start: u64,
}

/// Policies of the kernel's uapi/linux/sched.h.
const POLICIES_ABOVE_CONSORT: [(u32, &str); 3] =
    [(1, "SCHED_FIFO"), (2, "SCHED_RR"), (6, "SCHED_DEADLINE")];
const SCHED_EXT: u32 = 7;

/// What looking a thread up cost, in units of one look-up; the caller's rate pays for it.
pub type LookupCost = u32;

/// The kernel's files of processes and of cgroups; tests use folders of their own.
#[derive(Debug, Clone)]
pub struct Processes {
    root: PathBuf,
    cgroups: PathBuf,
}

impl Default for Processes {
    fn default() -> Self {
        Processes::at("/proc")
    }
}

impl Processes {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let cgroups = PathBuf::from("/sys/fs/cgroup");
        let root = root.into();
        Processes { root, cgroups }
    }

    pub fn with_cgroups_at(mut self, cgroups: impl Into<PathBuf>) -> Self {
        self.cgroups = cgroups.into();
        self
    }

    pub(crate) fn cgroups(&self) -> &Path {
        &self.cgroups
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The Unix groups that a process is in.
    pub(crate) fn groups_of(&self, pid: i32) -> Vec<u32> {
        let folder = self.root.join(pid.to_string());
        let listed = ["Gid:", "Groups:"].map(|label| status_numbers(&folder, label));
        let numbers = listed.into_iter().flatten().flatten();
        numbers
            .filter_map(|number| number.try_into().ok())
            .collect()
    }

    /// Finds out who opened `socket`.
    ///
    /// # Errors
    /// EACCES when the process cannot be seen from here or has gone.
    pub fn peer_of(&self, socket: impl AsFd) -> Result<Peer, Refusal> {
        let credentials = getsockopt(&socket, sockopt::PeerCredentials)
            .map_err(|errno| Refusal::new(errno, format!("cannot tell who connected: {errno}")))?;
        self.peer(credentials.pid(), credentials.uid())
    }

    /// Describes process `pid`, which user `uid` owned when it connected.
    pub fn peer(&self, pid: i32, uid: u32) -> Result<Peer, Refusal> {
        if pid <= 0 {
            return Err(Refusal::new(
                Errno::EACCES,
                "the program's process is not visible to the daemon: run `consort serve` in the initial pid \
                 namespace, not in a container",
            ));
        }
        let gone = || {
            Refusal::new(
                Errno::EACCES,
                format!("process {pid} that connected has gone: connect again"),
            )
        };
        let folder = self.root.join(pid.to_string());
        let start = start_time(&folder).ok_or_else(gone)?;
        let numbers = status_numbers(&folder, "NSpid:").ok_or_else(gone)?;
        // Between connecting and now the number may have gone to another user's process.
        let owners = status_numbers(&folder, "Uid:").ok_or_else(gone)?;
        if !owners.contains(&i64::from(uid)) {
            return Err(gone());
        }
        let command = read_text(&folder.join("comm")).unwrap_or_default();
        Ok(Peer {
            pid,
            uid,
            start,
            command: command
                .trim_end()
                .chars()
                .filter(|c| !c.is_control())
                .collect(),
            namespaced: numbers.len() > 1,
        })
    }

    /// Finds the thread that `peer` calls `named` (0: its only one), and what finding it cost.
    ///
    /// # Errors
    /// EINVAL for a negative number or an ambiguous 0, ESRCH when it is no thread of that process, EPERM when
    /// the process is no longer the one that connected.
    pub fn thread(&self, peer: &Peer, named: i32) -> (LookupCost, Result<Thread, Refusal>) {
        if let Err(refusal) = self.still_the_same(peer) {
            return (1, Err(refusal));
        }
        match named {
            ..0 => (
                1,
                Err(Refusal::new(
                    Errno::EINVAL,
                    format!("thread {named} is no thread: expected gettid()'s number, or 0 for the only thread"),
                )),
            ),
            0 => (1, self.only_thread(peer)),
            _ if peer.namespaced => self.namespaced_thread(peer, named),
            _ => (1, self.own_thread(peer, named, named)),
        }
    }

    /// True while `thread` of process `pid` lives.
    pub fn lives(&self, pid: i32, thread: Thread) -> bool {
        thread_start(&self.task_folder(pid, thread.tid)) == Some(thread.start)
    }

    /// Checks that `thread` of process `pid` is one that Consort schedules: with `partial` only those that
    /// opted in.
    ///
    /// # Errors
    /// ESRCH, naming the policy that keeps it away.
    pub fn check_scheduled(&self, pid: i32, thread: Thread, partial: bool) -> Result<(), Refusal> {
        let policy = Stat::read(&self.task_folder(pid, thread.tid)).map_or(0, |stat| stat.policy);
        let refuse = |text| Err(Refusal::new(Errno::ESRCH, text));
        let above = POLICIES_ABOVE_CONSORT
            .iter()
            .find(|(above, _)| *above == policy);
        if let Some((_, name)) = above {
            return refuse(format!(
                "thread {} has the policy {name}, which Consort does not schedule: give it SCHED_OTHER",
                thread.tid
            ));
        }
        if partial && policy != SCHED_EXT {
            return refuse(format!(
                "the scheduler is --partial and thread {} has not opted in: start the program with `consort run`",
                thread.tid
            ));
        }
        Ok(())
    }

    fn still_the_same(&self, peer: &Peer) -> Result<(), Refusal> {
        let folder = self.root.join(peer.pid.to_string());
        if start_time(&folder) == Some(peer.start) {
            return Ok(());
        }
        Err(Refusal::new(
            Errno::EPERM,
            format!(
                "process {} opened this connection and has gone: a forked child opens its own, and joins itself",
                peer.pid
            ),
        ))
    }

    fn only_thread(&self, peer: &Peer) -> Result<Thread, Refusal> {
        let tasks = self.root.join(peer.pid.to_string()).join("task");
        let threads = fs::read_dir(tasks).map_or(0, |entries| entries.take(2).count());
        if threads != 1 {
            return Err(Refusal::new(
                Errno::EINVAL,
                "thread 0 means the only thread, and the process has several: name one with gettid()",
            ));
        }
        self.own_thread(peer, peer.pid, 0)
    }

    fn own_thread(&self, peer: &Peer, tid: i32, named: i32) -> Result<Thread, Refusal> {
        match thread_start(&self.task_folder(peer.pid, tid)) {
            Some(start) => Ok(Thread { tid, start }),
            None => Err(not_a_thread(peer, named)),
        }
    }

    /// Searches all threads: the kernel has no look-up from a namespace's number to its own.
    fn namespaced_thread(&self, peer: &Peer, named: i32) -> (LookupCost, Result<Thread, Refusal>) {
        let tasks = self.root.join(peer.pid.to_string()).join("task");
        let mut cost = 1;
        let Ok(entries) = fs::read_dir(&tasks) else {
            return (cost, Err(not_a_thread(peer, named)));
        };
        for entry in entries.flatten().take(NAMESPACED_THREADS_MAX) {
            cost += 1;
            // A task's number in each pid namespace, outermost first.
            let numbers = status_numbers(&entry.path(), "NSpid:").unwrap_or_default();
            if numbers.len() < 2 || numbers.last() != Some(&i64::from(named)) {
                continue;
            }
            let tid = numbers.first().and_then(|tid| i32::try_from(*tid).ok());
            let found = tid.map_or_else(
                || Err(not_a_thread(peer, named)),
                |tid| self.own_thread(peer, tid, named),
            );
            return (cost, found);
        }
        (cost, Err(not_a_thread(peer, named)))
    }

    fn task_folder(&self, pid: i32, tid: i32) -> PathBuf {
        self.root.join(format!("{pid}/task/{tid}"))
    }
}

fn not_a_thread(peer: &Peer, named: i32) -> Refusal {
    Refusal::new(
        Errno::ESRCH,
        format!(
            "thread {named} is no living thread of process {} ({}) that opened this connection",
            peer.pid, peer.command
        ),
    )
}

/// When a thread started; `None` when it has ended.
pub(crate) fn thread_start(folder: &Path) -> Option<u64> {
    Stat::read(folder).and_then(|stat| match stat.state {
        'Z' | 'X' | 'x' => None,
        _ => Some(stat.start),
    })
}

/// When a process started. Its first thread may have ended before the others.
pub(crate) fn start_time(folder: &Path) -> Option<u64> {
    Stat::read(folder).map(|stat| stat.start)
}

/// Some of what proc_pid_stat(5) lists.
struct Stat {
    state: char,
    start: u64,
    policy: u32,
}

impl Stat {
    fn read(folder: &Path) -> Option<Self> {
        let text = read_text(&folder.join("stat"))?;
        // The command in parentheses may contain anything, so fields are counted after the last one: the
        // state is field 3, the start time field 22, the policy field 41.
        let (_, fields) = text.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        Some(Stat {
            state: fields.next()?.chars().next()?,
            start: fields.nth(18)?.parse().ok()?,
            policy: fields.nth(18)?.parse().ok()?,
        })
    }
}

/// A process's name, which is in most of these files, need not be UTF-8.
pub(crate) fn read_text(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The numbers after `label` in a task's status.
pub(crate) fn status_numbers(folder: &Path, label: &str) -> Option<Vec<i64>> {
    let status = read_text(&folder.join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_ascii_whitespace()
        .map(|number| number.parse().ok())
        .collect()
}
