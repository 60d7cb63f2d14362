// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors for C: a negative errno, and a text kept for the thread.

use crate::Error;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

thread_local! {
    static LAST_TEXT: RefCell<CString> = RefCell::default();
}

#[no_mangle]
pub extern "C" fn consort_last_error_text() -> *const c_char {
    LAST_TEXT
        .try_with(|text| text.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

#[cold]
pub fn negative_errno(error: &Error) -> c_int {
    // Error texts hold no 0 bytes: names with control characters are quoted with escapes.
    let text = CString::new(error.to_string()).unwrap_or_default();
    let _ = LAST_TEXT.try_with(|last| *last.borrow_mut() = text);
    -error.errno()
}

/// What C gets for a result.
#[inline]
pub fn status(result: Result<(), Error>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => negative_errno(&error),
    }
}

/// What C gets for a result that counts something.
pub fn count(result: Result<usize, Error>) -> c_int {
    match result {
        Ok(count) => c_int::try_from(count).unwrap_or(c_int::MAX),
        Err(error) => negative_errno(&error),
    }
}

extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// While it lives, nobody cancels the calling thread: cancelling unwinds, and nothing may unwind through Rust into C. What
/// was asked for meanwhile happens at the program's next cancellation point.
struct NotCancelled {
    before: c_int,
}

impl NotCancelled {
    fn new() -> NotCancelled {
        const PTHREAD_CANCEL_DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: the pointer is valid; there is no other failure than an unknown state.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before) };
        NotCancelled { before }
    }
}

impl Drop for NotCancelled {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}

/// Keeps a bug in this library from unwinding into C: it ends the program with its message instead. Keeps the thread from
/// being cancelled in here.
pub fn guarded<T>(body: impl FnOnce() -> T) -> T {
    let _not_cancelled = NotCancelled::new();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(_) => std::process::abort(),
    }
}

/// What the caller must give.
///
/// # Safety
/// `pointer` is null, or valid for as long as the reference is used.
#[inline]
pub unsafe fn given<'a, T>(pointer: *const T, what: &'static str) -> Result<&'a T, Error> {
    match pointer.as_ref() {
        Some(value) => Ok(value),
        None => Err(Error::Null { what }),
    }
}

/// As [`given`], for what is written to.
///
/// # Safety
/// As [`given`]; and nobody else uses it meanwhile.
#[inline]
pub unsafe fn given_mut<'a, T>(pointer: *mut T, what: &'static str) -> Result<&'a mut T, Error> {
    match pointer.as_mut() {
        Some(value) => Ok(value),
        None => Err(Error::Null { what }),
    }
}
