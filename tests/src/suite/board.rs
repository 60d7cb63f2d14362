// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that a role shows to its test while it runs: shared memory, so that looking costs the role nothing.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};

/// Names the file in a role's environment.
pub const VARIABLE: &str = "CONSORT_TEST_BOARD";
const FIELDS: usize = 16;

/// What a number means.
#[derive(Clone, Copy, Debug)]
pub enum Field {
    /// 1 when the role does what it is for.
    Ready,
    /// Units of work, requests, rounds: whatever the role counts.
    Work,
    Polls,
    /// Polls that found the due event expired.
    Served,
    /// 1 outside, 2 member, 3 demoted.
    Standing,
    /// Times that `Standing` was demoted when looked at.
    Demotions,
    Errors,
    /// Set by the test: what the role is to do next.
    Command,
    /// Set by the role: the last command that it has done.
    Done,
    /// For the role's own purpose.
    Extra,
    /// By how much its due events were late, summed up, in nanoseconds.
    Late,
    /// Due events that were later than the role was told they may be.
    Overdue,
}

pub struct Board {
    path: PathBuf,
    numbers: NonNull<[AtomicU64; FIELDS]>,
    owned: bool,
}

impl Board {
    /// A new board for a role; its file goes with it.
    pub fn create(path: &Path) -> Result<Board, String> {
        let failed =
            |error: std::io::Error| format!("cannot make the board {}: {error}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(failed)?;
        file.set_len(4096).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(failed)?;
        Board::map(path, &file, true)
    }

    /// The board of this role; a role that is started by hand has one of its own.
    pub fn of_this_role() -> Result<Board, String> {
        let Some(path) = std::env::var_os(VARIABLE) else {
            return Board::create(&PathBuf::from(format!("/tmp/board.{}", std::process::id())));
        };
        let path = PathBuf::from(path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| format!("cannot open the board {}: {error}", path.display()))?;
        Board::map(&path, &file, false)
    }

    fn map(path: &Path, file: &File, owned: bool) -> Result<Board, String> {
        let length = std::num::NonZeroUsize::new(4096).ok_or("no length")?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, file, 0) }
            .map_err(|errno| format!("cannot map the board: {errno}"))?;
        Ok(Board {
            path: path.to_owned(),
            numbers: at.cast(),
            owned,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn number(&self, field: Field) -> &AtomicU64 {
        // SAFETY: mapped for as long as the board lives, and large enough; atomics may be shared.
        let numbers = unsafe { self.numbers.as_ref() };
        &numbers[field as usize]
    }

    pub fn get(&self, field: Field) -> u64 {
        self.number(field).load(Ordering::SeqCst)
    }

    pub fn set(&self, field: Field, value: u64) {
        self.number(field).store(value, Ordering::SeqCst);
    }

    pub fn add(&self, field: Field, value: u64) {
        self.number(field).fetch_add(value, Ordering::SeqCst);
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and no reference outlives the board.
        let _ = unsafe { munmap(self.numbers.cast(), 4096) };
        if self.owned {
            let _ = fs::remove_file(&self.path);
        }
    }
}

// SAFETY: only atomics are behind the pointer.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}
