// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The memory that a recorder shares with programs, as both use it at the same time.

use crate::{
    consort_trace_area, consort_trace_record, consort_trace_ring, CONSORT_TRACE_RINGS,
    CONSORT_TRACE_RING_RECORDS,
};
use std::cell::UnsafeCell;
use std::mem::{align_of, offset_of, size_of};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// `struct consort_trace_ring` as atomics.
#[repr(C)]
pub struct Ring {
    pub owner: AtomicU32,
    pub owner_pid: AtomicI32,
    pub owner_namespace: AtomicU64,
    pub head: AtomicU64,
    pub tail: AtomicU64,
    pub lost: AtomicU64,
    reserved: [u64; 3],
}

/// `struct consort_trace_area`: its records belong to the one that may write them, or read them, by head and tail.
#[repr(C)]
pub struct Area {
    pub magic: AtomicU32,
    pub version: AtomicU32,
    pub is_recording: AtomicU32,
    reserved: u32,
    pub lost: AtomicU64,
    unused: [u64; 5],
    pub rings: [Ring; CONSORT_TRACE_RINGS as usize],
    pub records: [[UnsafeCell<consort_trace_record>; CONSORT_TRACE_RING_RECORDS as usize];
        CONSORT_TRACE_RINGS as usize],
}

// SAFETY: records are only touched through pointers to them, and by whoever the ring's head and tail say.
unsafe impl Sync for Area {}

const _: () = {
    use consort_trace_area as A;
    use consort_trace_ring as C;
    assert!(size_of::<Ring>() == size_of::<C>() && align_of::<Ring>() == align_of::<C>());
    assert!(offset_of!(Ring, owner) == offset_of!(C, owner));
    assert!(offset_of!(Ring, owner_pid) == offset_of!(C, owner_pid));
    assert!(offset_of!(Ring, owner_namespace) == offset_of!(C, owner_namespace));
    assert!(offset_of!(Ring, head) == offset_of!(C, head));
    assert!(offset_of!(Ring, tail) == offset_of!(C, tail));
    assert!(offset_of!(Ring, lost) == offset_of!(C, lost));
    assert!(size_of::<Area>() == size_of::<A>() && align_of::<Area>() == align_of::<A>());
    assert!(offset_of!(Area, is_recording) == offset_of!(A, is_recording));
    assert!(offset_of!(Area, lost) == offset_of!(A, lost));
    assert!(offset_of!(Area, rings) == offset_of!(A, rings));
    assert!(offset_of!(Area, records) == offset_of!(A, records));
};
