// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's page, mapped.

use crate::layout::{
    consort_mapping, consort_page, Slot, Variables, MAGIC, MAPPING_BYTES, NEVER, PAGE_BYTES,
    PRIORITY_NONE, RUNNING, VERSION,
};
use crate::{fork_guard, Error};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// A mapping of the page that one connection brought, with the variables behind it if it has them. A forked child does not
/// inherit it.
pub struct Page {
    base: *mut consort_page,
    bytes: usize,
    owner: u64,
}

// SAFETY: the mapping is shared memory that is only accessed through atomics.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Maps the page behind the file descriptor that the daemon sent.
    pub fn map(file: OwnedFd) -> Result<Page, Error> {
        let page = Page::map_bytes(&file, PAGE_BYTES)?;
        page.check_header()?;
        match page.tells_of_variables() {
            true => Page::map_bytes(&file, MAPPING_BYTES),
            // Of a daemon that knows none: threads on its pages are on their own with them.
            false => Ok(page),
        }
    }

    fn map_bytes(file: &OwnedFd, bytes: usize) -> Result<Page, Error> {
        refuse_short_file(file, bytes)?;
        let owner = fork_guard::number()?;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Error::system("mmap of the page that the daemon sent"));
        }
        let page = Page {
            base: base.cast(),
            bytes,
            owner,
        };
        // SAFETY: the range was mapped above.
        if unsafe { libc::madvise(base, bytes, libc::MADV_DONTFORK) } != 0 {
            return Err(Error::system("madvise(MADV_DONTFORK)"));
        }
        Ok(page)
    }

    fn tells_of_variables(&self) -> bool {
        // SAFETY: as in `check_header`.
        let bytes = unsafe { &*(&raw const (*self.base).header.bytes).cast::<AtomicU32>() };
        bytes.load(Ordering::Relaxed) as usize >= MAPPING_BYTES
    }

    fn check_header(&self) -> Result<(), Error> {
        // SAFETY: the page is mapped and the header lies in it; u32 and AtomicU32 have one layout.
        let (magic, version) = unsafe {
            let header = &raw const (*self.base).header;
            (
                (*(&raw const (*header).magic).cast::<AtomicU32>()).load(Ordering::Relaxed),
                (*(&raw const (*header).version).cast::<AtomicU32>()).load(Ordering::Relaxed),
            )
        };
        if magic != MAGIC || version != VERSION {
            return Err(Error::protocol(format!(
                "page of magic {magic:#x} version {version}, {MAGIC:#x} version {VERSION} is expected"
            )));
        }
        Ok(())
    }

    /// False in a forked child of the process that has mapped it.
    pub fn is_mapped(&self) -> bool {
        fork_guard::word().is_ok_and(|word| word.load(Ordering::Relaxed) == self.owner)
    }

    /// 1 while the scheduler runs.
    pub fn attached(&self) -> &AtomicU32 {
        // SAFETY: as in `check_header`; the mapping lasts as long as `self`.
        unsafe { &*(&raw const (*self.base).header.attached).cast() }
    }

    /// The slot of that number. Panics if there is none such.
    pub fn slot(&self, number: usize) -> &Slot {
        // SAFETY: the mapping lasts as long as `self`, the index is checked, `Slot` has the layout of
        // `consort_slot` (asserted beside it).
        unsafe {
            let slots = &raw const (*self.base).slots;
            assert!(number < crate::layout::SLOTS);
            &*slots.cast::<Slot>().add(number)
        }
    }

    /// The variables beside the slot of that number; `None`: this daemon knows none. Panics if there is none such.
    pub fn variables(&self, number: usize) -> Option<&Variables> {
        if self.bytes < MAPPING_BYTES {
            return None;
        }
        // SAFETY: the whole mapping lasts as long as `self`, the index is checked, `Variables` has the layout of
        // `consort_variables` (asserted beside it).
        unsafe {
            let variables = &raw const (*self.base.cast::<consort_mapping>()).variables;
            assert!(number < crate::layout::SLOTS);
            Some(&*variables.cast::<Variables>().add(number))
        }
    }

    /// Clears what a previous thread published in the slot.
    pub fn reset_slot(&self, number: usize) {
        let slot = self.slot(number);
        slot.due_ns.store(NEVER, Ordering::Relaxed);
        slot.key.store(0, Ordering::Relaxed);
        slot.priority.store(PRIORITY_NONE, Ordering::Relaxed);
        slot.why.store(0, Ordering::Relaxed);
        slot.intent.store(RUNNING, Ordering::Release);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // In a child the address may be somebody else's by now.
        if self.is_mapped() {
            // SAFETY: mapped by `map`, and nothing outlives `self` that points into it.
            unsafe { libc::munmap(self.base.cast(), self.bytes) };
        }
    }
}

/// Reading a mapping beyond its file's end would kill the program.
fn refuse_short_file(file: &OwnedFd, bytes: usize) -> Result<(), Error> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer is valid; `status` is only read if the call filled it.
    let status = unsafe {
        if libc::fstat(file.as_raw_fd(), status.as_mut_ptr()) != 0 {
            return Err(Error::system("fstat of the page that the daemon sent"));
        }
        status.assume_init()
    };
    let is_regular = status.st_mode & libc::S_IFMT == libc::S_IFREG;
    if is_regular && (status.st_size as u64) < bytes as u64 {
        return Err(Error::protocol(format!(
            "page file of {} bytes, {bytes} are expected",
            status.st_size
        )));
    }
    Ok(())
}
