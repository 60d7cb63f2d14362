// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine that tests run on: its scheduler, CPUs, cgroups and the kernel's log.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

pub const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// From Linux 7 on: what the kernel leaves of a CPU to tasks of the scheduler beside higher classes.
pub const EXT_SERVER: &str = "/sys/kernel/debug/sched/ext_server/cpu0/runtime";

/// "enabled", "disabled", "enabling", "disabling".
pub fn scheduler_state() -> String {
    match fs::read_to_string("/sys/kernel/sched_ext/state") {
        Ok(text) => text.trim().to_owned(),
        Err(error) => format!("unreadable: {error}"),
    }
}

/// How often a scheduler has been attached since boot.
pub fn attached() -> Result<u64, String> {
    let path = "/sys/kernel/sched_ext/enable_seq";
    let said = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    said.trim()
        .parse()
        .map_err(|_| format!("{path} says {said:?}"))
}

pub fn possible_cpus() -> usize {
    last_of("possible") + 1
}

/// Those that are there, online or not.
pub fn present_cpus() -> usize {
    last_of("present") + 1
}

fn last_of(list: &str) -> usize {
    let path = format!("/sys/devices/system/cpu/{list}");
    let cpus = fs::read_to_string(path).unwrap_or_default();
    let last = cpus.trim().rsplit(['-', ',']).next().unwrap_or_default();
    last.parse().unwrap_or_default()
}

pub fn set_cpu_online(cpu: usize, online: bool) -> Result<(), String> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    fs::write(&path, if online { "1" } else { "0" })
        .map_err(|error| format!("cannot write {path}: {error}"))
}

/// Whether the task is in the scheduler's class, as the kernel shows it.
pub fn is_under_sched_ext(pid: u32) -> Result<bool, String> {
    let path = format!("/proc/{pid}/sched");
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let line = text.lines().find(|line| line.starts_with("ext.enabled"));
    let value = line.and_then(|line| line.rsplit(':').next()).map(str::trim);
    match value {
        Some("1") => Ok(true),
        Some("0") => Ok(false),
        _ => Err(format!(
            "{path} does not say whether the task is under sched_ext: {line:?}"
        )),
    }
}

/// CPU time of a process in ns, all its threads included.
pub fn cpu_time_ns(pid: u32) -> Result<u64, String> {
    let folder = format!("/proc/{pid}/task");
    let threads =
        fs::read_dir(&folder).map_err(|error| format!("cannot read {folder}: {error}"))?;
    // One may end meanwhile.
    Ok(threads
        .flatten()
        .filter_map(|thread| time_in(&thread.path()))
        .sum())
}

/// CPU time of one thread of a process in ns.
pub fn thread_time_ns(pid: u32, tid: u32) -> Result<u64, String> {
    let folder = format!("/proc/{pid}/task/{tid}");
    time_in(Path::new(&folder)).ok_or_else(|| format!("cannot read the time of {folder}"))
}

fn time_in(thread: &Path) -> Option<u64> {
    let text = fs::read_to_string(thread.join("schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// The CPU that a process' main thread ran on last.
pub fn last_cpu(pid: u32) -> Result<usize, String> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let after_name = text.rsplit(") ").next().unwrap_or_default();
    // Field 39 of the file; the first one after the name is field 3.
    let cpu = after_name
        .split(' ')
        .nth(36)
        .and_then(|cpu| cpu.parse().ok());
    cpu.ok_or_else(|| format!("{path} has no CPU in it"))
}

/// A cgroup for a test; removed with it.
pub struct Cgroup(PathBuf);

impl Cgroup {
    pub fn create(parent: Option<&Cgroup>, name: &str) -> Result<Cgroup, String> {
        let parent = parent.map_or(Path::new(CGROUP_ROOT), |parent| &parent.0);
        let path = parent.join(name);
        fs::create_dir(&path)
            .map_err(|error| format!("cannot make the cgroup {}: {error}", path.display()))?;
        Ok(Cgroup(path))
    }

    /// Lets the groups inside compete by weight.
    pub fn divide(&self) -> Result<(), String> {
        self.write("cgroup.subtree_control", "+cpu")
    }

    pub fn set_weight(&self, weight: u32) -> Result<(), String> {
        self.write("cpu.weight", &weight.to_string())
    }

    /// cpu.idle, as what runs only when nobody else wants to.
    pub fn set_idle(&self, idle: bool) -> Result<(), String> {
        self.write("cpu.idle", if idle { "1" } else { "0" })
    }

    /// cpu.max: a quota and a period in microseconds, or `max`.
    pub fn set_max(&self, max: &str) -> Result<(), String> {
        self.write("cpu.max", max)
    }

    pub fn adopt(&self, pid: u32) -> Result<(), String> {
        self.write("cgroup.procs", &pid.to_string())
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.0.join(file);
        fs::write(&path, text)
            .map_err(|error| format!("cannot write {text:?} to {}: {error}", path.display()))
    }

    /// Removes the group, which must be empty.
    pub fn remove(&self) -> Result<(), String> {
        fs::remove_dir(&self.0)
            .map_err(|error| format!("cannot remove {}: {error}", self.0.display()))
    }
}

/// Moves a process to the root cgroup.
pub fn to_root_cgroup(pid: u32) -> Result<(), String> {
    let path = format!("{CGROUP_ROOT}/cgroup.procs");
    fs::write(&path, pid.to_string()).map_err(|error| format!("cannot write {path}: {error}"))
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Processes that are still in it go back to the root, so that the name is free for the next test.
        let members = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines() {
            let _ = fs::write(format!("{CGROUP_ROOT}/cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// Words by which the kernel says that something is broken.
const COMPLAINTS: [&str; 9] = [
    "WARNING:",
    "BUG:",
    "Oops",
    "soft lockup",
    "hard LOCKUP",
    "stall",
    "blocked for more than",
    "Out of memory",
    "sched_ext:",
];
/// What sched_ext says when all is well: a scheduler comes, and goes with its process, or by itself for one with more room.
const HARMLESS: [&str; 4] = [
    "\" enabled",
    "disabled (unregistered from user space)",
    "disabled (unregistered from BPF)",
    "disabled (disabled by sysrq-S)",
];

/// Whether the kernel says that it ejects a scheduler, or what it sees when a real-time task starves all others.
pub fn is_ejection(complaint: &str) -> bool {
    ["sched_ext:", "rcu: ", "rcu_preempt"]
        .iter()
        .any(|word| complaint.contains(word))
}

/// The kernel's messages from now on.
pub struct KernelLog(File);

impl KernelLog {
    pub fn open() -> Result<KernelLog, String> {
        let failed = |error| format!("cannot read the kernel's log: {error}");
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(KernelLog(file))
    }

    /// Complaints since the log was opened or last asked.
    pub fn complaints(&mut self) -> Vec<String> {
        let mut record = [0; 8192];
        let mut found = Vec::new();
        loop {
            match self.0.read(&mut record) {
                Ok(length) if length > 0 => {
                    let text = String::from_utf8_lossy(&record[..length]).into_owned();
                    let line = text
                        .lines()
                        .next()
                        .and_then(|line| line.split_once(';'))
                        .map_or("", |parts| parts.1);
                    let is_complaint = COMPLAINTS.iter().any(|word| line.contains(word));
                    if is_complaint && !HARMLESS.iter().any(|word| line.contains(word)) {
                        found.push(line.to_owned());
                    }
                }
                // Records that were overwritten before they were read.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                _ => return found,
            }
        }
    }
}
