// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members and polls for C.

use super::error::{count, given, given_mut, guarded, negative_errno, status};
use super::thread;
use crate::epoll::{Epoll, EpollSleeper};
use crate::layout::{
    JOIN_PREEMPT, NEVER, ORDER_PROGRAM, ORDER_PROGRESS, ORDER_SERVICE, PRIORITY_NONE,
};
use crate::member::{Member, State, DAEMON_WAIT};
use crate::poll::{ClockOnly, Others, RawNext};
use crate::{clock, on_warning, trace, Domain, Error, Listener, Order};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
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

/// `struct consort_next`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct NextOfC {
    due_ns: u64,
    key: u64,
    priority: u32,
    best_effort: u32,
}

impl NextOfC {
    /// Zero means nothing, so that what a program forgets wants nothing.
    #[inline]
    fn raw(&self) -> RawNext {
        RawNext {
            due_ns: match self.due_ns {
                0 => NEVER,
                due_ns => due_ns,
            },
            key: self.key,
            priority: match self.best_effort {
                0 => PRIORITY_NONE,
                _ => self.priority,
            },
        }
    }

    #[inline]
    fn is_sound(&self) -> bool {
        match self.best_effort {
            0 => self.key == 0 && (self.priority == 0 || self.priority == PRIORITY_NONE),
            flag => flag == 1 && self.priority != PRIORITY_NONE,
        }
    }

    fn checked(&self) -> Result<RawNext, Error> {
        match (self.is_sound(), self.best_effort) {
            (true, _) => Ok(self.raw()),
            (false, 0) => Err(Error::NoBestEffort),
            (false, 1) => Err(Error::PriorityRange {
                priority: self.priority,
            }),
            (false, value) => Err(Error::UnknownOption {
                what: "best_effort",
                value,
            }),
        }
    }
}

/// `struct consort_member`. A thread has one, for whatever membership it has, or had last: a call with it after leaving
/// is refused and touches no freed memory.
pub struct Handle {
    thread: usize,
    member: Member,
}

/// The thread's handle, freed when the thread exits. The first thread's is not: what a program has registered with atexit() runs
/// after that, and may still leave.
struct Owned(*mut Handle);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: no arguments, never fails.
        let is_first = unsafe { libc::gettid() } as u32 == std::process::id();
        if !self.0.is_null() && !is_first {
            // SAFETY: made by Box::into_raw in `join`, owned here alone.
            drop(unsafe { Box::from_raw(self.0) });
        }
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
    pub fn state(&self) -> &Rc<State> {
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
    own(member)
}

/// The thread's handle for its new membership.
pub fn own(member: Member) -> Result<*mut Handle, Error> {
    let thread = thread::number();
    let own = |own: &RefCell<Option<Owned>>| {
        let mut own = own.borrow_mut();
        let handle = own.get_or_insert_with(|| Owned(std::ptr::null_mut()));
        if handle.0.is_null() {
            handle.0 = Box::into_raw(Box::new(Handle { thread, member }));
        } else {
            // SAFETY: made by Box::into_raw below, and only this thread has it. What it was has left, or was inherited by a forked child: a living membership has refused the second join.
            unsafe { *handle.0 = Handle { thread, member } };
        }
        handle.0
    };
    OF_THIS_THREAD.try_with(own).map_err(|_| Error::Left)
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
        status(
            Handle::check(member)
                .and_then(|handle| handle.state().leave(Some(Instant::now() + DAEMON_WAIT))),
        )
    })
}

