// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reservation has and uses, for C: asked for once, or by a loop again and again.

use super::error::{given_mut, guarded, negative_errno, status};
use super::event_loop::{self, check, consort_event_finish, consort_event_init, Loop, RawEvent};
use crate::event_loop::Event;
use crate::usage::{self, Inquiry, Usage};
use crate::Error;
use std::ffi::{c_int, c_void};

/// What is not known yet.
const UNKNOWN: f64 = -1.0;

/// `struct consort_usage`.
#[repr(C)]
pub struct RawUsage {
    asked: f64,
    lent: f64,
    held: f64,
    given: f64,
    used_1s: f64,
    used_10s: f64,
    used_60s: f64,
    suggested: f64,
    late_s: u32,
    threads: u32,
}

impl RawUsage {
    fn of(usage: &Usage) -> RawUsage {
        let [used_1s, used_10s, used_60s] = usage.used.map(|rate| rate.unwrap_or(UNKNOWN));
        RawUsage {
            asked: usage.asked,
            lent: usage.lent,
            held: usage.held,
            given: usage.given,
            used_1s,
            used_10s,
            used_60s,
            suggested: usage.suggested.unwrap_or(UNKNOWN),
            late_s: usage.late_s,
            threads: usage.threads,
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn consort_usage(usage: *mut RawUsage) -> c_int {
    guarded(|| {
        status(given_mut(usage, "usage").and_then(|to| {
            *to = RawUsage::of(&usage::usage()?);
            Ok(())
        }))
    })
}

/// `consort_usage_callback`.
type Told = unsafe extern "C" fn(*mut Loop, c_int, *const RawUsage, *mut c_void);

/// `struct consort_usage_watch`. Its events are the loop's like any of C.
pub struct Watch {
    asks: RawEvent,
    answers: RawEvent,
    names: [Event; 2],
    inquiry: Inquiry,
    callback: Told,
    data: *mut c_void,
}

#[no_mangle]
pub unsafe extern "C" fn consort_loop_watch_usage(
    of: *mut Loop,
    period_ns: u64,
    priority: u32,
    callback: Option<Told>,
    data: *mut c_void,
    out: *mut *mut Watch,
) -> c_int {
    guarded(|| {
        status(given_mut(out, "watch").and_then(|out| {
            let callback = callback.ok_or(Error::Null { what: "callback" })?;
            let now_ns = check(of)?.events.now_ns();
            let watch = Box::into_raw(Box::new(Watch {
                asks: RawEvent::idle(),
                answers: RawEvent::idle(),
                names: [Event(0), Event(0)],
                inquiry: Inquiry::every(period_ns, priority, now_ns)?,
                callback,
                data,
            }));
            consort_event_init(&raw mut (*watch).asks, Some(ask), watch.cast());
            consort_event_init(&raw mut (*watch).answers, Some(answer), watch.cast());
            let asks = event_loop::enter(of, &raw mut (*watch).asks)?;
            let answers = event_loop::enter(of, &raw mut (*watch).answers)?;
            (*watch).names = [asks, answers];
            (*watch).inquiry.begin(&mut check(of)?.events, asks)?;
            *out = watch;
            Ok(())
        }))
    })
}

unsafe extern "C" fn ask(of: *mut Loop, _: *mut RawEvent, data: *mut c_void) {
    let watch: *mut Watch = data.cast();
    let asked = check(of).and_then(|own| {
        let names = (*watch).names;
        (*watch).inquiry.ask(&mut own.events, names)
    });
    if let Err(error) = asked {
        tell(watch, of, Err(error));
    }
}

unsafe extern "C" fn answer(of: *mut Loop, _: *mut RawEvent, data: *mut c_void) {
    let watch: *mut Watch = data.cast();
    let answered = match check(of) {
        Ok(own) => {
            let [_, answers] = (*watch).names;
            (*watch).inquiry.answer(&mut own.events, answers)
        }
        Err(error) => Some(Err(error)),
    };
    if let Some(outcome) = answered {
        tell(watch, of, outcome);
    }
}

/// The callback may end the watch: nothing of it is used afterwards.
unsafe fn tell(watch: *mut Watch, of: *mut Loop, outcome: Result<Usage, Error>) {
    let (callback, data) = ((*watch).callback, (*watch).data);
    match outcome {
        Ok(usage) => callback(of, 0, &RawUsage::of(&usage), data),
        Err(error) => callback(of, negative_errno(&error), std::ptr::null(), data),
    }
}

#[no_mangle]
pub unsafe extern "C" fn consort_usage_watch_end(watch: *mut Watch) -> c_int {
    if watch.is_null() {
        return 0;
    }
    let ended = consort_event_finish(&raw mut (*watch).answers);
    if ended != 0 {
        return ended;
    }
    consort_event_finish(&raw mut (*watch).asks);
    drop(Box::from_raw(watch));
    0
}
