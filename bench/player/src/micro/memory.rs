// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that the scheduler and its daemon spend on a thread, on a cgroup, or on a program that joined.
//!
//! The daemon is in a cgroup of its own, whose memory counters also have what the scheduler's maps hold, since
//! the kernel charges a map to whoever created it. What they gain while many threads, cgroups or programs appear elsewhere is the
//! price of those; what they have while there are none is that of the machine's CPUs, and of all that there is one of.

use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use crate::cooperative::Membership;
use crate::error::Error;
use crate::processes::{spawn, Child};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

const CGROUPS: &str = "/sys/fs/cgroup";
/// Threads sleep; they need next to no stack.
const STACK_BYTES: usize = 64 * 1024;
/// Time to start one program and let it join, within the daemon's limit of requests.
const PROGRAM_START_NS: u64 = 5 * NS_PER_MS;
/// The kernel gathers these counters every 2 s, and of 64 CPUs that count instructions in turns somewhat later.
const SETTLE_NS: u64 = 6 * NS_PER_S;
/// What is read of memory.stat: all kernel memory, and parts of it; and the daemon's own.
const COUNTERS: [&str; 6] = ["kernel", "slab", "vmalloc", "percpu", "sock", "anon"];

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Threads of one process, which do not join
    Threads,
    /// Empty cgroups whose weights count
    Cgroups,
    /// Processes that each join the domain
    Members,
    /// Nobody: what is charged anyway
    Idle,
}

#[derive(Args, Serialize)]
pub struct Options {
    #[arg(long, value_enum)]
    kind: Kind,
    #[arg(long, default_value_t = 200)]
    count: u64,
    /// The cgroup that the daemon was started in
    #[arg(long)]
    cgroup: PathBuf,
    #[command(flatten)]
    membership: Membership,
}

#[derive(Serialize)]
pub struct Memory {
    options: Options,
    /// Bytes for each thread, cgroup or program, by counter; of all, where there are none.
    bytes: BTreeMap<&'static str, f64>,
}

pub fn run(options: Options) -> Result<Memory, Error> {
    if options.count == 0 {
        return Err(Error::Usage("--count must be at least 1".into()));
    }
    let before = charged(&options.cgroup)?;
    let after = match options.kind {
        Kind::Idle => {
            return Ok(Memory {
                bytes: before
                    .iter()
                    .map(|(name, bytes)| (*name, *bytes as f64))
                    .collect(),
                options,
            })
        }
        Kind::Threads => with_threads(&options)?,
        Kind::Cgroups => with_cgroups(&options)?,
        Kind::Members => with_members(&options)?,
    };
    let per_item = |name: &'static str| {
        let growth = after[name] as f64 - before[name] as f64;
        (name, growth / options.count as f64)
    };
    Ok(Memory {
        bytes: COUNTERS.into_iter().map(per_item).collect(),
        options,
    })
}

fn with_threads(options: &Options) -> Result<BTreeMap<&'static str, u64>, Error> {
    let mut releases = Vec::new();
    for _ in 0..options.count {
        let (release, wait) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            // An error means that the sender is gone, which is the signal to end.
            .spawn(move || wait.recv().is_ok())
            .map_err(|source| Error::io("start a thread", source))?;
        releases.push((release, thread));
    }
    let charged = charged(&options.cgroup);
    for (release, thread) in releases {
        drop(release);
        // A thread that only waited cannot have panicked.
        let _ = thread.join();
    }
    charged
}

fn with_cgroups(options: &Options) -> Result<BTreeMap<&'static str, u64>, Error> {
    let root = Path::new(CGROUPS);
    // Without this controller cgroups have no weights, and the scheduler makes no queues for them.
    let control = root.join("cgroup.subtree_control");
    std::fs::write(&control, "+cpu")
        .map_err(|source| Error::io(format!("write to {}", control.display()), source))?;
    let paths: Vec<PathBuf> = (0..options.count)
        .map(|index| root.join(format!("bench-memory-{index}")))
        .collect();
    let made = paths.iter().try_for_each(|path| {
        std::fs::create_dir(path)
            .map_err(|source| Error::io(format!("make {}", path.display()), source))
    });
    let charged = made.and_then(|()| charged(&options.cgroup));
    for path in paths.iter().filter(|path| path.exists()) {
        std::fs::remove_dir(path)
            .map_err(|source| Error::io(format!("remove {}", path.display()), source))?;
    }
    charged
}

fn with_members(options: &Options) -> Result<BTreeMap<&'static str, u64>, Error> {
    let begin_ns = now_ns();
    let all_joined_ns = begin_ns + options.count * PROGRAM_START_NS;
    let mut members: Vec<Child<()>> = Vec::new();
    for index in 0..options.count {
        sleep_until_ns(begin_ns + index * PROGRAM_START_NS);
        members.push(spawn(|| {
            let member = options.membership.join(NS_PER_MS)?;
            sleep_until_ns(all_joined_ns + 2 * SETTLE_NS);
            drop(member);
            Ok(())
        })?);
    }
    sleep_until_ns(all_joined_ns);
    let charged = charged(&options.cgroup);
    for member in members {
        member.wait()?;
    }
    charged
}

/// What the cgroup is charged for, in bytes, once the kernel has gathered it.
fn charged(cgroup: &Path) -> Result<BTreeMap<&'static str, u64>, Error> {
    sleep_until_ns(now_ns() + SETTLE_NS);
    let path = cgroup.join("memory.stat");
    let text = std::fs::read_to_string(&path)
        .map_err(|source| Error::io(format!("read {}", path.display()), source))?;
    let value = |name: &'static str| {
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(key, _)| *key == name)
            .and_then(|(_, bytes)| bytes.parse().ok())
            .map(|bytes| (name, bytes))
            .ok_or_else(|| Error::Usage(format!("{} has no counter {name}", path.display())))
    };
    COUNTERS.into_iter().map(value).collect()
}
