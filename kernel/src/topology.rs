// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs share a last-level cache: each such set is a shard with run queues of its own.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use crate::Error;

/// The folder in which the kernel describes its CPUs.
const CPU_FOLDER: &str = "/sys/devices/system/cpu";

/// CPU number to shard number; shards are numbered from 0 in the order of their first CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Indexed by CPU number, one entry for each possible CPU.
    pub shard_of_cpu: Vec<u32>,
    pub shards: u32,
}

impl Topology {
    /// Reads the running machine's topology.
    ///
    /// # Errors
    /// When `/sys` does not say which CPUs are possible.
    pub fn read() -> Result<Self, Error> {
        Self::read_from(Path::new(CPU_FOLDER))
    }

    fn read_from(folder: &Path) -> Result<Self, Error> {
        let possible = folder.join("possible");
        let list = fs::read_to_string(&possible)
            .map_err(|e| Error::system(format!("cannot read {}", possible.display()), e))?;
        let cpus = parse_cpu_list(&list).ok_or_else(|| {
            let text = format!("not a list of CPUs: {list:?}");
            let invalid = io::Error::new(io::ErrorKind::InvalidData, text);
            Error::system(format!("cannot use {}", possible.display()), invalid)
        })?;
        let count = cpus.iter().max().map_or(1, |last| *last as usize + 1);
        let mut shard_of_first = BTreeMap::new();
        let mut shard_of_cpu = Vec::with_capacity(count);
        for cpu in 0..count as u32 {
            // A CPU whose caches are unknown (offline at boot, or a machine without the files) joins
            // the first shard: it still has run queues, only placement is worse.
            let first = last_level_cache_first_cpu(folder, cpu).unwrap_or(0);
            let next = shard_of_first.len() as u32;
            shard_of_cpu.push(*shard_of_first.entry(first).or_insert(next));
        }
        Ok(Topology {
            shard_of_cpu,
            shards: shard_of_first.len() as u32,
        })
    }
}

/// The lowest CPU that shares `cpu`'s highest cache level, which names the cache.
fn last_level_cache_first_cpu(folder: &Path, cpu: u32) -> Option<u32> {
    let caches = folder.join(format!("cpu{cpu}/cache"));
    let mut last: Option<(u32, PathBuf)> = None;
    for entry in fs::read_dir(caches).ok()?.flatten() {
        let index = entry.path();
        let Ok(level) = fs::read_to_string(index.join("level")) else {
            continue;
        };
        let Ok(level) = level.trim().parse::<u32>() else {
            continue;
        };
        if last.as_ref().is_none_or(|(highest, _)| level > *highest) {
            last = Some((level, index));
        }
    }
    let list = fs::read_to_string(last?.1.join("shared_cpu_list")).ok()?;
    parse_cpu_list(&list)?.into_iter().min()
}

/// Parses the kernel's list format: `0-3,8,10-11`. `None` when it is malformed, empty or absurdly large.
fn parse_cpu_list(list: &str) -> Option<Vec<u32>> {
    const CPUS_MAX: u32 = 8192;
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(folder: &Path, cpu: u32, index: u32, level: u32, shared: &str) {
        let index = folder.join(format!("cpu{cpu}/cache/index{index}"));
        fs::create_dir_all(&index).unwrap();
        fs::write(index.join("level"), format!("{level}\n")).unwrap();
        fs::write(index.join("shared_cpu_list"), format!("{shared}\n")).unwrap();
    }

    fn folder(name: &str, possible: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("consort-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("possible"), possible).unwrap();
        folder
    }

    #[test]
    fn cpus_that_share_the_highest_cache_share_a_shard() {
        let folder = folder("two-caches", "0-4\n");
        for (cpu, shared) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
            cache(&folder, cpu, 0, 1, &cpu.to_string());
            cache(&folder, cpu, 3, 3, shared);
        }
        let topology = Topology::read_from(&folder).unwrap();
        // CPU 4 has no cache files: it falls to the first shard.
        assert_eq!(topology.shard_of_cpu, [0, 1, 0, 1, 0]);
        assert_eq!(topology.shards, 2);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_machine_without_cache_files_is_one_shard() {
        let folder = folder("no-caches", "0-63\n");
        let topology = Topology::read_from(&folder).unwrap();
        assert_eq!(topology.shard_of_cpu, [0; 64]);
        assert_eq!(topology.shards, 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn malformed_lists_are_refused() {
        for list in ["", "x", "3-1", "0-", "0,,1", "0-99999999"] {
            assert_eq!(parse_cpu_list(list), None, "{list:?}");
        }
        assert_eq!(parse_cpu_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
    }

    #[test]
    fn a_missing_folder_names_the_file() {
        let error = Topology::read_from(Path::new("/nonexistent")).unwrap_err();
        assert!(
            error.to_string().contains("/nonexistent/possible"),
            "{error}"
        );
    }
}
