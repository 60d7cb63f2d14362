// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dumps: what the kernel and the scheduler said of each CPU and task when the scheduler was ejected. The last few are
//! kept as files, in a folder beside the socket that only the daemon's user may look into.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use consort_kernel::ExitReport;

/// Each has at most 33 KiB.
const KEPT: usize = 8;

/// Writes the report into a file of its own, whose path it returns, and removes the oldest ones.
///
/// # Errors
/// When the folder or the file cannot be made.
pub fn keep(socket: &Path, report: &ExitReport) -> io::Result<PathBuf> {
    let folder = socket.with_extension("ejections");
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let millis = since_1970.map_or(0, |since| since.as_millis());
    // As wide as it will be for centuries: the order of names is that of time.
    let path = folder.join(format!("{millis:014}.txt"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)?;
    writeln!(file, "{report}\n\n{}", report.dump)?;
    remove_oldest(&folder)?;
    Ok(path)
}

fn remove_oldest(folder: &Path) -> io::Result<()> {
    let entries = fs::read_dir(folder)?.flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let surplus = paths.len().saturating_sub(KEPT);
    paths.iter().take(surplus).try_for_each(fs::remove_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let folder = std::env::temp_dir().join(format!("consort-dumps-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("consort.sock");
        let mut paths = Vec::new();
        for number in 0..KEPT + 3 {
            let report = ExitReport {
                kind: 1026,
                exit_code: 0,
                reason: "runnable task stall".to_owned(),
                message: format!("number {number}"),
                dump: "CPU states".to_owned(),
            };
            paths.push(keep(&socket, &report).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let there: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!(there[..3], [false; 3]);
        assert_eq!(there[3..], [true; KEPT]);
        let text = fs::read_to_string(paths.last().unwrap()).unwrap();
        assert!(
            text.contains("number 10") && text.contains("CPU states"),
            "{text}"
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
