// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reservations and credits for C.

use super::error::{guarded, status};
use crate::{reservation, Error, Reservation};
use std::ffi::{c_char, c_int, CStr};

#[no_mangle]
pub unsafe extern "C" fn consort_reserve(class: *const c_char, rate: f64, period_ns: u64) -> c_int {
    guarded(|| {
        if class.is_null() {
            return status(Err(Error::Null { what: "class" }));
        }
        // SAFETY: the header asks for a string with its end.
        let class = unsafe { CStr::from_ptr(class) }.to_string_lossy();
        let wanted = Reservation::in_class(class).rate(rate).period_ns(period_ns);
        status(wanted.reserve())
    })
}

#[no_mangle]
pub extern "C" fn consort_release() -> c_int {
    guarded(|| status(reservation::release()))
}

#[no_mangle]
pub extern "C" fn consort_lend(to: c_int, rate: f64) -> c_int {
    guarded(|| status(reservation::lend(to as u32, rate)))
}

#[no_mangle]
pub extern "C" fn consort_recollect(to: c_int, rate: f64) -> c_int {
    let rate = (rate != 0.0).then_some(rate);
    guarded(|| status(reservation::recollect(to as u32, rate)))
}
