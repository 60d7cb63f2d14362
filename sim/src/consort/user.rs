// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of users' own answer the scheduler.

use consort_df::{Answer, Object, Record};

use super::Consort;
use crate::ffi::{
    consort_df_record, consort_user_args, CONSORT_DF_KEYS, CONSORT_DF_PICK, CONSORT_USER_SET,
    CONSORT_USER_STATUS, DF_MEMBERS,
};
use crate::kernel::Kernel;
use crate::users::User;

/// What answers at each number.
#[derive(Default)]
pub(crate) struct Users {
    all: Vec<(User, Option<Object>)>,
    /// By number: which of these.
    at: Vec<Option<usize>>,
    /// How often a function was asked.
    pub asked: u64,
    /// Of these, how often there was none.
    pub missing: u64,
}

impl Users {
    pub(crate) fn new(users: &[User]) -> Self {
        // The setup's check: they keep the rules.
        let object = |user: &User| user.object().ok().flatten();
        Users {
            all: users
                .iter()
                .map(|user| (user.clone(), object(user)))
                .collect(),
            at: (0..users.len()).map(Some).collect(),
            asked: 0,
            missing: 0,
        }
    }

    /// Puts another function at a number, or none.
    pub(crate) fn put(&mut self, number: usize, user: Option<usize>) {
        if let Some(at) = self.at.get_mut(number) {
            *at = user;
        }
    }
}

/// What the scheduler's tail call does: whoever is at the number writes into the record.
pub(super) fn answer(k: &mut Kernel, number: u32, record: &mut consort_df_record) {
    check_record(k, record);
    k.users.asked += 1;
    let at = k.users.at.get(number as usize).copied().flatten();
    let Some((user, object)) = at.and_then(|at| k.users.all.get(at)) else {
        k.users.missing += 1;
        return;
    };
    match (user, object) {
        (_, Some(object)) => run(object, record),
        (User::Garbage, None) => scribble(record, &mut || k.random.next_u64()),
        (User::Ones, None) => scribble(record, &mut || u64::MAX),
        _ => {}
    }
}

/// Of other groups, which another user may have, nothing is to be seen.
fn check_record(k: &mut Kernel, record: &consort_df_record) {
    let nr = record.group.nr;
    if nr > DF_MEMBERS {
        k.violate("record", format!("a function is told of {nr} members"));
        return;
    }
    let behind = &record.group.member[nr as usize..];
    // SAFETY: numbers, of which all bytes are there.
    let bytes =
        unsafe { std::slice::from_raw_parts(behind.as_ptr().cast::<u8>(), size_of_val(behind)) };
    if bytes.iter().any(|byte| *byte != 0) {
        let detail = format!("a function of {nr} members sees what others left behind these");
        k.violate("record", detail);
    }
}

fn run(object: &Object, record: &mut consort_df_record) {
    // SAFETY: the same C struct, made from the same header.
    let group =
        unsafe { std::mem::transmute::<crate::ffi::df_group, consort_df::df_group>(record.group) };
    let mut copy = Record::new(&group);
    let answer = object.run(&mut copy);
    // SAFETY: as above.
    record.group =
        unsafe { std::mem::transmute::<consort_df::df_group, crate::ffi::df_group>(copy.group()) };
    match answer {
        Answer::Keys(keys) => {
            for (to, from) in record.keys.iter_mut().zip(keys) {
                *to = from;
            }
            record.answer = u64::from(CONSORT_DF_KEYS);
        }
        Answer::Pick(pick) => {
            record.keys[0] = pick as u64;
            record.answer = u64::from(CONSORT_DF_PICK);
        }
        Answer::Endless => {}
    }
}

/// All that a function can reach, but for what was there of members that it has not: nobody has told it of these.
fn scribble(record: &mut consort_df_record, word: &mut dyn FnMut() -> u64) {
    let nr = (record.group.nr as usize).min(DF_MEMBERS as usize);
    for member in &mut record.group.member[..nr] {
        for to in member.state.iter_mut().chain(&mut member.control) {
            *to = word() as i64;
        }
        member.due_ns = word();
        member.flags = word() as u32;
    }
    for to in &mut record.group.memory {
        *to = word() as i64;
    }
    record.group.nr = word() as u32;
    record.group.ask_after_ns = word();
    for key in &mut record.keys {
        // Many that are right, some that are not.
        *key = match word() {
            all if all == u64::MAX => all,
            any if any & 1 == 0 => any >> 4,
            any => any,
        };
    }
    record.answer = match word() & 1 {
        0 => u64::from(CONSORT_DF_KEYS),
        _ => u64::from(CONSORT_DF_PICK),
    };
}

impl Consort {
    /// A daemon looks at a group's function, or gives it another one.
    pub(super) fn call_user(&mut self, k: &mut Kernel, number: u32, user: Option<u32>) {
        let mut args = consort_user_args {
            operation: match user {
                Some(_) => CONSORT_USER_SET,
                None => CONSORT_USER_STATUS,
            },
            domain: number,
            user: user.unwrap_or_default(),
            ..Default::default()
        };
        self.enter_free(k);
        if let Some(call) = self.scheduler.user {
            // SAFETY: the argument is the program's own struct.
            unsafe { call(&mut args) };
        }
    }
}
