// SPDX-License-Identifier: GPL-2.0-only
//! Why a scheduler left the kernel, as its `exit` callback has noted it.

use std::{
    ffi::{c_char, CStr},
    ptr,
    sync::atomic::{fence, Ordering},
};

use crate::{
    skeleton::interface::{consort_exit_info, CONSORT_EXIT_DONE},
    ExitReport,
};

/// `None` while the scheduler is in charge.
///
/// # Safety
/// `info` must point to a scheduler's `exit_info` that stays mapped during the call.
pub(crate) unsafe fn report(info: *const consort_exit_info) -> Option<ExitReport> {
    // SAFETY: the kernel writes the field at any time; volatile, so that each call looks.
    let state = unsafe { ptr::read_volatile(&raw const (*info).state) };
    if state as u32 != CONSORT_EXIT_DONE {
        return None;
    }
    fence(Ordering::Acquire);
    // SAFETY: mapped, and written for the last time before the state was.
    let info = unsafe { &*info };
    Some(ExitReport {
        kind: info.kind as u64,
        exit_code: info.exit_code,
        reason: text(&info.reason),
        message: text(&info.msg),
        dump: text(&info.dump),
    })
}

fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|byte| *byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map_or_else(
        |_| String::from_utf8_lossy(&bytes).into_owned(),
        |text| text.to_string_lossy().into_owned(),
    )
}
