// SPDX-License-Identifier: MIT OR Apache-2.0
//! core/'s policy, for a domain made of numbers: see policy.h.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ptr::NonNull;

/// `enum ul_state`.
pub const NOWHERE: u32 = 0;
pub const RUNNING: u32 = 1;
pub const WAITING: u32 = 2;
pub const ASLEEP: u32 = 3;

/// `struct ul_entry`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Entry {
    pub due_ns: u64,
    pub key: u64,
    pub since_ns: u64,
    pub vtime: u64,
    pub debt_vtime: u64,
    pub served: u64,
    pub turn_ns: u64,
    pub turn_vtime: u64,
    pub turn_from: u64,
    pub run_due_ns: u64,
    pub priority: u32,
    pub weight: u32,
    pub state: u32,
    pub reserved: u32,
}

/// `struct ul_domain`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DomainNumbers {
    pub clock: u64,
    pub vmin: u64,
    pub served_least: u64,
    pub turn_least: u64,
    pub idle_since_ns: u64,
    pub grace_ns: u64,
    pub order: u32,
    pub reserved: u32,
}

/// `struct ul_told`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Told {
    pub yield_by_ns: u64,
    pub other_due_ns: u64,
    pub other_key: u64,
    pub other_priority: u32,
    pub reserved: u32,
}

const _: () = {
    assert!(size_of::<Entry>() == 96 && size_of::<DomainNumbers>() == 56);
    assert!(size_of::<Told>() == 32);
};

#[repr(C)]
struct Raw {
    _private: [u8; 0],
}

extern "C" {
    fn ul_bytes(nr: u32) -> u64;
    fn ul_weight_of_nice(nice: i32) -> u32;
    fn ul_load(
        policy: *mut Raw,
        from: *const DomainNumbers,
        entries: *const Entry,
        nr: u32,
        waiting: *const u32,
        nr_waiting: u32,
    );
    fn ul_save(policy: *const Raw, to: *mut DomainNumbers, entries: *mut Entry);
    fn ul_publish(
        policy: *mut Raw,
        i: u32,
        due_ns: u64,
        priority: u32,
        key: u64,
        ran_ns: u64,
        now_ns: u64,
    );
    fn ul_wake(policy: *mut Raw, i: u32, now_ns: u64);
    fn ul_rest(policy: *mut Raw, i: u32, sleeps: u32, now_ns: u64);
    fn ul_wait(policy: *mut Raw, i: u32, since_ns: u64);
    fn ul_take(policy: *mut Raw, i: u32);
    fn ul_first(policy: *mut Raw, running: i32, now_ns: u64) -> i32;
    fn ul_told(
        policy: *mut Raw,
        i: u32,
        now_ns: u64,
        granularity_ns: u64,
        min_slice_ns: u64,
        told: *mut Told,
    );
}

/// The kernel host's defaults.
const GRANULARITY_NS: u64 = 4_000_000;
const MIN_SLICE_NS: u64 = 500_000;

pub fn weight_of_nice(nice: i32) -> u32 {
    // SAFETY: takes any number.
    unsafe { ul_weight_of_nice(nice) }
}

/// Memory for one domain, in which decisions are made. It grows with the members.
pub struct Policy {
    memory: NonNull<Raw>,
    layout: Layout,
    room: u32,
    waiting: Vec<u32>,
}

fn layout_for(members: u32) -> Layout {
    // SAFETY: arithmetic only.
    let bytes = unsafe { ul_bytes(members) } as usize;
    // Alignment of the C structures, which hold nothing wider.
    Layout::from_size_align(bytes, 16).unwrap_or(Layout::new::<u128>())
}

impl Policy {
    pub fn new() -> Policy {
        Policy::with_room(16)
    }

    fn with_room(room: u32) -> Policy {
        let layout = layout_for(room);
        // SAFETY: the layout has a size, that of the structure at least.
        let memory = unsafe { alloc_zeroed(layout) };
        match NonNull::new(memory.cast::<Raw>()) {
            Some(memory) => Policy {
                memory,
                layout,
                room,
                waiting: Vec::new(),
            },
            None => handle_alloc_error(layout),
        }
    }

