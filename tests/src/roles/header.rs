// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of consort.h the roles call that stand for C programs.

use std::ffi::{c_char, c_int, c_void, CStr, CString};

pub const NEVER: u64 = u64::MAX;
pub const PRIORITY_NONE: u32 = u32::MAX;

pub type Callback = extern "C" fn(*mut c_void, *mut Event, *mut c_void);

#[repr(C)]
#[derive(Default)]
pub struct Options {
    pub event_ns: u64,
    pub order: u32,
    pub flags: u32,
}

#[repr(C)]
pub struct Next {
    pub due_ns: u64,
    pub key: u64,
    pub priority: u32,
    pub best_effort: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Others {
    pub yield_by_ns: u64,
    pub due_ns: u64,
    pub key: u64,
    pub priority: u32,
    pub standing: u32,
}

#[repr(C)]
#[derive(Default)]
pub struct Usage {
    pub asked: f64,
    pub lent: f64,
    pub held: f64,
    pub given: f64,
    pub used: [f64; 3],
    pub suggested: f64,
    pub late_s: u32,
    pub threads: u32,
}

#[repr(C)]
pub struct Event {
    of_loop: *mut c_void,
    callback: Option<Callback>,
    data: *mut c_void,
    id: u64,
}

extern "C" {
    pub fn consort_last_error_text() -> *const c_char;
    pub fn consort_join(
        domain: *const c_char,
        options: *const Options,
        member: *mut *mut c_void,
    ) -> c_int;
    pub fn consort_leave(member: *mut c_void) -> c_int;
    pub fn consort_poll(member: *mut c_void, next: *const Next, others: *mut Others) -> c_int;
    pub fn consort_poll_at(
        member: *mut c_void,
        next: *const Next,
        now_ns: u64,
        others: *mut Others,
    ) -> c_int;
    pub fn consort_poll_epoll(
        member: *mut c_void,
        next: *const Next,
        epoll_fd: c_int,
        events: *mut libc::epoll_event,
        max_events: c_int,
        others: *mut Others,
    ) -> c_int;
    pub fn consort_others(member: *mut c_void, others: *mut Others) -> c_int;
    pub fn consort_why(member: *mut c_void) -> *const c_char;
    pub fn consort_reserve(class: *const c_char, rate: f64, period_ns: u64) -> c_int;
    pub fn consort_release() -> c_int;
    pub fn consort_lend(to: c_int, rate: f64) -> c_int;
    pub fn consort_recollect(to: c_int, rate: f64) -> c_int;
    pub fn consort_usage(usage: *mut Usage) -> c_int;
    pub fn consort_loop_new(member: *mut c_void, made: *mut *mut c_void) -> c_int;
    pub fn consort_loop_run(of: *mut c_void) -> c_int;
    pub fn consort_loop_set_fd_interval_ns(of: *mut c_void, interval_ns: u64) -> c_int;
    pub fn consort_loop_others(of: *mut c_void, others: *mut Others) -> c_int;
    pub fn consort_event_init(event: *mut Event, callback: Callback, data: *mut c_void);
    pub fn consort_event_submit_due(of: *mut c_void, event: *mut Event, due_ns: u64) -> c_int;
    pub fn consort_event_submit_best_effort(
        of: *mut c_void,
        event: *mut Event,
        priority: u32,
        key: u64,
    ) -> c_int;
    pub fn consort_event_submit_fd(
        of: *mut c_void,
        event: *mut Event,
        fd: c_int,
        epoll_events: u32,
        priority: u32,
        key: u64,
    ) -> c_int;
}

/// What a call returned, unless that is an errno.
pub fn done(what: &str, result: c_int) -> Result<c_int, String> {
    if result >= 0 {
        return Ok(result);
    }
    // SAFETY: the library's text is valid until this thread's next call.
    let text = unsafe { CStr::from_ptr(consort_last_error_text()) };
    Err(format!("{what}: {result}, {}", text.to_string_lossy()))
}

pub fn join(domain: &str, options: &Options) -> Result<*mut c_void, String> {
    let name = CString::new(domain).map_err(|error| error.to_string())?;
    let mut member = std::ptr::null_mut();
    // SAFETY: all three are valid for the call.
    done("join", unsafe {
        consort_join(name.as_ptr(), options, &mut member)
    })?;
    Ok(member)
}

pub fn new_event(callback: Callback, data: *mut c_void) -> Event {
    let mut event = Event {
        of_loop: std::ptr::null_mut(),
        callback: None,
        data: std::ptr::null_mut(),
        id: 0,
    };
    // SAFETY: the event is idle, so it may be moved afterwards.
    unsafe { consort_event_init(&mut event, callback, data) };
    event
}
