// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each user holds at the moment.

use std::{collections::HashMap, time::Instant};

use nix::errno::Errno;

use crate::{
    limits::{Bucket, Limits},
    Refusal,
};

#[derive(Debug)]
pub struct User {
    pub clients: usize,
    pub members: usize,
    pub domains: usize,
    bucket: Bucket,
}

#[derive(Debug)]
pub struct Users {
    limits: Limits,
    by_uid: HashMap<u32, User>,
}

impl Users {
    pub fn new(limits: Limits) -> Self {
        Users {
            limits,
            by_uid: HashMap::new(),
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn entry(&mut self, uid: u32, now: Instant) -> &mut User {
        let rate = self.limits.requests_per_s;
        self.by_uid.entry(uid).or_insert_with(|| User {
            clients: 0,
            members: 0,
            domains: 0,
            bucket: Bucket::new(rate, now),
        })
    }

    /// Counts one request of `uid`.
    ///
    /// # Errors
    /// EAGAIN when the user asks faster than allowed.
    pub fn admit_request(&mut self, uid: u32, now: Instant) -> Result<(), Refusal> {
        let rate = self.limits.requests_per_s;
        if self.entry(uid, now).bucket.take(now) {
            return Ok(());
        }
        Err(Refusal::new(
            Errno::EAGAIN,
            format!(
                "user {uid} makes more than {rate} requests a second: wait a second and try again"
            ),
        ))
    }

    /// Makes `uid` pay for a request that cost more than one.
    pub fn charge(&mut self, uid: u32, cost: u32) {
        if let Some(user) = self.by_uid.get_mut(&uid) {
            user.bucket.charge(cost);
        }
    }

    pub fn check_clients(&mut self, uid: u32, now: Instant) -> Result<(), Refusal> {
        let max = self.limits.clients;
        let have = self.entry(uid, now).clients;
        check(uid, have, max, "connected programs", "end some")
    }

    pub fn check_members(&mut self, uid: u32, now: Instant) -> Result<(), Refusal> {
        let max = self.limits.members;
        let have = self.entry(uid, now).members;
        check(
            uid,
            have,
            max,
            "member threads",
            "let some leave their domains",
        )
    }

    pub fn check_domains(&mut self, uid: u32, now: Instant) -> Result<(), Refusal> {
        let max = self.limits.domains;
        let have = self.entry(uid, now).domains;
        check(
            uid,
            have,
            max,
            "domains",
            "share one by its name, or leave some",
        )
    }

    /// Forgets users who hold nothing and are owed no waiting.
    pub fn forget_idle(&mut self, now: Instant) {
        self.by_uid
            .retain(|_, user| user.clients > 0 || !user.bucket.is_full(now));
    }
}

fn check(uid: u32, have: usize, max: usize, what: &str, remedy: &str) -> Result<(), Refusal> {
    if have < max {
        return Ok(());
    }
    Err(Refusal::new(
        Errno::EDQUOT,
        format!("user {uid} has {have} {what}, the most that one user may have: {remedy}"),
    ))
}
