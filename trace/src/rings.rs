// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder's side of the memory that programs write their events into (abi/consort_trace.h). They may write anything
//! there, at any time: all that it says is looked at once, and its bounds are.

use std::{
    ffi::CStr,
    fs, io,
    mem::size_of,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        linux::fs::MetadataExt,
    },
    ptr::NonNull,
    sync::atomic::Ordering,
};

use consort_abi::*;
use nix::{
    errno::Errno,
    fcntl::{fcntl, FcntlArg, SealFlag},
    sys::memfd::{memfd_create, MFdFlags},
};

use crate::record::RECORD_BYTES;

/// The environment variable that leads programs to it.
pub const RINGS_VARIABLE: &str = match CStr::from_bytes_with_nul(CONSORT_TRACE_VARIABLE) {
    Ok(name) => match name.to_str() {
        Ok(name) => name,
        Err(_) => panic!("its name is ASCII"),
    },
    Err(_) => panic!("C's texts end with 0"),
};

/// Above those that shells and programs choose by hand.
const FD_LEAST: i32 = 200;
const RECORDS: u64 = CONSORT_TRACE_RING_RECORDS as u64;

/// Rings for the events of all programs that inherit their file descriptor. Dropping it tells them that nobody reads.
#[derive(Debug)]
pub struct Rings {
    /// Open in programs that are started from now on.
    file: OwnedFd,
    area: NonNull<Area>,
    /// Of each ring: up to where it was read, and what it said that it lost.
    seen: Vec<Seen>,
    /// Losses of threads that found no ring, as the area says; and records that could not be.
    lost_without_ring: u64,
    lost: u64,
    /// No event of this trace was before.
    start_ns: u64,
    namespace: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    tail: u64,
    lost: u64,
}

impl Rings {
    /// Makes them, empty. `start_ns`: when the trace begins.
    ///
    /// # Errors
    /// The system calls'.
    pub fn new(start_ns: u64) -> io::Result<Rings> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let made = memfd_create("consort-trace", flags)?;
        nix::unistd::ftruncate(&made, size_of::<Area>() as i64)?;
        // Programs may rely on its size as much as this one does.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&made, FcntlArg::F_ADD_SEALS(seals))?;
        let inherited = fcntl(&made, FcntlArg::F_DUPFD(FD_LEAST))?;
        // SAFETY: the call has just made it.
        let file = unsafe { OwnedFd::from_raw_fd(inherited) };
        let area = map(file.as_fd())?;
        let rings = Rings {
            file,
            area,
            seen: vec![Seen::default(); CONSORT_TRACE_RINGS as usize],
            lost_without_ring: 0,
            lost: 0,
            start_ns,
            namespace: pid_namespace(),
        };
        rings
            .area()
            .version
            .store(CONSORT_TRACE_VERSION, Ordering::Relaxed);
        rings.area().is_recording.store(1, Ordering::Relaxed);
        rings
            .area()
            .magic
            .store(CONSORT_TRACE_MAGIC, Ordering::Release);
        Ok(rings)
    }

    /// What [`RINGS_VARIABLE`] must be in programs that are to be recorded.
    pub fn variable(&self) -> String {
        self.file.as_raw_fd().to_string()
    }

    fn area(&self) -> &Area {
        // SAFETY: mapped until it is dropped, and only touched through atomics and, records, by `read_volatile`.
        unsafe { self.area.as_ref() }
    }

    /// Takes what programs have written so far. `now_ns`: the clock.
    pub fn drain(&mut self, now_ns: impl Fn() -> u64, mut take: impl FnMut(&[u8; RECORD_BYTES])) {
        for index in 0..self.seen.len() {
            self.drain_ring(index, &now_ns, &mut take);
        }
        let without_ring = self.area().lost.load(Ordering::Relaxed);
        self.lost = self
            .lost
            .saturating_add(without_ring.saturating_sub(self.lost_without_ring));
        self.lost_without_ring = self.lost_without_ring.max(without_ring);
    }

    fn drain_ring(
        &mut self,
        index: usize,
        now_ns: &impl Fn() -> u64,
        take: &mut impl FnMut(&[u8; RECORD_BYTES]),
    ) {
        // SAFETY: as in `area`; not through `self`, of which other parts change here.
        let area = unsafe { self.area.as_ref() };
        let ring = &area.rings[index];
        let seen = &mut self.seen[index];
        let head = ring.head.load(Ordering::Acquire);
        let new = head.wrapping_sub(seen.tail);
        if new == 0 && ring.lost.load(Ordering::Relaxed) == seen.lost {
            return;
        }
        // Later than all that is in the ring by now.
        let now_ns = now_ns();
        // A thread that keeps to its ring writes no more than fits.
        let lost = new.saturating_sub(RECORDS);
        let mut bad = 0;
        for nth in lost..new {
            let at = (seen.tail.wrapping_add(nth) % RECORDS) as usize;
            // SAFETY: inside the area, whatever the numbers are; any bytes are a value. Whoever writes there meanwhile
            // breaks its own record.
            let bytes: [u8; RECORD_BYTES] = unsafe {
                area.records[index][at]
                    .get()
                    .cast::<[u8; RECORD_BYTES]>()
                    .read_volatile()
            };
            match is_a_programs(&bytes, self.start_ns, now_ns) {
                true => take(&bytes),
                false => bad += 1,
            }
        }
        seen.tail = head;
        ring.tail.store(head, Ordering::Release);
        let said = ring.lost.load(Ordering::Relaxed);
        let newly_said = said.saturating_sub(seen.lost);
        seen.lost = said;
        for count in [lost, bad, newly_said] {
            self.lost = self.lost.saturating_add(count);
        }
    }

    /// Gives back rings whose processes ended without doing so.
    pub fn reclaim(&mut self) {
        for ring in &self.area().rings {
            let owner = ring.owner.load(Ordering::Acquire);
            let pid = ring.owner_pid.load(Ordering::Relaxed);
            let is_ours = self.namespace != 0
                && ring.owner_namespace.load(Ordering::Relaxed) == self.namespace;
            if owner == 0 || !is_ours || pid <= 0 {
                continue;
            }
            let process = nix::unistd::Pid::from_raw(pid);
            if nix::sys::signal::kill(process, None) == Err(Errno::ESRCH) {
                let freed = (Ordering::AcqRel, Ordering::Relaxed);
                // It is somebody else's already if one of these fails: the next one says its process after it took the ring.
                if ring
                    .owner_pid
                    .compare_exchange(pid, 0, freed.0, freed.1)
                    .is_ok()
                {
                    let _ = ring.owner.compare_exchange(owner, 0, freed.0, freed.1);
                }
            }
        }
    }

    /// Events so far that are not in the trace: rings were full, or not there, or what was in them was no event.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.area().is_recording.store(0, Ordering::Release);
        // SAFETY: mapped by `map` with this size, and nothing outlives `self` that points into it.
        unsafe { libc::munmap(self.area.as_ptr().cast(), size_of::<Area>()) };
    }
}

