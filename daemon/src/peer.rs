// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is at the other end of a connection, and which threads are its own.
//!
//! The kernel vouches for the process that connected: it gives its user (SO_PEERCRED) and a descriptor of it
//! (SO_PEERPIDFD). A process inherits connections across fork, and process numbers are reused, so each use checks that
//! the process lives that the descriptor means: as long as it does, its number is nobody else's. Its start time tells the
//! same to those who come later.

use std::{
    fs,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    ptr,
    sync::Arc,
};

use nix::{
    errno::Errno,
    sys::socket::{getsockopt, sockopt, UnixCredentials},
};

use crate::{
    known::{self, Facts, Known},
    procfs::{read_text, start_time, thread_start, Stat, Status},
    Refusal,
};

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
    /// The process itself; `None` for one that exists on paper.
    pub descriptor: Option<Descriptor>,
}

/// A process as the kernel hands it out, be its number another's by now.
#[derive(Debug, Clone)]
pub struct Descriptor(Arc<OwnedFd>);

impl PartialEq for Descriptor {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Descriptor {}

impl Descriptor {
    /// The process at the other end of `socket`; `None` where the kernel does not tell.
    fn of_peer(socket: BorrowedFd<'_>) -> Option<Self> {
        Some(Descriptor(Arc::new(process_at(socket)?)))
    }

    /// The whole process has ended.
    fn has_ended(&self) -> bool {
        known::has_ended(self)
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The process at the other end of `socket`; `None` where the kernel does not tell.
pub(crate) fn process_at(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    let (mut fd, mut length): (RawFd, _) = (-1, size_of::<RawFd>() as libc::socklen_t);
    // SAFETY: the pointers are to one int and its length.
    let told = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            ptr::from_mut(&mut fd).cast(),
            &mut length,
        )
    };
    // SAFETY: the kernel just made this descriptor for us.
    (told == 0 && fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whom the kernel vouches for at the other end of `socket`.
///
/// # Errors
/// When the kernel does not tell.
pub(crate) fn credentials(socket: impl AsFd) -> Result<UnixCredentials, Refusal> {
    getsockopt(&socket, sockopt::PeerCredentials)
        .map_err(|errno| Refusal::new(errno, format!("cannot tell who connected: {errno}")))
}

pub use consort_kernel::Thread;

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
    /// `None`: these are not the kernel's own files.
    known: Option<Known>,
}

impl Default for Processes {
    fn default() -> Self {
        Processes {
            known: Some(Known::default()),
            ..Processes::at("/proc")
        }
    }
}

impl Processes {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let cgroups = PathBuf::from("/sys/fs/cgroup");
        Processes {
            root: root.into(),
            cgroups,
            known: None,
        }
    }

    pub fn with_cgroups_at(mut self, cgroups: impl Into<PathBuf>) -> Self {
        self.cgroups = cgroups.into();
        self
    }

    /// The time in the unit of start times: clock ticks after boot.
    pub(crate) fn now_ticks(&self) -> u64 {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the kernel fills a valid struct; sysconf has no memory of ours.
        let per_second = unsafe {
            libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now);
            libc::sysconf(libc::_SC_CLK_TCK)
        };
        let per_second = u64::try_from(per_second).unwrap_or(100).max(1);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let part = u64::try_from(now.tv_nsec).unwrap_or_default() * per_second / 1_000_000_000;
        seconds * per_second + part
    }

