// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the processes of the heavy load do, each for ever. They are where the disk is the whole file system.

use consort_bench_player::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// On the disk, and the same folder's like over NFS.
pub const ON_DISK: &str = "/work/local";
pub const OVER_NFS: &str = "/work/mounted";
const WRITTEN: &str = "/work/written/file";
const COMPILER: &str = "/usr/bin/gcc";
const CHUNK_BYTES: usize = 64 << 10;
const FILE_CHUNKS: usize = 64;
/// Without questions, and nothing remembered.
const SSH: &[&str] = &[
    "-F",
    "/dev/null",
    "-i",
    "/run/key",
    "-o",
    "BatchMode=yes",
    "-o",
    "StrictHostKeyChecking=no",
    "-o",
    "UserKnownHostsFile=/dev/null",
    "-o",
    "LogLevel=ERROR",
    "127.0.0.1",
    "cat >/dev/null",
];

/// Compiles all of a folder's sources, one file after the other, again and again; counts files.
pub fn compile(folder: &str, done: &AtomicU64) -> Result<(), Error> {
    let sources = sources_in(&Path::new(folder).join("source"))?;
    let object = Path::new(folder).join("object.o");
    for source in sources.iter().cycle() {
        let status = Command::new(COMPILER)
            .args(["-c", "-o"])
            .arg(&object)
            .arg(source)
            .stdin(Stdio::null())
            .status()
            .map_err(|source| Error::io(format!("start {COMPILER}"), source))?;
        if !status.success() {
            return Err(Error::Usage(format!(
                "{COMPILER} could not compile {} ({status}); its message is above",
                source.display()
            )));
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    Err(Error::Usage(format!("there is nothing to compile in {folder}/source; bench/heavy/make-disk --force makes the disk anew")))
}

/// The small ones first, so that some are done in a short look, too; the same order in every run.
fn sources_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = |source| Error::io(format!("read {}", folder.display()), source);
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            let bytes = path.metadata().map_err(read)?.len();
            sources.push((bytes, path));
        }
    }
    sources.sort();
    Ok(sources.into_iter().map(|(_, path)| path).collect())
}

/// Copies to the same machine through ssh, as fast as it takes it; counts bytes that it took.
pub fn copy(done: &AtomicU64) -> Result<(), Error> {
    let mut ssh = Command::new("/usr/bin/ssh")
        .args(SSH)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|source| Error::io("start /usr/bin/ssh", source))?;
    let mut input = ssh
        .stdin
        .take()
        .ok_or_else(|| Error::Usage("ssh has no standard input".into()))?;
    let chunk = vec![0; CHUNK_BYTES];
    loop {
        input
            .write_all(&chunk)
            .map_err(|source| Error::io("write to ssh (its message is above)", source))?;
        done.fetch_add(CHUNK_BYTES as u64, Ordering::Relaxed);
    }
}

/// Writes the same file anew, again and again; counts bytes that are on the disk.
pub fn write(done: &AtomicU64) -> Result<(), Error> {
    let chunk = vec![1; CHUNK_BYTES];
    loop {
        File::create(WRITTEN)
            .and_then(|mut file| {
                for _ in 0..FILE_CHUNKS {
                    file.write_all(&chunk)?;
                }
                file.sync_all()
            })
            .map_err(|source| Error::io(format!("write {WRITTEN}"), source))?;
        done.fetch_add((FILE_CHUNKS * CHUNK_BYTES) as u64, Ordering::Relaxed);
    }
}
