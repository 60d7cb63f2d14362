// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members and polls for C.

use super::error::{count, given, given_mut, guarded, status};
use super::thread;
use crate::epoll::{Epoll, EpollSleeper};
use crate::layout::{JOIN_PREEMPT, ORDER_PROGRAM, ORDER_PROGRESS, ORDER_SERVICE};
use crate::member::{Member, State, DAEMON_WAIT};
use crate::poll::{ClockOnly, Others, RawNext};
use crate::{clock, Domain, Error, Order};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, CStr};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Instant;

/// `struct consort_options`.
#[repr(C)]
pub struct Options {
    event_ns: u64,
    order: u32,
    flags: u32,
}

/// `struct consort_member`.
pub struct Handle {
    thread: usize,
    member: Member,
}

/// The thread's handle, freed at the latest when the thread exits.
struct Owned(*mut Handle);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw in `join`, owned here alone.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

thread_local! {
    static OF_THIS_THREAD: RefCell<Option<Owned>> = const { RefCell::new(None) };
}

impl Handle {
    /// # Safety
    /// `handle` is null or valid.
    #[inline]
    pub unsafe fn check<'a>(handle: *const Handle) -> Result<&'a Handle, Error> {
        let handle = given(handle, "member")?;
        if handle.thread == thread::number() {
            Ok(handle)
        } else {
            Err(Error::WrongThread)
        }
    }

    pub fn member(&self) -> &Member {
        &self.member
    }

    #[inline]
    fn state(&self) -> &Rc<State> {
        self.member.state()
    }
}

#[no_mangle]
pub extern "C" fn consort_now_ns() -> u64 {
    clock::now_ns()
}

#[no_mangle]
pub unsafe extern "C" fn consort_join(
    domain: *const c_char,
    options: *const Options,
    member: *mut *mut Handle,
) -> c_int {
    guarded(|| {
        let member = match member.as_mut() {
            Some(member) => member,
            None => return status(Err(Error::Null { what: "member" })),
        };
        status(join(domain, options).map(|handle| *member = handle))
    })
}

unsafe fn join(domain: *const c_char, options: *const Options) -> Result<*mut Handle, Error> {
    let name = match domain.is_null() {
        true => "",
        false => CStr::from_ptr(domain)
            .to_str()
            .map_err(|_| Error::NameEncoding)?,
    };
    let member = with_options(Domain::named(name), options.as_ref())?.join()?;
    let handle = Box::into_raw(Box::new(Handle {
        thread: thread::number(),
        member,
    }));
    let owned = Owned(handle);
    // Replaces only what a forked child inherited: a living membership has refused the second join.
    OF_THIS_THREAD
        .try_with(|own| own.borrow_mut().replace(owned))
        .map_err(|_| Error::Left)?;
    Ok(handle)
}

fn with_options(domain: Domain, options: Option<&Options>) -> Result<Domain, Error> {
    let Some(options) = options else {
        return Ok(domain);
    };
    let order = match options.order {
        ORDER_PROGRAM => Order::Program,
        ORDER_PROGRESS => Order::Progress,
        ORDER_SERVICE => Order::Service,
        value => {
            return Err(Error::UnknownOption {
                what: "order",
                value,
            })
        }
    };
    if options.flags & !JOIN_PREEMPT != 0 {
        return Err(Error::UnknownOption {
            what: "flags",
            value: options.flags,
        });
    }
    Ok(domain
        .event_ns(options.event_ns)
        .order(order)
        .preempt(options.flags & JOIN_PREEMPT != 0))
}

#[no_mangle]
pub unsafe extern "C" fn consort_leave(member: *mut Handle) -> c_int {
    if member.is_null() {
        return 0;
    }
    guarded(|| {
        status(Handle::check(member).and_then(|handle| {
            let left = handle.state().leave(Some(Instant::now() + DAEMON_WAIT));
            let _ = OF_THIS_THREAD.try_with(|own| own.borrow_mut().take());
            left
        }))
    })
}

#[inline]
unsafe fn poll(
    member: *mut Handle,
    next: *const RawNext,
    now_ns: u64,
    others: *mut Others,
) -> c_int {
    if let (Ok(handle), Some(next)) = (Handle::check(member), next.as_ref()) {
        if handle.state().poll_swiftly(*next, now_ns) {
            if let Some(others) = others.as_mut() {
                *others = Others::read(handle.state().slot());
            }
            return 0;
        }
    }
    poll_slowly(member, next, now_ns, others)
}

#[cold]
#[inline(never)]
unsafe fn poll_slowly(
    member: *mut Handle,
    next: *const RawNext,
    now_ns: u64,
    others: *mut Others,
) -> c_int {
    guarded(|| {
        status(Handle::check(member).and_then(|handle| {
            let next = *given(next, "next")?;
            let found = handle.state().poll(next, now_ns, &mut ClockOnly)?;
            if let Some(others) = others.as_mut() {
                *others = found;
            }
            Ok(())
        }))
    })
}

#[no_mangle]
pub unsafe extern "C" fn consort_poll(
    member: *mut Handle,
    next: *const RawNext,
    others: *mut Others,
) -> c_int {
    poll(member, next, clock::now_ns(), others)
}

#[no_mangle]
pub unsafe extern "C" fn consort_poll_at(
    member: *mut Handle,
    next: *const RawNext,
    now_ns: u64,
    others: *mut Others,
) -> c_int {
    poll(member, next, now_ns, others)
}

#[no_mangle]
pub unsafe extern "C" fn consort_poll_epoll(
    member: *mut Handle,
    next: *const RawNext,
    epoll_fd: RawFd,
    events: *mut libc::epoll_event,
    max_events: c_int,
    others: *mut Others,
) -> c_int {
    guarded(|| {
        count(poll_epoll(
            member, next, epoll_fd, events, max_events, others,
        ))
    })
}

unsafe fn poll_epoll(
    member: *mut Handle,
    next: *const RawNext,
    epoll_fd: RawFd,
    events: *mut libc::epoll_event,
    max_events: c_int,
    others: *mut Others,
) -> Result<usize, Error> {
    let handle = Handle::check(member)?;
    let next = *given(next, "next")?;
    let capacity = usize::try_from(max_events).unwrap_or(0);
    if events.is_null() || capacity == 0 {
        return Err(Error::Null { what: "events" });
    }
    let mut epoll = Epoll::new(epoll_fd, capacity);
    let mut sleeper = EpollSleeper(&mut epoll);
    let found = handle.state().poll(next, clock::now_ns(), &mut sleeper)?;
    if let Some(others) = others.as_mut() {
        *others = found;
    }
    let ready = epoll.ready();
    std::ptr::copy_nonoverlapping(ready.as_ptr(), events, ready.len());
    Ok(ready.len())
}

#[no_mangle]
pub unsafe extern "C" fn consort_others(member: *mut Handle, others: *mut Others) -> c_int {
    status(Handle::check(member).and_then(|handle| {
        let found = handle.state().others()?;
        *given_mut(others, "others")? = found;
        Ok(())
    }))
}
