// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which programs can meet: those that number segments, and count time, alike.
//!
//! Problem  Containers may share a directory, and neither the numbers of segments (IPC namespaces) nor CLOCK_MONOTONIC (time
//!          namespaces). Each would find the other's file to name nothing, and replace it, for ever; or wait for times that are
//!          hours away for the others.
//! Rule     Files are of two namespaces, by their names. The machine's own, which almost all programs have, need none.

use std::fs;
use std::os::unix::fs::MetadataExt;

const SUFFIX: &str = ".domain";
/// The machine's own namespaces have these numbers on every kernel that has any.
const OWN_IPC: u64 = 0xefff_ffff;
const OWN_TIME: u64 = 0xefff_fffa;

/// How the names of files end that are for the calling thread's namespaces.
pub fn suffix() -> String {
    // The thread's own: others of its process may have left theirs. What is not known is the machine's own.
    let number = |kind: &str, own: u64| {
        let space = fs::metadata(format!("/proc/thread-self/ns/{kind}"));
        space.map_or(own, |file| file.ino())
    };
    suffix_of(number("ipc", OWN_IPC), number("time", OWN_TIME))
}

fn suffix_of(ipc: u64, time: u64) -> String {
    match (ipc, time) {
        (OWN_IPC, OWN_TIME) => SUFFIX.to_owned(),
        _ => format!("{SUFFIX}-{ipc:x}-{time:x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_namespaces_has_files_of_its_own() {
        let pairs = [
            (OWN_IPC, OWN_TIME),
            (OWN_IPC, 0x12),
            (0x12, OWN_TIME),
            (0x12, 0x34),
        ];
        let suffixes = pairs.map(|(ipc, time)| suffix_of(ipc, time));
        assert_eq!(suffixes[0], ".domain");
        for (i, one) in suffixes.iter().enumerate() {
            assert!(suffixes[..i].iter().all(|other| !one.ends_with(other)));
        }
    }
}
