// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trains for C.

use super::error::{given, guarded, status};
use crate::Train;
use std::ffi::c_int;

#[no_mangle]
pub unsafe extern "C" fn consort_train_begin(train: *const Train, server: c_int) -> c_int {
    // SAFETY: the header asks for a train.
    guarded(|| status(unsafe { given(train, "train") }.and_then(|it| it.begin(server as u32))))
}

#[no_mangle]
pub unsafe extern "C" fn consort_train_wait(train: *const Train, until_ns: u64) -> c_int {
    // SAFETY: as above.
    guarded(|| status(unsafe { given(train, "train") }.and_then(|it| it.wait(until_ns))))
}

#[no_mangle]
pub unsafe extern "C" fn consort_train_end(train: *const Train) -> c_int {
    // SAFETY: as above.
    guarded(|| status(unsafe { given(train, "train") }.and_then(Train::end)))
}
