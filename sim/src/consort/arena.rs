// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler's memory: one range of addresses, in pages that are had and given back. Given back pages are not used
//! again in the same run, and must stay as they were left: whoever writes to one is found out.

use crate::error::Error;
use std::sync::Mutex;

const PAGE_BYTES: usize = 4096;
/// As much as the scheduler's map allows.
const PAGES_MAX: usize = 1 << 18;

pub(super) struct Arena {
    base: usize,
    used_pages: usize,
    /// Beginnings and lengths in pages.
    freed: Vec<(usize, usize)>,
    /// Pages that the scheduler has right now.
    held_pages: usize,
    /// What it had when it was started, before the first task.
    at_start_pages: usize,
}

static ARENA: Mutex<Option<Arena>> = Mutex::new(None);

fn with<T>(work: impl FnOnce(&mut Arena) -> T) -> Option<T> {
    let mut arena = ARENA
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    arena.as_mut().map(work)
}

impl Arena {
    /// All pages are free, and zero.
    ///
    /// # Errors
    /// No range of addresses to be had.
    pub fn reset() -> Result<(), Error> {
        let mut arena = ARENA
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match arena.as_mut() {
            Some(arena) => arena.clear(),
            None => *arena = Some(Self::map()?),
        }
        Ok(())
    }

    fn map() -> Result<Self, Error> {
        // SAFETY: a new mapping, wherever there is room.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGES_MAX * PAGE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Error::System {
                doing: "reserve addresses for the scheduler's memory".to_owned(),
                source: std::io::Error::last_os_error(),
            });
        }
        Ok(Self {
            base: base as usize,
            used_pages: 0,
            freed: Vec::new(),
            held_pages: 0,
            at_start_pages: 0,
        })
    }

    fn clear(&mut self) {
        // SAFETY: part of our own mapping; the scheduler is between two runs.
        unsafe {
            libc::madvise(
                self.base as *mut libc::c_void,
                self.used_pages * PAGE_BYTES,
                libc::MADV_DONTNEED,
            );
        }
        self.used_pages = 0;
        self.freed.clear();
        self.held_pages = 0;
    }

    /// Zeroed pages; none when all have been used.
    pub fn allocate(pages: u32) -> Option<usize> {
        with(|arena| {
            let pages = pages as usize;
            if pages == 0 || arena.used_pages + pages > PAGES_MAX {
                return None;
            }
            let at = arena.base + arena.used_pages * PAGE_BYTES;
            arena.used_pages += pages;
            arena.held_pages += pages;
            Some(at)
        })
        .flatten()
    }

    /// False: these pages were not given out as they are given back.
    pub fn free(at: usize, pages: u32) -> bool {
        with(|arena| {
            let end = arena.base + arena.used_pages * PAGE_BYTES;
            let pages = pages as usize;
            let is_ours = at >= arena.base && at + pages * PAGE_BYTES <= end && pages > 0;
            let overlaps = |(start, length): &(usize, usize)| {
                at < start + length * PAGE_BYTES && *start < at + pages * PAGE_BYTES
            };
            if !is_ours || arena.freed.iter().any(overlaps) {
                return false;
            }
            // SAFETY: part of our own mapping. In the kernel, too, what is read there from now on is zero.
            unsafe { std::ptr::write_bytes(at as *mut u8, 0, pages * PAGE_BYTES) };
            arena.freed.push((at, pages));
            arena.held_pages -= pages;
            true
        })
        .unwrap_or(false)
    }

    /// What is had now is what is had always.
    pub fn mark_start() {
        with(|arena| arena.at_start_pages = arena.held_pages);
    }

    /// What the scheduler has not given back although `tasks` tasks are all that there ever were; or where it has
    /// written to what it had given back.
    pub fn leak(tasks: usize) -> Option<String> {
        with(|arena| {
            let kept = arena.held_pages - arena.at_start_pages;
            // Tasks' memory is kept in a pool: a page holds several.
            if kept > tasks {
                return Some(format!("{kept} pages are kept for {tasks} tasks"));
            }
            arena.freed.iter().find_map(|(at, pages)| {
                // SAFETY: part of our own mapping.
                let bytes =
                    unsafe { std::slice::from_raw_parts(*at as *const u8, pages * PAGE_BYTES) };
                let offset = bytes.iter().position(|byte| *byte != 0)?;
                Some(format!(
                    "memory of {pages} pages was written to after it was given back, at offset {offset}"
                ))
            })
        })
        .flatten()
    }
}