    /// Makes the domain from numbers. Each entry's state is one of the four, its weight in range.
    pub fn load<'a>(
        &'a mut self,
        domain: &'a mut DomainNumbers,
        entries: &'a mut [Entry],
    ) -> Loaded<'a> {
        let nr = entries.len() as u32;
        if nr > self.room {
            *self = Policy::with_room(nr.next_power_of_two());
        }
        self.waiting.clear();
        let waits = |i: &u32| entries[*i as usize].state == WAITING;
        self.waiting.extend((0..nr).filter(waits));
        self.waiting
            .sort_unstable_by_key(|&i| entries[i as usize].since_ns);
        // SAFETY: there is room for `nr` members, and the two lists are as long as said.
        unsafe {
            ul_load(
                self.memory.as_ptr(),
                domain,
                entries.as_ptr(),
                nr,
                self.waiting.as_ptr(),
                self.waiting.len() as u32,
            );
        }
        Loaded {
            raw: self.memory,
            domain,
            entries,
        }
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        // SAFETY: made with this layout, and freed once.
        unsafe { dealloc(self.memory.as_ptr().cast(), self.layout) };
    }
}

/// A domain that was made from numbers, with core's queues. Changes of a member's state go through here.
pub struct Loaded<'a> {
    raw: NonNull<Raw>,
    domain: &'a mut DomainNumbers,
    pub entries: &'a mut [Entry],
}

impl Loaded<'_> {
    /// The C side's number of a member. Panics if there is none such.
    fn number(&self, i: usize) -> u32 {
        assert!(i < self.entries.len());
        i as u32
    }

    /// Of a member that does not wait: what it wants next, and what it ran.
    pub fn publish(
        &mut self,
        i: usize,
        due_ns: u64,
        priority: u32,
        key: u64,
        ran_ns: u64,
        now_ns: u64,
    ) {
        let number = self.number(i);
        self.entries[i].due_ns = due_ns;
        // SAFETY: the number is one of those loaded; here and below.
        unsafe {
            ul_publish(
                self.raw.as_ptr(),
                number,
                due_ns,
                priority,
                key,
                ran_ns,
                now_ns,
            )
        }
    }

    /// From asleep, or nowhere, to running.
    pub fn wake(&mut self, i: usize, now_ns: u64) {
        debug_assert!([ASLEEP, NOWHERE].contains(&self.entries[i].state));
        // SAFETY: as above; core takes it out of the queue of sleepers if it is there.
        unsafe { ul_wake(self.raw.as_ptr(), self.number(i), now_ns) }
        self.entries[i].state = RUNNING;
    }

    /// From running to asleep, or to nowhere.
    pub fn rest(&mut self, i: usize, to: u32, now_ns: u64) {
        debug_assert!(self.entries[i].state == RUNNING);
        let sleeps = u32::from(to == ASLEEP);
        // SAFETY: as above.
        unsafe { ul_rest(self.raw.as_ptr(), self.number(i), sleeps, now_ns) }
        self.entries[i].state = to;
    }

    /// From running to waiting, since then.
    pub fn wait(&mut self, i: usize, since_ns: u64) {
        debug_assert!(self.entries[i].state == RUNNING);
        // SAFETY: as above.
        unsafe { ul_wait(self.raw.as_ptr(), self.number(i), since_ns) }
        self.entries[i].state = WAITING;
        self.entries[i].since_ns = since_ns;
    }

    /// From waiting to running.
    pub fn take(&mut self, i: usize) {
        debug_assert!(self.entries[i].state == WAITING);
        // SAFETY: as above.
        unsafe { ul_take(self.raw.as_ptr(), self.number(i)) }
        self.entries[i].state = RUNNING;
    }

    /// Who runs next: one of those that wait, or `running`.
    pub fn first(&mut self, running: Option<usize>, now_ns: u64) -> Option<usize> {
        let running = running.map_or(-1, |i| self.number(i) as i32);
        // SAFETY: as above.
        let first = unsafe { ul_first(self.raw.as_ptr(), running, now_ns) };
        usize::try_from(first).ok()
    }

    pub fn told(&mut self, i: usize, now_ns: u64) -> Told {
        let mut told = Told::default();
        // SAFETY: as above.
        unsafe {
            ul_told(
                self.raw.as_ptr(),
                self.number(i),
                now_ns,
                GRANULARITY_NS,
                MIN_SLICE_NS,
                &mut told,
            );
        }
        told
    }

    /// Writes the numbers back to where they came from; states are kept there already.
    pub fn save(self) {
        // SAFETY: as many entries as were loaded.
        unsafe { ul_save(self.raw.as_ptr(), self.domain, self.entries.as_mut_ptr()) }
    }
}
