// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's own events for C.

use crate::trace;
use std::ffi::{c_char, c_int, CStr};

/// # Safety
/// Both are null, or 0-terminated.
#[no_mangle]
pub unsafe extern "C" fn consort_trace_event(
    family: *const c_char,
    name: *const c_char,
    value: i64,
) {
    let bytes = |text: *const c_char| match text.is_null() {
        true => &[][..],
        // SAFETY: the header asks for a text that ends.
        false => unsafe { CStr::from_ptr(text) }.to_bytes(),
    };
    trace::event_of_bytes(bytes(family), bytes(name), value);
}

#[no_mangle]
pub extern "C" fn consort_trace_is_recorded() -> c_int {
    c_int::from(trace::is_recorded())
}
