// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A slot that is read and written while others do the same.

use crate::{consort_slot, CONSORT_OUTSIDE, CONSORT_PRIORITY_NONE, CONSORT_RUNNING};
use std::mem::{align_of, offset_of, size_of};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// `struct consort_slot` as atomics.
#[repr(C)]
pub struct Slot {
    pub due_ns: AtomicU64,
    pub key: AtomicU64,
    pub priority: AtomicU32,
    pub poll_seq: AtomicU32,
    pub intent: AtomicU32,
    pub why: AtomicU32,
    pub yield_by_ns: AtomicU64,
    pub other_due_ns: AtomicU64,
    pub other_key: AtomicU64,
    pub other_priority: AtomicU32,
    pub standing: AtomicU32,
}

impl Slot {
    /// A slot of nobody: what a thread on its own reads and writes.
    pub fn vacant() -> Slot {
        Slot {
            due_ns: AtomicU64::new(u64::MAX),
            key: AtomicU64::new(0),
            priority: AtomicU32::new(CONSORT_PRIORITY_NONE),
            poll_seq: AtomicU32::new(0),
            intent: AtomicU32::new(CONSORT_RUNNING),
            why: AtomicU32::new(0),
            yield_by_ns: AtomicU64::new(u64::MAX),
            other_due_ns: AtomicU64::new(u64::MAX),
            other_key: AtomicU64::new(0),
            other_priority: AtomicU32::new(CONSORT_PRIORITY_NONE),
            standing: AtomicU32::new(CONSORT_OUTSIDE),
        }
    }
}

const _: () = {
    use consort_slot as C;
    assert!(size_of::<Slot>() == size_of::<C>() && align_of::<Slot>() == align_of::<C>());
    assert!(offset_of!(Slot, due_ns) == offset_of!(C, due_ns));
    assert!(offset_of!(Slot, key) == offset_of!(C, key));
    assert!(offset_of!(Slot, priority) == offset_of!(C, priority));
    assert!(offset_of!(Slot, poll_seq) == offset_of!(C, poll_seq));
    assert!(offset_of!(Slot, intent) == offset_of!(C, intent));
    assert!(offset_of!(Slot, why) == offset_of!(C, why));
    assert!(offset_of!(Slot, yield_by_ns) == offset_of!(C, yield_by_ns));
    assert!(offset_of!(Slot, other_due_ns) == offset_of!(C, other_due_ns));
    assert!(offset_of!(Slot, other_key) == offset_of!(C, other_key));
    assert!(offset_of!(Slot, other_priority) == offset_of!(C, other_priority));
    assert!(offset_of!(Slot, standing) == offset_of!(C, standing));
};
