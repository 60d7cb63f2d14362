// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the parts of the heavy load have done. A part that silently stands still is none.

use consort_bench_player::error::Error;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How often the server of the network file system was called. Line `rpc`, first number.
const NFS_STATISTICS: &str = "/proc/net/rpc/nfsd";
const CPU_STATISTICS: &str = "/proc/stat";
/// Fields of the line `cpu` of [`CPU_STATISTICS`] in which nobody runs.
const IDLE_FIELDS: [usize; 2] = [3, 4];

/// Counters that the load's processes share; zero at first.
#[derive(Default)]
pub struct Counters {
    pub compiled_on_disk: AtomicU64,
    pub compiled_over_nfs: AtomicU64,
    pub copied_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
    /// That the load is to end.
    pub ending: AtomicBool,
}

impl Counters {
    /// In memory that children share.
    ///
    /// # Errors
    /// When there is none.
    pub fn shared() -> Result<&'static Self, Error> {
        // SAFETY: makes new memory, which nobody ever gives back.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Self>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(Error::last_os("make memory that processes share"));
        }
        // SAFETY: large enough, aligned to a page, and zeroes are atomics' zeroes.
        Ok(unsafe { &*memory.cast() })
    }
}

/// What was done so far, or between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// Files.
    compiled_on_disk: u64,
    compiled_over_nfs: u64,
    nfs_calls: u64,
    copied_bytes: u64,
    written_bytes: u64,
    /// Of all CPUs' time, for which nobody had work.
    idle_percent: f64,
    #[serde(skip)]
    idle_ticks: u64,
    #[serde(skip)]
    all_ticks: u64,
}

impl Progress {
    /// What was done so far.
    ///
    /// # Errors
    /// When the kernel does not say what it counts.
    pub fn now(counters: &Counters) -> Result<Self, Error> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let ticks = numbers_of(CPU_STATISTICS, "cpu ")?;
        let idle = |index: &usize| ticks.get(*index).copied().unwrap_or(0);
        Ok(Self {
            compiled_on_disk: count(&counters.compiled_on_disk),
            compiled_over_nfs: count(&counters.compiled_over_nfs),
            nfs_calls: numbers_of(NFS_STATISTICS, "rpc ")?
                .first()
                .copied()
                .unwrap_or(0),
            copied_bytes: count(&counters.copied_bytes),
            written_bytes: count(&counters.written_bytes),
            idle_percent: 0.0,
            idle_ticks: IDLE_FIELDS.iter().map(idle).sum(),
            all_ticks: ticks.iter().sum(),
        })
    }

    pub fn since(self, before: Self) -> Self {
        let idle_ticks = self.idle_ticks - before.idle_ticks;
        let all_ticks = self.all_ticks - before.all_ticks;
        Self {
            compiled_on_disk: self.compiled_on_disk - before.compiled_on_disk,
            compiled_over_nfs: self.compiled_over_nfs - before.compiled_over_nfs,
            nfs_calls: self.nfs_calls - before.nfs_calls,
            copied_bytes: self.copied_bytes - before.copied_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
            idle_percent: 100.0 * idle_ticks as f64 / all_ticks.max(1) as f64,
            idle_ticks,
            all_ticks,
        }
    }

    /// The first part that has not done more than `least` of it; bytes that are on their way are not done.
    pub fn standing(&self, least_copied: u64) -> Option<&'static str> {
        [
            (self.compiled_on_disk, 0, "compiling on the disk"),
            (self.compiled_over_nfs, 0, "compiling over NFS"),
            (self.nfs_calls, 0, "the server of NFS"),
            (self.copied_bytes, least_copied, "the copy over ssh"),
            (self.written_bytes, 0, "writing to the disk"),
        ]
        .into_iter()
        .find_map(|(done, least, name)| (done <= least).then_some(name))
    }
}

/// The numbers of a statistic's line that begins so.
fn numbers_of(path: &str, begin: &str) -> Result<Vec<u64>, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::io(format!("read {path}"), source))?;
    let line = text.lines().find_map(|line| line.strip_prefix(begin));
    let line =
        line.ok_or_else(|| Error::Usage(format!("{path} has no line that begins with '{begin}'")))?;
    Ok(line
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(numbers: [u64; 5], idle_ticks: u64, all_ticks: u64) -> Progress {
        Progress {
            compiled_on_disk: numbers[0],
            compiled_over_nfs: numbers[1],
            nfs_calls: numbers[2],
            copied_bytes: numbers[3],
            written_bytes: numbers[4],
            idle_percent: 0.0,
            idle_ticks,
            all_ticks,
        }
    }

    #[test]
    fn a_part_that_does_nothing_is_named() {
        let before = progress([3, 3, 300, 8 << 20, 5], 20, 100);
        let after = progress([4, 3, 400, 9 << 20, 6], 21, 200);
        let done = after.since(before);
        assert_eq!(done.idle_percent, 1.0);
        assert_eq!(done.standing(0), Some("compiling over NFS"));
        assert_eq!(after.standing(0), None);
        assert_eq!(after.standing(9 << 20), Some("the copy over ssh"));
    }

    #[test]
    fn the_kernel_says_for_how_long_nobody_ran() {
        assert!(numbers_of(CPU_STATISTICS, "cpu ").unwrap().len() > IDLE_FIELDS[1]);
        assert!(numbers_of(CPU_STATISTICS, "no such line").is_err());
    }
}
