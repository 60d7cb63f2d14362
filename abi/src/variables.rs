// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A thread's variables, read and written while the scheduler does the same.

use crate::consort_variables;
use std::mem::{align_of, offset_of, size_of};
use std::sync::atomic::{AtomicI64, AtomicU32};

/// `struct consort_variables` as atomics.
#[repr(C)]
#[derive(Default)]
pub struct Variables {
    pub state: [AtomicI64; 4],
    pub submissions: AtomicU32,
    pub done: AtomicU32,
    pub triggers: AtomicU32,
    pub reserved: [AtomicU32; 5],
    pub control: [AtomicI64; 4],
    pub unused: [AtomicU32; 8],
}

const _: () = {
    use consort_variables as C;
    assert!(size_of::<Variables>() == size_of::<C>() && align_of::<Variables>() == align_of::<C>());
    assert!(offset_of!(Variables, state) == offset_of!(C, state));
    assert!(offset_of!(Variables, submissions) == offset_of!(C, submissions));
    assert!(offset_of!(Variables, done) == offset_of!(C, done));
    assert!(offset_of!(Variables, triggers) == offset_of!(C, triggers));
    assert!(offset_of!(Variables, control) == offset_of!(C, control));
};
