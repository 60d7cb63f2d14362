// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon follows another one while the scheduler stays in charge. Whatever groups that has are ended, and all are made
//! anew from the store, with the threads that had announced themselves: nobody has to find out how far the daemon before
//! had come. Their members are as other threads for these few milliseconds; plans go on where they are.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    time::Instant,
};

use consort_kernel::{Error, LeaveArgs, Thread, NEVER_NS};
use tracing::{info, warn};

use super::{
    names::{Known, Source},
    plan::Standing,
    store::{self, Announced},
    Groups,
};
use crate::{service::Service, targets::Target};

impl Service {
    /// Ends all groups that the scheduler has, before the reservations are looked at that their members share. Programs
    /// have the pages `clients`, and among `threads` are all theirs.
    ///
    /// # Errors
    /// The scheduler cannot be asked.
    pub fn end_groups_left(
        &mut self,
        folder: &Path,
        clients: &BTreeSet<u32>,
        threads: &[Thread],
    ) -> Result<(), Error> {
        let domains = self.host.domains()?.into_iter();
        let nameless = domains.filter(|(_, label)| label.is_none());
        let left: BTreeSet<u32> = nameless.map(|(id, _)| id).collect();
        for (id, place) in store::take_groups(folder) {
            match self.host.role_status(id, 0) {
                Ok(told) if left.contains(&id) && told.zero_ns != NEVER_NS => {
                    self.groups.begun.insert(place, told.zero_ns);
                }
                _ => {}
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        for thread in threads {
            let place = self.host.member(*thread)?;
            if let Some(place) = place.filter(|place| left.contains(&place.domain)) {
                // A thread that has ended meanwhile has left.
                let _ = self.host.leave(LeaveArgs {
                    tid: thread.tid,
                    client: place.client,
                    slot: place.slot,
                });
            }
        }
        self.host.leave_others(clients)?;
        info!(groups = left.len(), "groups of the daemon before end");
        left.into_iter()
            .for_each(|id| self.destroy_group_or_doom(id));
        Ok(())
    }

    /// Another daemon may have ended the groups and made them anew, and has not taken over.
    pub(crate) fn take_groups_back(&mut self) {
        let Some(folder) = self.groups.store.as_ref().map(|store| store.folder.clone()) else {
            return;
        };
        let clients = self.clients.iter();
        let numbered = clients.filter_map(|(_, client)| Some((client.number?, client.peer.pid)));
        let (clients, pids): (BTreeSet<u32>, BTreeSet<i32>) = numbered.unzip();
        let threads = pids.into_iter();
        let threads = threads.flat_map(|pid| self.processes.living_threads(pid));
        let threads: Vec<Thread> = threads.collect();
        let now = Instant::now();
        let groups = std::mem::take(&mut self.groups);
        let of_groups = groups.made.into_values().filter(|made| made.id.is_some());
        of_groups.for_each(|made| self.users.remove_domain(made.file.uid, now));
        let named = groups.names.after(i32::MIN).map(|(_, known)| known.uid);
        for uid in named.chain(groups.scan.launched().map(|one| one.uid)) {
            self.users.entry(uid, now).members -= 1;
        }
        // The notes tell of whatever groups there are now, this daemon's or the other one's.
        if let Err(error) = self.end_groups_left(&folder, &clients, &threads) {
            warn!(%error, "groups cannot be ended");
        }
        self.end_promises();
        self.open_groups(&folder);
    }

    /// Ends the reservations of groups, whichever daemon has made them: the journal has no numbers for them.
    fn end_promises(&mut self) {
        let ledger = &self.reservations.ledger;
        let of_groups = ledger
            .iter()
            .filter(|(_, held)| matches!(held.target, Target::Group { .. }));
        let numbers: Vec<u32> = of_groups.map(|(number, _)| number).collect();
        for number in numbers {
            self.reservations.ledger.remove(number);
            self.reservations.in_force.remove(&number);
        }
        self.reservations.doomed.clear();
        match self.host.reservations() {
            Ok(all) => {
                let unknown = all.into_iter().filter(|(_, number)| number.is_none());
                unknown.for_each(|(id, _)| self.end(id));
            }
            Err(error) => warn!(%error, "the reservations of groups cannot be ended"),
        }
    }

    /// Those that have said their name to a daemon before, and are connected still.
    pub(super) fn restore_announced(&mut self, mut all: Vec<Announced>) {
        let clients = self.clients.iter();
        let connections: HashMap<u32, (u64, i32)> = clients
            .filter_map(|(id, client)| Some((client.number?, (id, client.peer.pid))))
            .collect();
        all.sort_by_key(|one| one.order);
        for one in all {
            let connection = connections.get(&one.client);
            let connection = connection.filter(|(_, pid)| *pid == one.pid);
            let (tid, start) = (one.tid, one.start);
            let thread = Thread { tid, start };
            match connection {
                Some((connection, _)) if self.processes.lives(one.pid, thread) => {
                    let source = Source::Announced {
                        connection: *connection,
                        client: one.client,
                        slot: one.slot,
                        named: one.named,
                    };
                    let known = Known {
                        uid: one.uid,
                        pid: one.pid,
                        thread,
                        name: one.name,
                        source,
                        bound: None,
                        refused: None,
                    };
                    self.learn(known, Instant::now());
                }
                _ => self.drop_announced(one.tid),
            }
        }
    }

    /// Notes a name that was announced. Without the note it ends with the daemon.
    pub(super) fn note_announced(&mut self, tid: i32) {
        let groups = &self.groups;
        let Some((store, (order, known))) = groups.store.as_ref().zip(groups.names.entry(tid))
        else {
            return;
        };
        let Source::Announced {
            client,
            slot,
            named,
            ..
        } = known.source
        else {
            return;
        };
        store.note_announced(&Announced {
            tid,
            start: known.thread.start,
            pid: known.pid,
            uid: known.uid,
            client,
            slot,
            named,
            order,
            name: known.name.clone(),
        });
    }

    pub(super) fn drop_announced(&self, tid: i32) {
        if let Some(store) = &self.groups.store {
            store.drop_announced(tid);
        }
    }

    /// Plans of groups that were made anew go on where they were.
    pub(super) fn go_on(&mut self) {
        for ((key, group), zero_ns) in std::mem::take(&mut self.groups.begun) {
            let standing = Standing {
                began_ns: Some(zero_ns),
                paused_at_ns: None,
            };
            self.stand_again(&key, &group, standing);
        }
    }
}

impl Groups {
    /// Notes which of the scheduler's groups is whose, for the next daemon.
    pub(super) fn note_group(&self, id: u32, uid: u32, file: &str, group: &str) {
        if let Some(store) = &self.store {
            store.note_group(id, uid, file, group);
        }
    }
}
