// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each user holds at the moment.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use consort_rates::accounts::Accounts;
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
    /// Since the daemon started, or since it held something last.
    pub told: Told,
    requests: Bucket,
    /// Of root: what the command asks. A service that asks too much leaves that alone.
    commands: Bucket,
    /// Nanoseconds of the daemon's time.
    cpu: Bucket,
    /// The same, for looking at processes that rules may fit: strangers decide how many there are.
    looks: Bucket,
    /// Lines of the audit trail.
    audit: Bucket,
}

/// What a user has made the daemon do, for `consort status`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Told {
    pub messages: u64,
    pub bytes: u64,
    pub refusals: u64,
    /// Microseconds of the daemon's CPU time.
    pub cpu_us: u64,
}

#[derive(Debug)]
pub struct Users {
    limits: Limits,
    /// As the daemon was started.
    at_start: Limits,
    accounts: Accounts,
    /// On whose account each user number is that is known: what is counted there is given back there.
    on: HashMap<u32, u32>,
    /// By account.
    by_uid: HashMap<u32, User>,
    /// Clients, members and domains of all but root.
    strangers: [usize; 2],
}

/// What the scheduler has room for, less what is kept for root.
const CLIENTS_OF_STRANGERS: usize = 4096 - 512;
const DOMAINS_OF_STRANGERS: usize = 4096 - 512;
/// Of what the others have left, one user gets at most one in so many.
const PART_OF_WHAT_IS_LEFT: usize = 2;
/// Connections of root beyond its programs': its operator gets in when its services have them all.
pub const OPERATORS_CLIENTS: usize = 16;
const COMMANDS_PER_S: u32 = 200;
/// So many seconds of its budget at once: programs start together, and machines may be slow.
const CPU_BURST_S: f64 = 30.0;
/// Amply: connecting in a loop cost others 27 us each time, 1.4 % of a CPU while its burst lasted.
const PAGE_NS: f64 = 200_000.0;
const AUDIT_PER_S: f64 = 10.0;
const AUDIT_BURST: f64 = 100.0;

