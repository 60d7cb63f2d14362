// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon takes programs over from the one before: their connections, and what the scheduler knows of their members.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::{AsRawFd, OwnedFd},
    time::Instant,
};

use consort_kernel::{DomainLabel, Membership, Thread};
use nix::{
    errno::Errno,
    sys::socket::{shutdown, Shutdown},
};
use tracing::{info, warn};

use crate::{
    clients::{ConnectionId, Member},
    domains::Domain,
    estate::Connection,
    peer::{self, Processes},
    service::Service,
    Refusal,
};

/// All threads of the programs at the other ends: every member is one of them.
pub(crate) fn threads_of(connections: &[Connection]) -> Vec<Thread> {
    let processes = Processes::default();
    let mut pids: Vec<i32> = connections
        .iter()
        .filter_map(|connection| Some(peer::credentials(&connection.socket).ok()?.pid()))
        .collect();
    pids.sort_unstable();
    pids.dedup();
    let threads = pids.into_iter().map(|pid| processes.living_threads(pid));
    threads.flatten().collect()
}

impl Service {
    /// Lets programs in as they were, with their members; returns the connections that are listened to from now on. Called
    /// once, before anybody is served.
    ///
    /// # Errors
    /// The scheduler cannot be asked.
    pub fn adopt_programs(
        &mut self,
        connections: Vec<Connection>,
        now: Instant,
    ) -> Result<Vec<(ConnectionId, OwnedFd)>, Refusal> {
        let interrupted = self.host.answering();
        self.host.set_answering(0);
        for (id, label) in self.host.domains()? {
            self.adopt_domain(id, label, now);
        }
        let mut adopted = Vec::new();
        for (id, connection) in (crate::server::FIRST_CONNECTION..).zip(connections) {
            // Nobody can tell whether what it has asked was done, and it was not told: it asks anew.
            if connection
                .client
                .is_some_and(|client| client == interrupted)
            {
                // Closing would not do: the service manager has it open, too.
                let _ = shutdown(connection.socket.as_raw_fd(), Shutdown::Both);
                continue;
            }
            if self.adopt_program(id, &connection, now) {
                adopted.push((id, connection.socket));
            }
        }
        self.adopt_members(now)?;
        let clients = self.clients.iter();
        let connected: BTreeSet<u32> = clients.filter_map(|(_, client)| client.number).collect();
        self.host.leave_others(&connected)?;
        let domains = self.domains.iter();
        let empty: Vec<u32> = domains
            .filter(|(_, domain)| domain.members == 0)
            .map(|(id, _)| id)
            .collect();
        for id in empty {
            self.remove_domain(id, now);
        }
        info!(
            programs = connected.len(),
            members = self.clients.members(),
            domains = self.domains.len(),
            reservations = self.reservations.ledger.len(),
            "taken over"
        );
        Ok(adopted)
    }

    fn adopt_domain(&mut self, id: u32, label: Option<DomainLabel>, now: Instant) {
        let Some(label) = label else {
            // Made, and never told to anybody.
            return self.destroy_or_doom(id);
        };
        let domain = Domain {
            uid: label.uid,
            name: Some(label.name).filter(|name| !name.is_empty()),
            options: label.options,
            members: 0,
        };
        self.domains.insert(id, domain);
        self.users.add_domain(label.uid, now);
    }

    /// False when the program has gone.
    fn adopt_program(&mut self, id: ConnectionId, connection: &Connection, now: Instant) -> bool {
        let peer = match self.processes.peer_of(&connection.socket) {
            Ok(peer) => peer,
            Err(refusal) => {
                warn!(%refusal, "a program has gone while nobody served it");
                return false;
            }
        };
        self.let_in(id, peer, now);
        if let Some(number) = connection.client {
            self.clients.set_number(id, number);
        }
        true
    }

    /// Each process is looked at once, and each of its threads, however many connections it has.
    fn adopt_members(&mut self, now: Instant) -> Result<(), Refusal> {
        let clients = self.clients.iter();
        let numbered = clients.filter_map(|(id, client)| Some((client.number?, id)));
        let connections: BTreeMap<u32, ConnectionId> = numbered.collect();
        let ids = connections.values();
        let peers = ids.filter_map(|id| Some(&self.clients.get(*id)?.peer));
        let pids: BTreeSet<i32> = peers.map(|peer| peer.pid).collect();
        for pid in pids {
            for thread in self.processes.living_threads(pid) {
                let Some(place) = self.host.member(thread)? else {
                    continue;
                };
                if let Some(id) = connections.get(&place.client) {
                    self.adopt_member(*id, (pid, thread), place, now)?;
                }
            }
        }
        Ok(())
    }

    /// Members through a connection are threads of the process that has opened it.
    fn adopt_member(
        &mut self,
        id: ConnectionId,
        (pid, thread): (i32, Thread),
        place: Membership,
        now: Instant,
    ) -> Result<(), Refusal> {
        let peer = self.clients.get(id).map(|client| &client.peer);
        let Some(peer) = peer.filter(|peer| peer.pid == pid) else {
            return Ok(());
        };
        let (uid, namespaced) = (peer.uid, peer.namespaced);
        let Some(domain) = self.domains.get_mut(place.domain) else {
            let text = format!("thread {} is in a domain that there is not", thread.tid);
            return Err(Refusal::new(Errno::EIO, text));
        };
        domain.members += 1;
        self.users.entry(uid, now).members += 1;
        let named = match namespaced {
            true => self.processes.inner_number(pid, thread.tid),
            false => None,
        };
        let member = Member {
            thread,
            named: named.unwrap_or(thread.tid),
            domain: place.domain,
        };
        self.clients.add_member(id, place.slot, member);
        Ok(())
    }
}
