// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program says of itself to `consort trace`: values, by family and name, into a ring of the thread's own in memory
//! that the recorder shares (abi/consort_trace.h). No system call, no lock, and nobody is waited for.
//!
//! ```
//! use consort::trace;
//!
//! let decoded_ns = 4_000_000;
//! trace::event("decoder", "frame_ns", decoded_ns);
//! if trace::is_recorded() {
//!     trace::event("decoder", "queued", 3); // where the value itself is work
//! }
//! ```

use crate::{clock, fork_guard};
use consort_abi::*;
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::{env, ptr};

const UNKNOWN: u8 = 0;
/// Nobody records, and nobody will.
const OFF: u8 = 1;
const ON: u8 = 2;

const LABEL_BYTES: usize = CONSORT_TRACE_LABEL_BYTES as usize;
const RECORDS: u64 = CONSORT_TRACE_RING_RECORDS as u64;
const VARIABLE: &[u8] = CONSORT_TRACE_VARIABLE;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Mapped, if the state is ON; for as long as the process lives, its forked children included.
static AREA: AtomicPtr<Area> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    static OWN: Own = const { Own { ring: Cell::new(None), last_due_ns: Cell::new(0) } };
}

/// The thread's ring: its index, by which process it was taken, and the thread's number there.
#[derive(Clone, Copy)]
struct Taken {
    /// None was free: events are lost, until the end of the thread.
    index: Option<usize>,
    process: u64,
    tid: i32,
    pid: i32,
}

struct Own {
    ring: Cell<Option<Taken>>,
    /// Of the last due event that a poll returned for.
    last_due_ns: Cell<u64>,
}

impl Drop for Own {
    fn drop(&mut self) {
        // A forked child has the copy of its parent's.
        let process = fork_guard::number();
        let own = self
            .ring
            .take()
            .filter(|it| process.is_ok_and(|now| now == it.process));
        if let (Some(area), Some(index)) = (area(), own.and_then(|it| it.index)) {
            area.rings[index].owner_pid.store(0, Ordering::Relaxed);
            area.rings[index].owner.store(0, Ordering::Release);
        }
    }
}

/// Whether a recorder runs, and reads what this program says: for values that are costly to find.
#[inline]
pub fn is_recorded() -> bool {
    STATE.load(Ordering::Relaxed) != OFF && is_recorded_now()
}

/// Says a value of this thread, by its family and name: of `family/name` the first 32 bytes count. By convention names of times
/// end in `_ns`. Costs a load and a branch if nobody records.
#[inline]
pub fn event(family: &str, name: &str, value: i64) {
    if STATE.load(Ordering::Relaxed) != OFF {
        say(family.as_bytes(), name.as_bytes(), value);
    }
}

/// [`event`] for names that are no text of Rust's.
pub(crate) fn event_of_bytes(family: &[u8], name: &[u8], value: i64) {
    if STATE.load(Ordering::Relaxed) != OFF {
        say(family, name, value);
    }
}

/// A due event begins, now.
#[inline]
pub(crate) fn due(due_ns: u64, now_ns: u64) {
    if STATE.load(Ordering::Relaxed) != OFF {
        say_due(due_ns, now_ns);
    }
}

/// A poll returns: if what was due has expired, it begins. `now_ns`: if the poll has not waited.
#[inline]
pub(crate) fn due_after_poll(due_ns: u64, now_ns: Option<u64>) {
    if STATE.load(Ordering::Relaxed) != OFF {
        say_due_after_poll(due_ns, now_ns);
    }
}

#[cold]
#[inline(never)]
fn say_due_after_poll(due_ns: u64, now_ns: Option<u64>) {
    let now_ns = now_ns.unwrap_or_else(clock::now_ns);
    // One that is polled with again is the same one.
    let is_new = OWN.try_with(|own| own.last_due_ns.get() != due_ns);
    if (1..=now_ns).contains(&due_ns) && is_new.unwrap_or(false) {
        let _ = OWN.try_with(|own| own.last_due_ns.set(due_ns));
        say_due(due_ns, now_ns);
    }
}

#[cold]
#[inline(never)]
fn say_due(due_ns: u64, now_ns: u64) {
    write(now_ns, CONSORT_TRACE_DUE, |record| {
        record.__bindgen_anon_1.due = consort_trace_record__bindgen_ty_1__bindgen_ty_4 { due_ns };
    });
}

#[inline(never)]
fn say(family: &[u8], name: &[u8], value: i64) {
    write(clock::now_ns(), CONSORT_TRACE_EVENT, |record| {
        record.__bindgen_anon_1.event = consort_trace_record__bindgen_ty_1__bindgen_ty_5 {
            value,
            label: label(family, name),
        };
    });
}

/// `family/name`, as much as fits; zeros behind it.
#[inline]
fn label(family: &[u8], name: &[u8]) -> [std::ffi::c_char; LABEL_BYTES] {
    let mut label = [0u8; LABEL_BYTES];
    let family = &family[..family.len().min(LABEL_BYTES - 1)];
    label[..family.len()].copy_from_slice(family);
    label[family.len()] = b'/';
    let rest = &mut label[family.len() + 1..];
    let length = name.len().min(rest.len());
    rest[..length].copy_from_slice(&name[..length]);
    label.map(|byte| byte as std::ffi::c_char)
}

