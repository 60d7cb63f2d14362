// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs share a last-level cache: each such set is a shard with run queues of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use crate::{skeleton::interface::CPUS_MAX, Error};

/// The folder in which the kernel describes its CPUs.
const CPU_FOLDER: &str = "/sys/devices/system/cpu";

/// CPU number to shard number; shards are numbered from 0 in the order of their first CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Indexed by CPU number, one entry for each CPU that there is room for.
    pub shard_of_cpu: Vec<u32>,
    pub shards: u32,
    /// How many CPUs may ever be there.
    pub possible: u32,
    /// How many CPUs are there, online or not; the others may be plugged in.
    pub present: u32,
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
        let possible = read_cpu_list(&folder.join("possible"))?;
        let present = read_cpu_list(&folder.join("present"))?;
        let count_of = |cpus: &BTreeSet<u32>| cpus.last().map_or(1, |last| *last + 1);
        let count = room_for(count_of(&present)).min(count_of(&possible));
        let mut shard_of_first = BTreeMap::new();
        let mut shard_of_cpu = Vec::with_capacity(count as usize);
        for cpu in 0..count {
            // A CPU whose caches are unknown (offline at boot, or a machine without the files) joins
            // the first shard: it still has run queues, only placement is worse. Those that are not there have a shard
            // of their own: in another one, no set of CPUs that are there would be all of it.
            let first = match present.contains(&cpu) {
                true => Some(last_level_cache_first_cpu(folder, cpu).unwrap_or(0)),
                false => None,
            };
            let next = shard_of_first.len() as u32;
            shard_of_cpu.push(*shard_of_first.entry(first).or_insert(next));
        }
        Ok(Topology {
            shard_of_cpu,
            shards: shard_of_first.len() as u32,
            possible: possible.len() as u32,
            present: present.len() as u32,
        })
    }

    /// The least power of two that is no less than the number of CPUs that there is room for, minus one: so long are
    /// arrays that have an entry for each.
    pub(crate) fn cpu_mask(&self) -> u32 {
        (self.shard_of_cpu.len() as u32).next_power_of_two() - 1
    }
}

/// CPUs that come are numbered from where those end that are there. As many may come, and at least some, before the
/// scheduler has to be loaded anew.
fn room_for(cpus: u32) -> u32 {
    const ROOM_LEAST: u32 = 8;
    (2 * cpus).clamp(ROOM_LEAST, CPUS_MAX).max(cpus)
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

fn read_cpu_list(file: &Path) -> Result<BTreeSet<u32>, Error> {
    let list = fs::read_to_string(file)
        .map_err(|e| Error::system(format!("cannot read {}", file.display()), e))?;
    let cpus = parse_cpu_list(&list).ok_or_else(|| {
        let text = format!("not a list of CPUs: {list:?}");
        let invalid = io::Error::new(io::ErrorKind::InvalidData, text);
        Error::system(format!("cannot use {}", file.display()), invalid)
    })?;
    Ok(cpus.into_iter().collect())
}

/// Parses the kernel's list format: `0-3,8,10-11`. `None` when it is malformed, empty or absurdly large.
fn parse_cpu_list(list: &str) -> Option<Vec<u32>> {
    const NUMBER_MAX: u32 = 8192;
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= NUMBER_MAX {
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

    fn folder(name: &str, possible: &str, present: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("consort-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("possible"), possible).unwrap();
        fs::write(folder.join("present"), present).unwrap();
        folder
    }

    #[test]
    fn cpus_that_share_the_highest_cache_share_a_shard() {
        let folder = folder("two-caches", "0-4\n", "0-4\n");
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
        let folder = folder("no-caches", "0-63\n", "0-63\n");
        let topology = Topology::read_from(&folder).unwrap();
        assert_eq!(topology.shard_of_cpu, [0; 64]);
        assert_eq!(topology.shards, 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn cpus_that_are_not_there_have_a_shard_of_their_own() {
        let folder = folder("absent", "0-6\n", "0-1,3\n");
        let topology = Topology::read_from(&folder).unwrap();
        assert_eq!(topology.shard_of_cpu, [0, 0, 1, 0, 1, 1, 1]);
        assert_eq!((topology.shards, topology.present), (2, 3));
        assert_eq!((topology.possible, topology.cpu_mask()), (7, 7));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn there_is_room_for_as_many_as_are_there_again() {
        for (present, room) in [
            ("0", 8),
            ("0-3", 8),
            ("0-5", 12),
            ("0,9", 20),
            ("0-799", 1024),
            ("0-1100", 1101),
        ] {
            let folder = folder("many", "0-2047\n", present);
            let topology = Topology::read_from(&folder).unwrap();
            assert_eq!(topology.shard_of_cpu.len(), room, "{present}");
            assert_eq!(topology.possible, 2048);
            fs::remove_dir_all(folder).unwrap();
        }
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
