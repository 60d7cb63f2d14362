// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whom a reservation is for: a process with all its threads, one thread, or a cgroup, named so that a number which the kernel
//! gives away again does not mean somebody else.

use std::{
    collections::{BTreeSet, HashMap},
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Component, Path},
};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    known::{self, Facts},
    peer::{Peer, Processes, Thread},
    procfs::{self, Stat, Status},
    Refusal,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// All threads of a process. Start times are clock ticks after boot.
    Process { pid: i32, start: u64 },
    /// One thread of process `pid`.
    Thread { pid: i32, tid: i32, start: u64 },
    /// All that is in a cgroup: its folder below the hierarchy's root, and the number that the kernel knows it by.
    Cgroup { path: String, id: u64 },
    /// The threads that are bound to the members of a group, of a user's file.
    Group {
        uid: u32,
        file: String,
        group: String,
    },
}

/// The children of each process, and when they started, in clock ticks after boot.
#[derive(Debug, Default)]
pub struct Families {
    children: HashMap<i32, Vec<(i32, u64)>>,
}

/// Whom somebody names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// A process or a thread; 0 is the process that asks.
    Number { number: i32, scope: Scope },
    /// A cgroup, by its folder.
    Cgroup(String),
}

/// How a number is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The process, if it is one's number, else the thread.
    #[default]
    Any,
    /// The thread, even if it is a process' first.
    Thread,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Process { pid, .. } => write!(f, "process {pid}"),
            Target::Thread { pid, tid, .. } => write!(f, "thread {tid} of process {pid}"),
            Target::Cgroup { path, .. } => write!(f, "cgroup {path}"),
            Target::Group { file, group, .. } => write!(f, "group {file}/{group}"),
        }
    }
}

impl Target {
    /// The number by which users know it; cgroups and groups have none, and are 0.
    pub fn number(&self) -> i32 {
        match self {
            Target::Cgroup { .. } | Target::Group { .. } => 0,
            Target::Process { pid, .. } => *pid,
            Target::Thread { tid, .. } => *tid,
        }
    }
}

/// Whom a number means, and whose that is.
pub(crate) struct Seen {
    pub target: Target,
    owner: i64,
    is_kernels: bool,
}

/// No user's number.
const NOBODY: i64 = -1;

impl Seen {
    /// Whether it is `peer`'s own.
    pub fn is_of(&self, peer: &Peer) -> bool {
        self.owner == i64::from(peer.uid)
    }

    /// If it is for `peer` to say what becomes of it.
    ///
    /// # Errors
    /// EPERM for a stranger's, EINVAL for a thread of the kernel's.
    pub fn named_by(self, peer: &Peer) -> Result<Target, Refusal> {
        let (number, owner) = (self.target.number(), self.owner);
        if peer.uid != 0 && owner != i64::from(peer.uid) {
            let text =
                format!("{number} belongs to user {owner}: reserve for your own, or as root");
            return Err(Refusal::new(Errno::EPERM, text));
        }
        if self.is_kernels {
            let text = format!("{number} is a thread of the kernel's, which makes others for everybody: name a program's process or thread");
            return Err(Refusal::new(Errno::EINVAL, text));
        }
        Ok(self.target)
    }
}

impl Processes {
    /// Finds whom `peer` names.
    ///
    /// # Errors
    /// Those of [`Processes::target`]; ENOENT for what is no cgroup.
    pub fn named(&self, peer: &Peer, named: &Named) -> Result<Target, Refusal> {
        match named {
            Named::Number { number, scope } => self.target(peer, *number, *scope),
            Named::Cgroup(path) => self.cgroup(peer, path),
        }
    }