    pub(crate) fn cgroups(&self) -> &Path {
        &self.cgroups
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The Unix groups that a process is in; not one that it has from its program's file, as any user may have who starts it.
    pub(crate) fn groups_of(&self, pid: i32) -> Vec<u32> {
        let folder = self.root.join(pid.to_string());
        let Some(status) = Status::read(&folder) else {
            return Vec::new();
        };
        let real = status.number("Gid:").into_iter();
        let others = status.numbers("Groups:").unwrap_or_default();
        real.chain(others)
            .filter_map(|number| number.try_into().ok())
            .collect()
    }

    /// Finds out who opened `socket`.
    ///
    /// # Errors
    /// EACCES when the process cannot be seen from here or has gone.
    pub fn peer_of(&self, socket: impl AsFd) -> Result<Peer, Refusal> {
        let credentials = credentials(&socket)?;
        self.peer_at(socket, &credentials)
    }

    pub(crate) fn peer_at(
        &self,
        socket: impl AsFd,
        credentials: &UnixCredentials,
    ) -> Result<Peer, Refusal> {
        let descriptor = Descriptor::of_peer(socket.as_fd());
        let (pid, uid) = (credentials.pid(), credentials.uid());
        let known = descriptor
            .as_ref()
            .and_then(|it| self.known_peer(it, pid, uid));
        let mut peer = match known {
            Some(peer) => peer,
            None => self.peer(pid, uid)?,
        };
        // What was read was about that process if it still lives: its number has been nobody else's.
        if descriptor.as_ref().is_some_and(Descriptor::has_ended) {
            return Err(gone(peer.pid));
        }
        peer.descriptor = descriptor;
        Ok(peer)
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
        let folder = self.root.join(pid.to_string());
        let start = start_time(&folder).ok_or_else(|| gone(pid))?;
        let status = Status::read(&folder).ok_or_else(|| gone(pid))?;
        let namespaced = known::is_namespaced(&status).ok_or_else(|| gone(pid))?;
        // Between connecting and now the number may have gone to another user's process.
        let owners = status.numbers("Uid:");
        if !owners.is_some_and(|owners| owners.contains(&i64::from(uid))) {
            return Err(gone(pid));
        }
        Ok(self.peer_with(start, namespaced, (pid, uid)))
    }

    /// The same of one whose files need not be read.
    fn known_peer(&self, it: &Descriptor, pid: i32, uid: u32) -> Option<Peer> {
        let folder = self.root.join(pid.to_string());
        let known = self.known.as_ref().filter(|_| pid > 0)?;
        let facts = self.facts_at(it.as_fd(), &folder)?;
        let read = || known::is_namespaced(&Status::read(&folder)?);
        let namespaced = known.namespaced.of(it, read)?;
        let is_its = known::owners(it)?.contains(&uid);
        is_its.then(|| self.peer_with(facts.start, namespaced, (pid, uid)))
    }

    fn peer_with(&self, start: u64, namespaced: bool, (pid, uid): (i32, u32)) -> Peer {
        let command = read_text(&self.root.join(format!("{pid}/comm"))).unwrap_or_default();
        let is_shown = |letter: &char| !letter.is_control();
        Peer {
            pid,
            uid,
            start,
            command: command.trim_end().chars().filter(is_shown).collect(),
            namespaced,
            descriptor: None,
        }
    }

    /// What never changes of a process or thread, and a descriptor of it; `None`: it has ended, or the kernel does not tell.
    pub(crate) fn facts_of(&self, number: i32) -> Option<(OwnedFd, Facts)> {
        self.known.as_ref()?;
        let it = known::open(number)?;
        let folder = self.root.join(number.to_string());
        let facts = self.facts_at(it.as_fd(), &folder)?;
        Some((it, facts))
    }

    fn facts_at(&self, it: BorrowedFd<'_>, folder: &Path) -> Option<Facts> {
        let known = self.known.as_ref()?;
        known.facts.of(it, || Facts::read(it, folder))
    }

    /// Finds the thread that `peer` calls `named` (0: its only one), and what finding it cost.
    ///
    /// # Errors
    /// EINVAL for a negative number or an ambiguous 0, ESRCH when it is no thread of that process, EPERM when
    /// the process is no longer the one that connected.
    pub fn thread(&self, peer: &Peer, named: i32) -> (LookupCost, Result<Thread, Refusal>) {
        let (cost, found) = match named {
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
        };
        // Only now: the process that is there yet was there all the time, so what was read was its own.
        (cost, self.still_the_same(peer).and(found))
    }

    /// CPU time that a thread has had; `None` when it has ended.
    pub(crate) fn used_ns(&self, pid: i32, tid: i32) -> Option<u64> {
        let text = read_text(&self.task_folder(pid, tid).join("schedstat"))?;
        text.split_ascii_whitespace().next()?.parse().ok()
    }

    /// A thread's state as ps(1) has it; `None` when it has ended.
    pub(crate) fn state(&self, pid: i32, tid: i32) -> Option<char> {
        Stat::read(&self.task_folder(pid, tid)).map(|stat| stat.state)
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

    /// True while a class above Consort's has the thread: its own, or one that it is lent by who waits for its lock.
    pub(crate) fn is_in_higher_class(&self, pid: i32, thread: Thread) -> bool {
        let stat = Stat::read(&self.task_folder(pid, thread.tid));
        stat.is_some_and(|stat| stat.start == thread.start && stat.priority < 0)
    }

    pub(crate) fn still_the_same(&self, peer: &Peer) -> Result<(), Refusal> {
        let is_the_same = match &peer.descriptor {
            Some(process) => !process.has_ended(),
            None => start_time(&self.root.join(peer.pid.to_string())) == Some(peer.start),
        };
        if is_the_same {
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

    /// The number by which the kernel's initial pid namespace knows what `peer` calls `named`, if the kernel tells.
    fn outer_number(&self, peer: &Peer, named: i32) -> Option<i32> {
        let namespace = self.root.join(peer.pid.to_string()).join("ns/pid");
        let namespace = fs::File::open(namespace).ok()?;
        // SAFETY: the request takes a number and writes nothing.
        let number = unsafe {
            libc::ioctl(
                namespace.as_raw_fd(),
                NS_GET_PID_FROM_PIDNS,
                libc::c_long::from(named),
            )
        };
        (number > 0).then_some(number)
    }

    /// What `peer`, in a pid namespace of its own, calls `named`: the kernel's number of it.
    ///
    /// # Errors
    /// ESRCH when there is no such process or thread, EPERM when the one that connected has gone.
    pub(crate) fn number_of(&self, peer: &Peer, named: i32) -> Result<i32, Refusal> {
        let number = match named {
            0 => Some(peer.pid),
            _ if !peer.namespaced => Some(named),
            _ => self.outer_number(peer, named),
        };
        self.still_the_same(peer)?;
        number.ok_or_else(|| {
            let text = format!("there is no process or thread {named} in your pid namespace");
            Refusal::new(Errno::ESRCH, text)
        })
    }

    /// Asks the kernel; one that cannot tell (before Linux 6.11) makes this a search.
    fn namespaced_thread(&self, peer: &Peer, named: i32) -> (LookupCost, Result<Thread, Refusal>) {
        if let Some(tid) = self.outer_number(peer, named) {
            return (1, self.own_thread(peer, tid, named));
        }
        let tasks = self.root.join(peer.pid.to_string()).join("task");
        let mut cost = 1;
        let Ok(entries) = fs::read_dir(&tasks) else {
            return (cost, Err(not_a_thread(peer, named)));
        };
        for entry in entries.flatten().take(NAMESPACED_THREADS_MAX) {
            cost += 1;
            // A task's number in each pid namespace, outermost first.
            let status = Status::read(&entry.path());
            let numbers = status.and_then(|status| status.numbers("NSpid:"));
            let numbers = numbers.unwrap_or_default();
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

    /// What a process in a pid namespace of its own calls one of its threads.
    pub(crate) fn inner_number(&self, pid: i32, tid: i32) -> Option<i32> {
        let numbers = Status::read(&self.task_folder(pid, tid))?.numbers("NSpid:")?;
        i32::try_from(*numbers.last()?).ok()
    }

    /// A thread of a process; `None`: it has ended.
    pub(crate) fn living_thread(&self, pid: i32, tid: i32) -> Option<Thread> {
        let start = thread_start(&self.task_folder(pid, tid))?;
        Some(Thread { tid, start })
    }

    pub(crate) fn task_folder(&self, pid: i32, tid: i32) -> PathBuf {
        self.root.join(format!("{pid}/task/{tid}"))
    }
}

/// Translates a number of a pid namespace; of Linux' uapi/linux/nsfs.h.
const NS_GET_PID_FROM_PIDNS: libc::Ioctl =
    nix::request_code_read!(0xb7, 0x6, size_of::<libc::c_int>());

fn gone(pid: i32) -> Refusal {
    let text = format!("process {pid} that connected has gone: connect again");
    Refusal::new(Errno::EACCES, text)
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