/// Writes a record of this thread, if there is room.
#[inline]
fn write(at_ns: u64, kind: u32, fill: impl FnOnce(&mut consort_trace_record)) {
    if !is_recorded_now() {
        return;
    }
    let Some(area) = area() else { return };
    let Some(own) = own_ring(area) else { return };
    let Some(index) = own.index else {
        area.lost.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let ring = &area.rings[index];
    let head = ring.head.load(Ordering::Relaxed);
    if head.wrapping_sub(ring.tail.load(Ordering::Acquire)) >= RECORDS {
        // Nobody else writes it.
        ring.lost.store(
            ring.lost.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        return;
    }
    let mut record = consort_trace_record {
        at_ns,
        kind: kind as u16,
        cpu: CONSORT_TRACE_NO_CPU as u16,
        tid: own.tid,
        pid: own.pid,
        ..Default::default()
    };
    fill(&mut record);
    // SAFETY: inside the area; until the head says so, nobody reads it, and the ring has one writer.
    unsafe {
        area.records[index][(head % RECORDS) as usize]
            .get()
            .write_volatile(record)
    };
    ring.head.store(head.wrapping_add(1), Ordering::Release);
}

/// Of a thread that has none, takes one. `None`: the thread is about to end.
#[inline]
fn own_ring(area: &Area) -> Option<Taken> {
    OWN.try_with(|own| match own.ring.get() {
        Some(taken) if fork_guard::number().is_ok_and(|now| now == taken.process) => Some(taken),
        _ => take_ring(area, own),
    })
    .ok()
    .flatten()
}

#[cold]
#[inline(never)]
fn take_ring(area: &Area, own: &Own) -> Option<Taken> {
    // SAFETY: no arguments, never fail.
    let (tid, pid) = unsafe { (libc::gettid(), libc::getpid()) };
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |it| it.ino());
    let is_free = |owner: u32, at: &Ring| {
        // One's own: the program has become another one, and forgot it.
        let is_own = owner == tid as u32 && at.owner_namespace.load(Ordering::Relaxed) == namespace;
        owner == 0 || (is_own && namespace != 0)
    };
    let index = area.rings.iter().position(|ring| {
        let owner = ring.owner.load(Ordering::Relaxed);
        let swap = |now| {
            ring.owner
                .compare_exchange(owner, now, Ordering::AcqRel, Ordering::Relaxed)
        };
        is_free(owner, ring) && swap(tid as u32).is_ok()
    });
    if let Some(index) = index {
        area.rings[index].owner_pid.store(pid, Ordering::Relaxed);
        area.rings[index]
            .owner_namespace
            .store(namespace, Ordering::Release);
    }
    let process = fork_guard::number().ok()?;
    own.ring.set(Some(Taken {
        index,
        process,
        tid,
        pid,
    }));
    own.ring.get()
}

#[inline]
fn area() -> Option<&'static Area> {
    // SAFETY: null, or mapped for as long as the process lives.
    unsafe { AREA.load(Ordering::Acquire).as_ref() }
}

#[inline]
fn is_recorded_now() -> bool {
    if STATE.load(Ordering::Acquire) == UNKNOWN {
        look_for_recorder();
    }
    match area() {
        Some(area) if area.is_recording.load(Ordering::Relaxed) != 0 => true,
        _ => {
            STATE.store(OFF, Ordering::Relaxed);
            false
        }
    }
}

/// The first time: finds the memory that a recorder shares. Of two threads that do so, one maps it in vain.
#[cold]
#[inline(never)]
fn look_for_recorder() {
    let found = shared_file().and_then(map);
    if let Some(area) = found {
        AREA.store(area, Ordering::Release);
    }
    let state = if found.is_some() { ON } else { OFF };
    STATE.store(state, Ordering::Release);
}

/// What the environment names, if it is a recorder's; not in set-user-id programs, whose environment is somebody else's.
fn shared_file() -> Option<i32> {
    // SAFETY: reads a constant of the process.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    let name = std::str::from_utf8(VARIABLE.strip_suffix(b"\0")?).ok()?;
    let fd: i32 = env::var(name).ok()?.parse().ok()?;
    // SAFETY: only asks; the number may be no descriptor, or something else's.
    let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
    let sized = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    // Nobody can make it shorter under the mapping.
    if seals < 0 || seals & sized != sized {
        return None;
    }
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer is valid; `status` is only read if the call filled it.
    let length = unsafe {
        match libc::fstat(fd, status.as_mut_ptr()) {
            0 => status.assume_init().st_size,
            _ => return None,
        }
    };
    (length as usize == size_of::<Area>()).then_some(fd)
}

fn map(fd: i32) -> Option<*mut Area> {
    // SAFETY: a fresh shared mapping at an address of the kernel's choice, as long as the file.
    let memory = unsafe {
        let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        libc::mmap(
            ptr::null_mut(),
            size_of::<Area>(),
            read_write,
            shared,
            fd,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return None;
    }
    let area: *mut Area = memory.cast();
    // SAFETY: mapped above.
    let (magic, version) = unsafe {
        let it = &*area;
        (
            it.magic.load(Ordering::Acquire),
            it.version.load(Ordering::Relaxed),
        )
    };
    if magic == CONSORT_TRACE_MAGIC && version == CONSORT_TRACE_VERSION {
        return Some(area);
    }
    // SAFETY: mapped above, and nobody else knows it.
    unsafe { libc::munmap(memory, size_of::<Area>()) };
    None
}