    /// Users may name the cgroups that are delegated to them, root all.
    fn cgroup(&self, peer: &Peer, named: &str) -> Result<Target, Refusal> {
        let root = self.cgroups();
        let relative = Path::new(named);
        let relative = relative.strip_prefix(root).unwrap_or(relative);
        let relative = relative.strip_prefix("/").unwrap_or(relative);
        let is_plain = |part: Component| matches!(part, Component::Normal(_));
        // As it is written in one way only: `a//x/` and `a/x` are one cgroup.
        let plain: std::path::PathBuf = relative.components().collect();
        let path = match plain.to_str() {
            Some(path) if !path.is_empty() && plain.components().all(is_plain) => path,
            _ => {
                let text = format!(
                    "'{named}' is no cgroup's folder: expected one below {}, not that itself",
                    root.display()
                );
                return Err(Refusal::new(Errno::EINVAL, text));
            }
        };
        // What is a folder there, and no link, is a cgroup.
        let folder = fs::symlink_metadata(root.join(path)).ok();
        let Some(folder) = folder.filter(fs::Metadata::is_dir) else {
            let text = format!("there is no cgroup {path} below {}", root.display());
            return Err(Refusal::new(Errno::ENOENT, text));
        };
        if peer.uid != 0 && folder.uid() != peer.uid {
            let text = format!(
                "cgroup {path} belongs to user {}: reserve for your own, or as root",
                folder.uid()
            );
            return Err(Refusal::new(Errno::EPERM, text));
        }
        let (path, id) = (path.to_owned(), folder.ino());
        Ok(Target::Cgroup { path, id })
    }

    /// CPU time that all who are or were in a cgroup have had, in nanoseconds.
    pub fn cgroup_ran_ns(&self, path: &str) -> Option<u64> {
        let text = procfs::read_text(&self.cgroups().join(path).join("cpu.stat"))?;
        let usage = text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(usage.trim().parse::<u64>().ok()?.saturating_mul(1000))
    }

    /// Finds what `peer` calls `number`; 0 is the process itself. Users may name their own processes, root all.
    ///
    /// # Errors
    /// ESRCH when there is none, EPERM for a stranger's, EINVAL for a negative number and for a thread of the kernel's.
    pub fn target(&self, peer: &Peer, number: i32, scope: Scope) -> Result<Target, Refusal> {
        self.look(peer, number, scope)?.named_by(peer)
    }

    /// The same, for whoever may be named by anybody.
    pub(crate) fn look(&self, peer: &Peer, number: i32, scope: Scope) -> Result<Seen, Refusal> {
        if number < 0 {
            let text = format!(
                "{number} is no process or thread: expected its number, or 0 for this process"
            );
            return Err(Refusal::new(Errno::EINVAL, text));
        }
        let number = self.number_of(peer, number)?;
        let gone = || {
            let text = format!("there is no process or thread {number}");
            Refusal::new(Errno::ESRCH, text)
        };
        let is_asker = number == peer.pid && scope == Scope::Any && peer.descriptor.is_some();
        match is_asker {
            true => self.asker(peer),
            false => self
                .known(number, scope)
                .or_else(|| self.anybody(number, scope))
                .ok_or_else(gone),
        }
    }

    /// The process that asks. The kernel says whether it still is that: only its owner can be another one than it was.
    fn asker(&self, peer: &Peer) -> Result<Seen, Refusal> {
        let told = peer.descriptor.as_ref().and_then(known::owners);
        let owner = match told {
            Some([owner, ..]) => Some(i64::from(owner)),
            None => Status::read(&self.folder(peer.pid)).and_then(|status| status.number("Uid:")),
        };
        self.still_the_same(peer)?;
        Ok(Seen {
            target: Target::Process {
                pid: peer.pid,
                start: peer.start,
            },
            owner: owner.unwrap_or(NOBODY),
            is_kernels: false,
        })
    }

    /// One that was looked at before, or is from now on; `None`: that is to be tried otherwise.
    fn known(&self, number: i32, scope: Scope) -> Option<Seen> {
        let (it, facts) = self.facts_of(number)?;
        let Facts { pid, start, .. } = facts;
        let tid = number;
        let target = match (pid == number, scope) {
            (true, Scope::Any) => Target::Process { pid, start },
            // It may have ended before the others, which only its file tells.
            (true, Scope::Thread) if !self.lives(pid, Thread { tid, start }) => return None,
            _ => Target::Thread { pid, tid, start },
        };
        let [owner, ..] = known::owners(&it)?;
        Some(Seen {
            target,
            owner: i64::from(owner),
            is_kernels: facts.is_kernels,
        })
    }