impl Users {
    pub fn new(limits: Limits) -> Self {
        Users {
            limits,
            at_start: limits,
            accounts: Accounts::default(),
            on: HashMap::new(),
            by_uid: HashMap::new(),
            strangers: [0; 2],
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Holds from now on, `None`: as at the start; buckets of users who are known go on as they were made.
    pub fn set_limits(&mut self, limits: Option<Limits>) {
        self.limits = limits.unwrap_or(self.at_start);
    }

    /// Whose subordinate numbers are. User numbers that are known stay on their account until it holds and owes nothing.
    pub fn set_accounts(&mut self, accounts: Accounts) {
        self.accounts = accounts;
    }

    pub fn entry(&mut self, uid: u32, now: Instant) -> &mut User {
        let limits = self.limits;
        let accounts = &self.accounts;
        let account = *self.on.entry(uid).or_insert_with(|| accounts.of(uid));
        self.by_uid.entry(account).or_insert_with(|| {
            let cpu_ns = limits.cpu_per_s.as_nanos() as f64;
            User {
                clients: 0,
                members: 0,
                domains: 0,
                told: Told::default(),
                requests: Bucket::new(limits.requests_per_s, now),
                commands: Bucket::new(COMMANDS_PER_S, now),
                cpu: Bucket::of_size(cpu_ns, cpu_ns * CPU_BURST_S, now),
                looks: Bucket::of_size(cpu_ns, cpu_ns * CPU_BURST_S, now),
                audit: Bucket::of_size(AUDIT_PER_S, AUDIT_BURST, now),
            }
        })
    }

    /// Whose account a user is on.
    pub fn account(&self, uid: u32) -> u32 {
        let known = self.on.get(&uid).copied();
        known.unwrap_or_else(|| self.accounts.of(uid))
    }

    /// All users, by account.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &User)> {
        self.by_uid.iter().map(|(uid, user)| (*uid, user))
    }

    /// Counts one request of `uid`.
    ///
    /// # Errors
    /// EAGAIN when the user asks faster than allowed.
    pub fn admit_request(&mut self, uid: u32, now: Instant) -> Result<(), Refusal> {
        let rate = self.limits.requests_per_s;
        if self.entry(uid, now).requests.take(now) {
            return Ok(());
        }
        Err(Refusal::new(
            Errno::EAGAIN,
            format!(
                "user {uid} makes more than {rate} requests a second: wait a second and try again"
            ),
        ))
    }

    /// Counts one question of the command.
    ///
    /// # Errors
    /// EAGAIN when the user asks faster than allowed.
    pub fn admit_command(&mut self, uid: u32, now: Instant) -> Result<(), Refusal> {
        if uid == 0 && self.entry(uid, now).commands.take(now) {
            return Ok(());
        }
        self.admit_request(uid, now)
    }

    /// Makes `uid` pay for a request that cost more than one.
    pub fn charge(&mut self, uid: u32, cost: u32) {
        if let Some(user) = self.by_uid.get_mut(&self.account(uid)) {
            user.requests.charge(f64::from(cost));
        }
    }

    /// Makes `uid` pay for the daemon's CPU time.
    pub fn charge_cpu(&mut self, uid: u32, spent: Duration, now: Instant) {
        let user = self.entry(uid, now);
        user.told.cpu_us += spent.as_micros() as u64;
        user.cpu.charge_in_full(spent.as_nanos() as f64);
    }

    /// Makes `uid` pay for what the kernel does later with a connection and its page, in nobody's account: of the same budget,
    /// though the daemon has not had it.
    pub fn charge_page(&mut self, uid: u32, now: Instant) {
        self.entry(uid, now).cpu.charge_in_full(PAGE_NS);
    }

    /// Makes `uid` pay for the daemon's CPU time that looking at processes took: its messages do not wait for that.
    pub fn charge_looks(&mut self, uid: u32, spent: Duration, now: Instant) {
        let user = self.entry(uid, now);
        user.told.cpu_us += spent.as_micros() as u64;
        user.looks.charge_in_full(spent.as_nanos() as f64);
    }

    /// Whether processes are looked at for `uid`: neither its messages nor such looks have taken more time than they may.
    pub fn may_look(&mut self, uid: u32, now: Instant) -> bool {
        let user = self.entry(uid, now);
        let owes = [&mut user.cpu, &mut user.looks].map(|bucket| bucket.owes_for(0.0, now));
        uid == 0 || owes.into_iter().all(|owed| owed.is_none())
    }

    /// How long `uid` must wait until it is listened to again: it has taken more of the daemon's time than it may. Root is
    /// asked to be sensible.
    pub fn waits_for(&mut self, uid: u32, now: Instant) -> Option<Duration> {
        match uid {
            0 => None,
            _ => self.entry(uid, now).cpu.owes_for(0.0, now),
        }
    }

    /// Lets a user connect who does not owe too much of the daemon's time: looking at who it is costs as well.
    ///
    /// # Errors
    /// EAGAIN; EDQUOT with as many programs as one may have, or all.
    pub fn admit_connection(&mut self, uid: u32, now: Instant) -> Result<(), Refusal> {
        if uid != 0 && self.entry(uid, now).cpu.owes_for(1.0, now).is_some() {
            let text = format!(
                "user {uid} takes more of the daemon's time than one may: wait a second and try again"
            );
            return Err(Refusal::new(Errno::EAGAIN, text));
        }
        self.admit_command(uid, now)?;
        self.check_clients(uid, now)
    }

    /// Whether one more line about `uid` goes to the audit trail: nobody can fill the log.
    pub fn may_log(&mut self, uid: u32, now: Instant) -> bool {
        self.entry(uid, now).audit.take(now)
    }

    pub fn add_client(&mut self, uid: u32, now: Instant) {
        self.entry(uid, now).clients += 1;
        self.strangers[0] += usize::from(uid != 0);
    }

    pub fn remove_client(&mut self, uid: u32, now: Instant) {
        self.entry(uid, now).clients -= 1;
        self.strangers[0] -= usize::from(uid != 0);
    }

    pub fn add_domain(&mut self, uid: u32, now: Instant) {
        self.entry(uid, now).domains += 1;
        self.strangers[1] += usize::from(uid != 0);
    }

    pub fn remove_domain(&mut self, uid: u32, now: Instant) {
        self.entry(uid, now).domains -= 1;
        self.strangers[1] -= usize::from(uid != 0);
    }

    /// The limit of a user who has `have`: its own, and no more than a part of what the others have left of all, so that
    /// many users together do not leave the next one without.
    fn most(&self, uid: u32, have: usize, limit: usize, all: usize, taken: usize) -> usize {
        match uid {
            0 => limit,
            _ => limit.min((have + all.saturating_sub(taken)).div_ceil(PART_OF_WHAT_IS_LEFT)),
        }
    }

    pub fn check_clients(&mut self, uid: u32, now: Instant) -> Result<(), Refusal> {
        let have = self.entry(uid, now).clients;
        let limit = self.limits.clients + if uid == 0 { OPERATORS_CLIENTS } else { 0 };
        let max = self.most(uid, have, limit, CLIENTS_OF_STRANGERS, self.strangers[0]);
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
        let have = self.entry(uid, now).domains;
        let limit = self.limits.domains;
        let max = self.most(uid, have, limit, DOMAINS_OF_STRANGERS, self.strangers[1]);
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
        self.by_uid.retain(|_, user| {
            let owed = [
                &mut user.requests,
                &mut user.commands,
                &mut user.cpu,
                &mut user.looks,
                &mut user.audit,
            ];
            // Groups have members and are counted with the domains, also while no program of the user's is connected.
            user.clients + user.members + user.domains > 0
                || owed.into_iter().any(|bucket| !bucket.is_full(now))
        });
        let by_uid = &self.by_uid;
        self.on.retain(|_, account| by_uid.contains_key(account));
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