/// What a program may say: of its own events, in this trace's time. It cannot make up switches.
fn is_a_programs(bytes: &[u8; RECORD_BYTES], start_ns: u64, now_ns: u64) -> bool {
    // SAFETY: integers and bytes alone, and as many.
    let raw: consort_trace_record = unsafe {
        bytes
            .as_ptr()
            .cast::<consort_trace_record>()
            .read_unaligned()
    };
    matches!(u32::from(raw.kind), CONSORT_TRACE_EVENT | CONSORT_TRACE_DUE)
        && (start_ns..=now_ns).contains(&raw.at_ns)
}

fn map(file: BorrowedFd<'_>) -> io::Result<NonNull<Area>> {
    // SAFETY: a fresh shared mapping at an address of the kernel's choice; the file is as long.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<Area>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    match NonNull::new(memory.cast()) {
        Some(area) if memory != libc::MAP_FAILED => Ok(area),
        _ => Err(io::Error::last_os_error()),
    }
}

/// In which process numbers are as this process sees them; 0: it is not known.
fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |it| it.st_ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        file::tests::event,
        record::{Left, Record},
        waits::tests::switch,
        Reason,
    };

    impl Rings {
        fn put(&self, index: usize, nth: u64, record: &Record) {
            let at = self.area().records[index][(nth % RECORDS) as usize].get();
            unsafe {
                at.cast::<[u8; RECORD_BYTES]>()
                    .write_volatile(record.to_bytes())
            };
        }

        fn drained(&mut self) -> Vec<u64> {
            let mut all = Vec::new();
            self.drain(
                || 1000,
                |bytes| all.extend(Record::parse(bytes).map(|it| it.at_ns)),
            );
            all
        }
    }

    #[test]
    fn what_is_written_is_taken_once() {
        let mut rings = Rings::new(10).unwrap();
        rings.put(3, 0, &event(11, 0));
        rings.put(3, 1, &event(12, 0));
        rings.area().rings[3].head.store(2, Ordering::Release);
        assert_eq!(rings.drained(), [11, 12]);
        assert_eq!((rings.drained(), rings.lost()), (vec![], 0));
        assert_eq!(rings.area().rings[3].tail.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn nobody_makes_up_switches_nor_other_times() {
        let mut rings = Rings::new(10).unwrap();
        rings.put(0, 0, &switch(20, 1, Left::Slept, 2, Reason::Slice));
        rings.put(0, 1, &event(9, 0));
        rings.put(0, 2, &event(1001, 0));
        rings.put(0, 3, &event(1000, 0));
        rings.area().rings[0].head.store(4, Ordering::Release);
        assert_eq!((rings.drained(), rings.lost()), (vec![1000], 3));
    }

    #[test]
    fn heads_that_cannot_be_cost_no_more_than_a_ring() {
        let mut rings = Rings::new(0).unwrap();
        for head in [u64::MAX, 0, u64::MAX / 2, 1] {
            rings.area().rings[7].head.store(head, Ordering::Release);
            rings.area().rings[7].lost.store(head, Ordering::Release);
            let mut taken = 0;
            rings.drain(|| 1000, |_| taken += 1);
            assert!(taken <= RECORDS, "{taken}");
        }
        assert_eq!(
            rings.lost(),
            u64::MAX,
            "as much as it says, and no overflow"
        );
        rings.put(8, 0, &event(5, 0));
        rings.area().rings[8].head.store(1, Ordering::Release);
        assert_eq!(rings.drained(), [5], "others are as before");
    }

    #[test]
    fn rings_of_the_dead_are_given_back() {
        let mut rings = Rings::new(0).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        child.wait().unwrap();
        let own = std::process::id() as i32;
        for (index, pid, namespace) in [
            (0, pid, rings.namespace),
            (1, pid, 1),
            (2, own, rings.namespace),
        ] {
            let ring = &rings.area().rings[index];
            ring.owner.store(pid as u32, Ordering::Relaxed);
            ring.owner_pid.store(pid, Ordering::Relaxed);
            ring.owner_namespace.store(namespace, Ordering::Relaxed);
        }
        rings.reclaim();
        let owners: Vec<bool> = (0..3)
            .map(|it| rings.area().rings[it].owner.load(Ordering::Relaxed) != 0)
            .collect();
        assert_eq!(owners, [false, true, true]);
    }
}
