// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wakers, and loops inside other loops, for C.

use super::error::{given_mut, guarded, status};
use super::event_loop::{self, check, consort_event_finish, consort_event_init, Loop, RawEvent};
use crate::event_loop::{Callback, Event, Waker};
use crate::{Error, NEVER};
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;

/// `consort_wake_callback`.
type Woken = unsafe extern "C" fn(*mut Loop, *mut c_void);

/// `struct consort_waker`. Its event is the loop's like any of C.
pub struct Handle {
    event: RawEvent,
    waker: Waker,
    priority: u32,
    callback: Woken,
    data: *mut c_void,
}

#[no_mangle]
pub unsafe extern "C" fn consort_waker_new(
    of: *mut Loop,
    priority: u32,
    callback: Option<Woken>,
    data: *mut c_void,
    out: *mut *mut Handle,
) -> c_int {
    guarded(|| {
        status(given_mut(out, "waker").and_then(|out| {
            let callback = callback.ok_or(Error::Null { what: "callback" })?;
            check(of)?;
            let handle = Box::into_raw(Box::new(Handle {
                event: RawEvent::idle(),
                waker: Waker::new()?,
                priority,
                callback,
                data,
            }));
            consort_event_init(&raw mut (*handle).event, Some(woken), handle.cast());
            let submitted = event_loop::enter(of, &raw mut (*handle).event)
                .and_then(|event| submit(of, handle, event));
            if let Err(error) = submitted {
                consort_event_finish(&raw mut (*handle).event);
                drop(Box::from_raw(handle));
                return Err(error);
            }
            *out = handle;
            Ok(())
        }))
    })
}

unsafe fn submit(of: *mut Loop, handle: *mut Handle, event: Event) -> Result<(), Error> {
    let when = (*handle).waker.when((*handle).priority);
    check(of)?.events.submit(event, when).map(|_| ())
}

/// The callback may end the waker: nothing of it is used afterwards.
unsafe extern "C" fn woken(of: *mut Loop, event: *mut RawEvent, data: *mut c_void) {
    let handle: *mut Handle = data.cast();
    (*handle).waker.hear();
    if let Ok(name) = event_loop::enter(of, event) {
        // Its descriptor and priority were good before.
        let _ = submit(of, handle, name);
    }
    ((*handle).callback)(of, (*handle).data);
}

#[no_mangle]
pub unsafe extern "C" fn consort_waker_wake(waker: *const Handle) {
    if let Some(handle) = waker.as_ref() {
        handle.waker.wake();
    }
}

#[no_mangle]
pub unsafe extern "C" fn consort_waker_end(waker: *mut Handle) -> c_int {
    if waker.is_null() {
        return 0;
    }
    let ended = consort_event_finish(&raw mut (*waker).event);
    if ended == 0 {
        drop(Box::from_raw(waker));
    }
    ended
}

#[no_mangle]
pub unsafe extern "C" fn consort_loop_fd(of: *mut Loop) -> RawFd {
    match check(of) {
        Ok(own) => own.events.fd(),
        Err(error) => status(Err(error)),
    }
}

#[no_mangle]
pub unsafe extern "C" fn consort_loop_next_due_ns(of: *mut Loop) -> u64 {
    check(of).map_or(NEVER, |own| own.events.next_due_ns())
}

#[no_mangle]
pub unsafe extern "C" fn consort_loop_run_ready(of: *mut Loop) -> c_int {
    guarded(|| status(run_ready(of)))
}

/// As `EventLoop::run_ready`, without holding on to the loop while a callback runs.
unsafe fn run_ready(of: *mut Loop) -> Result<(), Error> {
    check(of)?.events.start()?;
    loop {
        let begun = check(of)?.events.begin_ready();
        match begun {
            Ok(Some((id, callback))) => {
                if let Callback::Foreign(event) = callback {
                    event_loop::call(of, event);
                }
                check(of)?.events.end(id, callback);
            }
            Ok(None) => break check(of).map(|own| own.events.finish()),
            Err(error) => {
                check(of)?.events.finish();
                break Err(error);
            }
        }
    }
}
