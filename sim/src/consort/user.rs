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
pub(super) fn answer(k: &mut Kernel, number: u32, group: u64, record: &mut consort_df_record) {
    check_record(k, group, record);
    k.users.asked += 1;
    let at = k.users.at.get(number as usize).copied().flatten();
    let Some((user, object)) = at.and_then(|at| k.users.all.get(at)) else {
        k.users.missing += 1;
        return;
    };
    match (user, object) {
        (_, Some(object)) => run(object, record),
        (User::Garbage, None) => {
            sign(record, group);
            scribble(record, &mut || k.random.next_u64());
        }
        (User::Ones, None) => {
            sign(record, group);
            scribble(record, &mut || u64::MAX);
        }
        (User::Slow, None) => dawdle(k, record, SLOW_NS),
        (User::MostlySlow, None) if !k.users.asked.is_multiple_of(16) => dawdle(k, record, SLOW_NS),
        (User::MostlySlow, None) => say_nothing(record),
        (User::Costly, None) => dawdle(k, record, COSTLY_NS),
        _ => {}
    }
}

/// Members behind those that the group has, as words.
fn behind(record: &mut consort_df_record) -> &mut [u64] {
    let nr = record.group.nr.min(DF_MEMBERS) as usize;
    let members = &mut record.group.member[nr..];
    let words = size_of_val(members) / size_of::<u64>();
    // SAFETY: numbers, of which all bytes are there, and of which the first are as long as a word.
    unsafe { std::slice::from_raw_parts_mut(members.as_mut_ptr().cast::<u64>(), words) }
}

/// What a function leaves where it has nothing to write, for one of another group to find.
fn sign(record: &mut consort_df_record, group: u64) {
    behind(record).fill(group);
    record.room.fill(u8::MAX);
}

/// Of other groups, which another user may have, nothing is to be seen.
fn check_record(k: &mut Kernel, group: u64, record: &mut consort_df_record) {
    let nr = record.group.nr;
    if nr > DF_MEMBERS {
        k.violate("record", format!("a function is told of {nr} members"));
        return;
    }
    if behind(record)
        .iter()
        .any(|word| *word != 0 && *word != group)
    {
        let detail = format!("a function of {nr} members sees what others left behind these");
        k.violate("record", detail);
    }
    if record.keys.iter().any(|key| *key != 0) || record.room.iter().any(|byte| *byte != 0) {
        k.violate(
            "record",
            "a function sees what another one has answered".to_owned(),
        );
    }
}

/// What a slow function takes for an answer.
const SLOW_NS: u64 = 1_000_000;
const COSTLY_NS: u64 = 190_000;

fn say_nothing(record: &mut consort_df_record) {
    record.keys = [u64::MAX; DF_MEMBERS as usize];
    record.answer = u64::from(CONSORT_DF_KEYS);
}

fn dawdle(k: &mut Kernel, record: &mut consort_df_record, ns: u64) {
    say_nothing(record);
    let cpu = k.this_cpu as usize;
    k.cpus[cpu].asked_ns += ns;
    k.spend(ns);
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

/// All that a function is told, and what it answers.
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