#[inline]
unsafe fn poll(
    member: *mut Handle,
    next: *const NextOfC,
    now_ns: u64,
    others: *mut Others,
) -> c_int {
    if let (Ok(handle), Some(next)) = (Handle::check(member), next.as_ref()) {
        let raw = next.raw();
        if next.is_sound() && handle.state().poll_swiftly(raw, now_ns) {
            if let Some(others) = others.as_mut() {
                *others = Others::read(handle.state().slot());
            }
            if raw.due_ns <= now_ns {
                trace::due_after_poll(raw.due_ns, Some(now_ns));
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
    next: *const NextOfC,
    now_ns: u64,
    others: *mut Others,
) -> c_int {
    guarded(|| {
        status(Handle::check(member).and_then(|handle| {
            let next = given(next, "next")?.checked()?;
            let found = handle.state().poll_slowly(next, now_ns, &mut ClockOnly)?;
            trace::due_after_poll(next.due_ns, None);
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
    next: *const NextOfC,
    others: *mut Others,
) -> c_int {
    poll(member, next, clock::now_ns(), others)
}

#[no_mangle]
pub unsafe extern "C" fn consort_poll_at(
    member: *mut Handle,
    next: *const NextOfC,
    now_ns: u64,
    others: *mut Others,
) -> c_int {
    poll(member, next, now_ns, others)
}

#[no_mangle]
pub unsafe extern "C" fn consort_poll_epoll(
    member: *mut Handle,
    next: *const NextOfC,
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
    next: *const NextOfC,
    epoll_fd: RawFd,
    events: *mut libc::epoll_event,
    max_events: c_int,
    others: *mut Others,
) -> Result<usize, Error> {
    let handle = Handle::check(member)?;
    let next = given(next, "next")?.checked()?;
    let capacity = usize::try_from(max_events).unwrap_or(0);
    if events.is_null() || capacity == 0 {
        return Err(Error::Null { what: "events" });
    }
    let mut epoll = Epoll::new(epoll_fd, capacity);
    let mut sleeper = EpollSleeper(&mut epoll);
    let found = handle.state().poll(next, clock::now_ns(), &mut sleeper)?;
    trace::due_after_poll(next.due_ns, None);
    if let Some(others) = others.as_mut() {
        *others = found;
    }
    let ready = epoll.ready();
    std::ptr::copy_nonoverlapping(ready.as_ptr(), events, ready.len());
    Ok(ready.len())
}

#[no_mangle]
pub unsafe extern "C" fn consort_why_alone(member: *mut Handle) -> c_int {
    guarded(|| match Handle::check(member) {
        Ok(handle) => match handle.state().why_alone.borrow().as_ref() {
            None => 0,
            Some(error) => negative_errno(error),
        },
        Err(error) => negative_errno(&error),
    })
}

#[no_mangle]
pub unsafe extern "C" fn consort_others(member: *mut Handle, others: *mut Others) -> c_int {
    status(Handle::check(member).and_then(|handle| {
        let found = handle.state().others()?;
        *given_mut(others, "others")? = found;
        Ok(())
    }))
}

thread_local! {
    static WHY_TEXT: RefCell<CString> = RefCell::default();
}

#[no_mangle]
pub unsafe extern "C" fn consort_why(member: *mut Handle) -> *const c_char {
    let why = match Handle::check(member) {
        Ok(handle) => handle.member.why(),
        Err(error) => {
            status(Err(error));
            return std::ptr::null();
        }
    };
    let text = why.map(|why| why.to_string()).unwrap_or_default();
    let text = CString::new(text).unwrap_or_default();
    WHY_TEXT
        .try_with(|last| {
            *last.borrow_mut() = text;
            last.borrow().as_ptr()
        })
        .unwrap_or(c"".as_ptr())
}

/// What C gave, for a listener that may be called in any thread: that is the caller's promise.
struct Data(*mut c_void);

// SAFETY: consort.h says that it is handed back in the thread that a warning concerns.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

#[no_mangle]
pub extern "C" fn consort_on_warning(
    warn: Option<unsafe extern "C" fn(*const c_char, *mut c_void)>,
    data: *mut c_void,
) {
    let data = Data(data);
    on_warning(warn.map(|warn| -> Listener {
        Box::new(move |text| {
            let data = &data;
            let text = CString::new(text).unwrap_or_default();
            // SAFETY: the caller's function, with what the caller gave for it.
            unsafe { warn(text.as_ptr(), data.0) }
        })
    }));
}
