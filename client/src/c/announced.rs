// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and variables for C.

use super::error::{given_mut, guarded, status};
use super::member::{own, Handle};
use crate::member::State;
use crate::{announce, Error, SharedState};
use std::ffi::{c_char, c_int, CStr};

#[no_mangle]
pub unsafe extern "C" fn consort_announce(name: *const c_char, member: *mut *mut Handle) -> c_int {
    guarded(|| {
        status(given_mut(member, "member").and_then(|member| {
            if name.is_null() {
                return Err(Error::Null { what: "name" });
            }
            let name = CStr::from_ptr(name).to_str();
            let announced = announce(name.map_err(|_| Error::NameEncoding)?)?;
            *member = own(announced.into_member())?;
            Ok(())
        }))
    })
}

#[no_mangle]
pub unsafe extern "C" fn consort_set_state(member: *mut Handle, index: u32, value: i64) -> c_int {
    let set = || {
        let set = |handle: &Handle| handle.state().set_variable(index as usize, value);
        status(Handle::check(member).and_then(set))
    };
    match Handle::check(member) {
        // It only stores then.
        Ok(handle) if handle.state().is_attached() => set(),
        _ => guarded(set),
    }
}

#[no_mangle]
pub unsafe extern "C" fn consort_get_control(
    member: *mut Handle,
    index: u32,
    value: *mut i64,
) -> c_int {
    status(Handle::check(member).and_then(|handle| {
        *given_mut(value, "value")? = handle.state().control(index as usize)?;
        Ok(())
    }))
}

/// `struct consort_shared_state`.
pub struct SharedOfC(SharedState);

#[no_mangle]
pub unsafe extern "C" fn consort_share_state(
    member: *mut Handle,
    index: u32,
    shared: *mut *mut SharedOfC,
) -> c_int {
    guarded(|| {
        status(Handle::check(member).and_then(|handle| {
            let shared = given_mut(shared, "shared")?;
            let state = handle.state().share_variable(index as usize)?;
            *shared = Box::into_raw(Box::new(SharedOfC(state)));
            Ok(())
        }))
    })
}

#[no_mangle]
pub unsafe extern "C" fn consort_shared_state_set(shared: *const SharedOfC, value: i64) {
    if let Some(shared) = shared.as_ref() {
        shared.0.set(value);
    }
}

#[no_mangle]
pub unsafe extern "C" fn consort_shared_state_end(shared: *mut SharedOfC) {
    if !shared.is_null() {
        // SAFETY: made by Box::into_raw above; the caller says that nobody uses it any more.
        guarded(|| drop(unsafe { Box::from_raw(shared) }));
    }
}

unsafe fn tell(member: *mut Handle, tell: fn(&State) -> Result<(), Error>) -> c_int {
    guarded(|| status(Handle::check(member).and_then(|handle| tell(handle.state()))))
}

#[no_mangle]
pub unsafe extern "C" fn consort_begin_submission(member: *mut Handle) -> c_int {
    tell(member, State::begin_submission)
}

#[no_mangle]
pub unsafe extern "C" fn consort_end_submission(member: *mut Handle) -> c_int {
    tell(member, State::end_submission)
}

#[no_mangle]
pub unsafe extern "C" fn consort_done(member: *mut Handle) -> c_int {
    tell(member, State::done)
}

#[no_mangle]
pub unsafe extern "C" fn consort_trigger_plans(member: *mut Handle) -> c_int {
    tell(member, State::trigger_plans)
}

#[no_mangle]
pub unsafe extern "C" fn consort_look(member: *mut Handle) -> c_int {
    tell(member, State::look)
}