    fn anybody(&self, number: i32, scope: Scope) -> Option<Seen> {
        let folder = self.folder(number);
        let first = Stat::of(&folder)?;
        let status = Status::read(&folder)?;
        // All that was read was about one process, not about another one as well that has got its number meanwhile.
        let last = Stat::of(&folder).filter(|last| last.start == first.start)?;
        let pid = i32::try_from(status.number("Tgid:")?).ok()?;
        let (tid, start) = (number, last.start);
        let target = match pid == number && scope == Scope::Any {
            true => Target::Process { pid, start },
            false if last.has_ended() => return None,
            false => Target::Thread { pid, tid, start },
        };
        Some(Seen {
            target,
            owner: status.number("Uid:")?,
            is_kernels: last.is_kernels(),
        })
    }

    /// True while the number means the same process or thread.
    pub fn exists(&self, target: &Target) -> bool {
        match target {
            Target::Process { pid, start } => {
                let lives = |tid: &i32| self.living_thread(*pid, *tid).is_some();
                self.is_process(*pid, *start) && self.all_threads(*pid).iter().any(lives)
            }
            Target::Thread { pid, tid, start } => {
                let (tid, start) = (*tid, *start);
                self.lives(*pid, Thread { tid, start })
            }
            Target::Cgroup { path, id } => {
                let folder = fs::symlink_metadata(self.cgroups().join(path));
                folder.is_ok_and(|folder| folder.ino() == *id)
            }
            Target::Group { .. } => true,
        }
    }

    /// Whether process `pid` is the one that began at `start`.
    pub(crate) fn is_process(&self, pid: i32, start: u64) -> bool {
        procfs::start_time(&self.folder(pid)) == Some(start)
    }

    /// How many threads are in a cgroup now.
    pub fn threads_in(&self, path: &str) -> usize {
        let text = procfs::read_text(&self.cgroups().join(path).join("cgroup.threads"));
        text.unwrap_or_default().lines().count()
    }

    /// The parents of all processes: read once, for all that ask.
    pub fn families(&self) -> Families {
        let mut children: HashMap<i32, Vec<(i32, u64)>> = HashMap::new();
        for child in numbers_in(self.root()) {
            if let Some((parent, start)) = procfs::parent_and_start(&self.folder(child)) {
                children.entry(parent).or_default().push((child, start));
            }
        }
        Families { children }
    }

    /// Those that process `pid` and its children have started from `since` on, in clock ticks after boot, and when they
    /// began, as far as that can still be told: a process that init has adopted is nobody's any more.
    pub fn processes_below(&self, pid: i32, families: &Families, since: u64) -> Vec<(i32, u64)> {
        let mut processes = Vec::new();
        let mut seen = BTreeSet::from([pid]);
        let mut left = vec![pid];
        while let Some(parent) = left.pop() {
            for (child, start) in families.children.get(&parent).into_iter().flatten() {
                if *start >= since && seen.insert(*child) {
                    processes.push((*child, *start));
                    left.push(*child);
                }
            }
        }
        processes
    }

    /// All processes.
    pub(crate) fn all(&self) -> BTreeSet<i32> {
        numbers_in(self.root()).into_iter().collect()
    }

    /// All threads of a process, the dead ones that nobody has waited for among them.
    pub(crate) fn all_threads(&self, pid: i32) -> Vec<i32> {
        numbers_in(&self.folder(pid).join("task"))
    }

    pub(crate) fn living_threads(&self, pid: i32) -> Vec<Thread> {
        let all = self.all_threads(pid).into_iter();
        all.filter_map(|tid| self.living_thread(pid, tid)).collect()
    }

    /// What the process calls itself, or where the cgroup is; for display.
    pub fn command(&self, target: &Target) -> String {
        match target {
            Target::Cgroup { path, .. } => {
                return path.chars().filter(|c| !c.is_control()).collect()
            }
            Target::Group { file, group, .. } => return format!("{file}/{group}"),
            Target::Process { .. } | Target::Thread { .. } => {}
        }
        let name = procfs::read_text(&self.folder(target.number()).join("comm"));
        let name = name.unwrap_or_default();
        name.trim_end()
            .chars()
            .filter(|c| !c.is_control())
            .collect()
    }

    fn folder(&self, number: i32) -> std::path::PathBuf {
        self.root().join(number.to_string())
    }
}

