// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event loop for C: events are embedded in the caller's own structures.

use super::error::{given, given_mut, guarded, status};
use super::member;
use super::thread;
use crate::event_loop::{Callback, Event, EventLoop, Interest, When};
use crate::poll::Others;
use crate::Error;
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;

/// `struct consort_loop`.
pub struct Loop {
    thread: usize,
    pub(super) events: EventLoop,
}

/// `consort_callback`.
pub(super) type Call = unsafe extern "C" fn(*mut Loop, *mut RawEvent, *mut c_void);

/// `struct consort_event`.
#[repr(C)]
pub struct RawEvent {
    pub(super) of: *mut Loop,
    callback: Option<Call>,
    data: *mut c_void,
    id: u64,
}

impl RawEvent {
    pub(super) fn idle() -> RawEvent {
        RawEvent {
            of: std::ptr::null_mut(),
            callback: None,
            data: std::ptr::null_mut(),
            id: 0,
        }
    }
}

/// # Safety
/// `of` is null or valid. The reference must end before a callback runs: callbacks make their own.
pub(super) unsafe fn check<'a>(of: *mut Loop) -> Result<&'a mut Loop, Error> {
    if of.is_null() {
        return Err(Error::Null { what: "loop" });
    }
    // Compared before a reference is made: another thread may hold one.
    if (&raw const (*of).thread).read() != thread::number() {
        return Err(Error::WrongThread);
    }
    Ok(&mut *of)
}

#[no_mangle]
pub unsafe extern "C" fn consort_loop_new(
    member: *mut member::Handle,
    out: *mut *mut Loop,
) -> c_int {
    guarded(|| {
        let made = match member.is_null() {
            true => EventLoop::new(),
            false => member::Handle::check(member)
                .and_then(|handle| EventLoop::for_borrowed_member(handle.member())),
        };
        status(made.and_then(|events| {
            let out = given_mut(out, "loop")?;
            *out = Box::into_raw(Box::new(Loop {
                thread: thread::number(),
                events,
            }));
            Ok(())
        }))
    })
}

#[no_mangle]
pub unsafe extern "C" fn consort_loop_destroy(of: *mut Loop) -> c_int {
    if of.is_null() {
        return 0;
    }
    guarded(|| status(destroy(of)))
}

unsafe fn destroy(of: *mut Loop) -> Result<(), Error> {
    let own = check(of)?;
    if own.events.is_running() {
        return Err(Error::Running);
    }
    for event in own.events.foreign_events() {
        let event: *mut RawEvent = event.cast();
        (*event).of = std::ptr::null_mut();
    }
    drop(Box::from_raw(of));
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn consort_loop_run(of: *mut Loop) -> c_int {
    guarded(|| status(run(of)))
}

/// As [`EventLoop::run`], without holding on to the loop while a callback runs.
unsafe fn run(of: *mut Loop) -> Result<(), Error> {
    check(of)?.events.start()?;
    loop {
        let begun = check(of)?.events.begin();
        match begun {
            Ok(Some((id, callback))) => {
                if let Callback::Foreign(event) = callback {
                    call(of, event);
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

/// Calls an event's callback, which may finish it.
pub(super) unsafe fn call(of: *mut Loop, event: *mut c_void) {
    let event: *mut RawEvent = event.cast();
    if let Some(call) = (*event).callback {
        call(of, event, (*event).data);
    }
}

#[no_mangle]
pub unsafe extern "C" fn consort_loop_stop(of: *mut Loop) -> c_int {
    status(check(of).map(|own| own.events.stop()))
}

#[no_mangle]
pub unsafe extern "C" fn consort_loop_set_fd_interval_ns(of: *mut Loop, interval_ns: u64) -> c_int {
    status(check(of).map(|own| own.events.set_fd_interval_ns(interval_ns)))
}

#[no_mangle]
pub unsafe extern "C" fn consort_loop_others(of: *mut Loop, others: *mut Others) -> c_int {
    status(check(of).and_then(|own| {
        let found = own.events.others()?;
        *given_mut(others, "others")? = found;
        Ok(())
    }))
}

#[no_mangle]
pub unsafe extern "C" fn consort_event_init(
    event: *mut RawEvent,
    callback: Option<Call>,
    data: *mut c_void,
) {
    event.write(RawEvent {
        callback,
        data,
        ..RawEvent::idle()
    });
}

/// The event's name in the loop, given on its first submission.
pub(super) unsafe fn enter(of: *mut Loop, event: *mut RawEvent) -> Result<Event, Error> {
    let raw = given_mut(event, "event")?;
    if raw.callback.is_none() {
        return Err(Error::Null { what: "callback" });
    }
    if raw.of == of {
        return Ok(Event(raw.id));
    }
    if !raw.of.is_null() {
        return Err(Error::OtherLoop);
    }
    let id = check(of)?.events.foreign_event(event.cast());
    raw.of = of;
    raw.id = id.0;
    Ok(id)
}

unsafe fn submit(of: *mut Loop, event: *mut RawEvent, when: When) -> c_int {
    guarded(|| {
        status(check(of).map(|_| ()).and_then(|()| {
            let id = enter(of, event)?;
            check(of)?.events.submit(id, when).map(|_| ())
        }))
    })
}

#[no_mangle]
pub unsafe extern "C" fn consort_event_submit_due(
    of: *mut Loop,
    event: *mut RawEvent,
    due_ns: u64,
) -> c_int {
    submit(of, event, When::Due { due_ns })
}

#[no_mangle]
pub unsafe extern "C" fn consort_event_submit_best_effort(
    of: *mut Loop,
    event: *mut RawEvent,
    priority: u32,
    key: u64,
) -> c_int {
    submit(of, event, When::BestEffort { priority, key })
}

#[no_mangle]
pub unsafe extern "C" fn consort_event_submit_fd(
    of: *mut Loop,
    event: *mut RawEvent,
    fd: RawFd,
    epoll_events: u32,
    priority: u32,
    key: u64,
) -> c_int {
    let when = When::Ready {
        fd,
        interest: Interest(epoll_events),
        priority,
        key,
    };
    submit(of, event, when)
}

/// What the event's loop says of it; `idle` if it is in none.
unsafe fn with_loop<T>(
    event: *const RawEvent,
    idle: T,
    ask: impl FnOnce(&mut EventLoop, Event) -> T,
) -> Result<T, Error> {
    let raw = given(event, "event")?;
    if raw.of.is_null() {
        return Ok(idle);
    }
    let own = check(raw.of)?;
    Ok(ask(&mut own.events, Event(raw.id)))
}

#[no_mangle]
pub unsafe extern "C" fn consort_event_cancel(event: *mut RawEvent) -> c_int {
    guarded(|| status(with_loop(event, (), |events, id| events.cancel(id))))
}

#[no_mangle]
pub unsafe extern "C" fn consort_event_finish(event: *mut RawEvent) -> c_int {
    guarded(|| {
        status(
            with_loop(event, (), |events, id| events.remove(id)).map(|()| {
                (*event).of = std::ptr::null_mut();
            }),
        )
    })
}

#[no_mangle]
pub unsafe extern "C" fn consort_event_is_submitted(event: *const RawEvent) -> c_int {
    let submitted = with_loop(event, false, |events, id| events.is_submitted(id));
    c_int::from(submitted.unwrap_or(false))
}

#[no_mangle]
pub unsafe extern "C" fn consort_event_ready(event: *const RawEvent) -> u32 {
    with_loop(event, 0, |events, id| events.ready(id)).unwrap_or(0)
}
