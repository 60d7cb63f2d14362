// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that `consort run --name` has started: all their threads have that name, until they end.

use std::{ops::Bound, time::Instant};

use nix::errno::Errno;

use super::{names::Source, scan::SCAN_TIME, store::Launched};
use crate::{audit, peer::Peer, server::cpu_time, service::Service, Refusal};

impl Service {
    /// A process gets a name for its threads: the one that asks, and that will become another program.
    ///
    /// # Errors
    /// EINVAL for what is no name, EIO when it cannot be kept.
    pub fn name_process(&mut self, peer: &Peer, name: &str) -> Result<(), Refusal> {
        let name = super::bind::check_name(name.as_bytes())?;
        let now = Instant::now();
        self.users.check_members(peer.uid, now)?;
        let launched = Launched {
            pid: peer.pid,
            start: peer.start,
            uid: peer.uid,
            name,
        };
        if let Some(Err(error)) = self
            .groups
            .store
            .as_ref()
            .map(|store| store.keep_name(&launched))
        {
            let text = format!("cannot keep the name, so nothing was changed: {error}");
            return Err(Refusal::new(Errno::EIO, text));
        }
        audit::done(
            self,
            peer,
            "name",
            &format!("process {} is {}", peer.pid, launched.name),
        );
        self.forget_launched(peer.pid, now);
        for tid in self.processes.all_threads(peer.pid) {
            let known = self.groups.names.get(tid);
            if known.is_some_and(|known| known.source == Source::Launched) {
                self.forget_name(tid);
            }
        }
        self.groups.scan.launched.insert(peer.pid, launched);
        self.users.entry(peer.uid, now).members += 1;
        self.look_at(peer.pid, &[], cpu_time() + SCAN_TIME);
        Ok(())
    }

    /// A process' name holds no longer: it has another one, or its number is another process'.
    fn forget_launched(&mut self, pid: i32, now: Instant) {
        if let Some(old) = self.groups.scan.launched.remove(&pid) {
            self.users.entry(old.uid, now).members -= 1;
        }
    }

    /// Those that an earlier daemon knew, if they live.
    pub(super) fn restore_launched(&mut self, all: Vec<Launched>) {
        for launched in all {
            self.users.entry(launched.uid, Instant::now()).members += 1;
            self.groups.scan.launched.insert(launched.pid, launched);
        }
        self.forget_ended(usize::MAX);
    }

    /// Looks at up to `count` of them, in turn.
    pub(super) fn forget_ended(&mut self, count: usize) {
        let (now, scan) = (Instant::now(), &self.groups.scan);
        let later = (Bound::Excluded(scan.looked_for), Bound::Unbounded);
        let some: Vec<&Launched> = scan
            .launched
            .range(later)
            .take(count)
            .map(|(_, one)| one)
            .collect();
        let last = some.last().filter(|_| some.len() == count);
        let last = last.map_or(0, |one| one.pid);
        let has_ended = |one: &&&Launched| !self.processes.is_process(one.pid, one.start);
        let ended: Vec<i32> = some.iter().filter(has_ended).map(|one| one.pid).collect();
        self.groups.scan.looked_for = last;
        for pid in ended {
            self.forget_launched(pid, now);
            if let Some(store) = &self.groups.store {
                store.drop_name(pid);
            }
        }
    }
}