fn numbers_in(folder: &std::path::Path) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Peer {
        let uid = nix::unistd::getuid().as_raw();
        Processes::default()
            .peer(std::process::id() as i32, uid)
            .unwrap()
    }

    #[test]
    fn a_number_means_a_process_or_one_of_its_threads() {
        let processes = Processes::default();
        let (peer, tid) = (own(), nix::unistd::gettid().as_raw());
        let process = processes.target(&peer, 0, Scope::Any).unwrap();
        assert_eq!(
            processes.target(&peer, peer.pid, Scope::Any),
            Ok(process.clone())
        );
        assert!(matches!(process, Target::Process { .. }));
        let thread = processes.target(&peer, tid, Scope::Any).unwrap();
        // Tests run in threads of their own.
        assert!(matches!(thread, Target::Thread { pid, .. } if pid == peer.pid));
        let first = processes.target(&peer, peer.pid, Scope::Thread).unwrap();
        assert!(matches!(first, Target::Thread { tid, .. } if tid == peer.pid));
        assert!(processes.exists(&process) && processes.exists(&thread));
    }

    #[test]
    fn children_are_found() {
        let processes = Processes::default();
        let me = own().pid;
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let families = processes.families();
        let all = processes.processes_below(me, &families, 0);
        let later = processes.processes_below(me, &families, processes.now_ticks() + 1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(all.iter().any(|(pid, _)| *pid == child.id() as i32));
        assert_eq!(later, []);
    }

    #[test]
    fn a_first_thread_that_has_ended_before_the_others_is_nobody() {
        let script = format!(
            "import ctypes, threading, time\n\
             threading.Thread(target=time.sleep, args=[60]).start()\n\
             ctypes.CDLL(None).syscall({}, 0)",
            nix::libc::SYS_exit
        );
        let mut child = std::process::Command::new("python3")
            .args(["-c", &script])
            .spawn()
            .unwrap();
        let (processes, pid) = (Processes::default(), child.id() as i32);
        let named = |scope| {
            let target = processes.target(&own(), pid, scope);
            target.map_err(|refusal| refusal.errno)
        };
        let living = named(Scope::Thread);
        while !Stat::of(&processes.folder(pid)).unwrap().has_ended() {
            std::thread::yield_now();
        }
        let (process, thread) = (named(Scope::Any), named(Scope::Thread));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(living.is_ok_and(|target| matches!(target, Target::Thread { .. })));
        assert!(process.is_ok_and(|target| matches!(target, Target::Process { .. })));
        assert_eq!(thread, Err(Errno::ESRCH));
    }

    #[test]
    fn threads_of_the_kernel_are_refused() {
        let folder = std::env::temp_dir().join(format!("consort-kthread-{}", std::process::id()));
        let process = folder.join("2");
        fs::create_dir_all(process.join("task/2")).unwrap();
        let (between, after) = ("0 ".repeat(12), "0 ".repeat(18));
        let stat = format!("2 (kthreadd) S 0 0 0 0 -1 2129984 {between}5 {after}0 0\n");
        fs::write(process.join("task/2/stat"), stat).unwrap();
        fs::write(process.join("status"), "Tgid:\t2\nUid:\t0\t0\t0\t0\n").unwrap();
        // It asks about itself: the asker must be among the processes.
        let root = Peer {
            uid: 0,
            pid: 2,
            start: 5,
            ..own()
        };
        let refused = Processes::at(&folder).target(&root, 2, Scope::Any);
        fs::remove_dir_all(&folder).unwrap();
        let refusal = refused.unwrap_err();
        assert_eq!(refusal.errno, Errno::EINVAL);
        assert!(refusal.text.contains("kernel's"), "{}", refusal.text);
    }

    #[test]
    fn strangers_and_the_dead_are_refused() {
        let processes = Processes::default();
        let peer = Peer {
            uid: 4_000_000,
            ..own()
        };
        let errno = |number| {
            processes
                .target(&peer, number, Scope::Any)
                .unwrap_err()
                .errno
        };
        assert_eq!(errno(1), Errno::EPERM);
        assert_eq!(errno(-1), Errno::EINVAL);
        assert_eq!(errno(i32::MAX), Errno::ESRCH);
        let dead = Target::Process {
            pid: own().pid,
            start: own().start + 1,
        };
        assert!(!processes.exists(&dead));
    }
}
