// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the service, and what happens without a request: programs come and go, threads die.

use std::{
    os::fd::AsFd,
    path::PathBuf,
    time::{Duration, Instant},
};

use consort_kernel::{ExitReport, LeaveArgs, Membership, Thread};
use nix::errno::Errno;
use tracing::{debug, warn};

use crate::{
    audit,
    bills::Bills,
    clients::{Clients, ConnectionId},
    config::Division,
    domains::Domains,
    ejection::{Ejections, Restarts},
    functions::Functions,
    groups::Groups,
    limits::Limits,
    peer::{self, Peer, Processes},
    reservations::Reservations,
    users::Users,
    Host, Refusal,
};

/// Members looked at in each [`Service::tick`]: bounds what it costs, whatever programs do.
const SWEEP_MEMBERS: usize = 256;

/// Sweeps after a member's end: the first may come before the thread is seen to have ended, or be under way already.
const SWEEPS: u32 = 3;

/// What the service did since it started, for `consort status`.
#[derive(Debug, Default, Clone, Copy, serde::Serialize)]
pub struct Totals {
    pub connections: u64,
    pub requests: u64,
    pub refusals: u64,
    pub joins: u64,
    pub leaves: u64,
    /// Members whose thread or program ended without leaving.
    pub lost_members: u64,
}

pub struct Service {
    pub(crate) host: Box<dyn Host>,
    pub(crate) processes: Processes,
    pub(crate) users: Users,
    pub(crate) bills: Bills,
    pub(crate) clients: Clients,
    pub(crate) domains: Domains,
    pub(crate) reservations: Reservations,
    pub(crate) groups: Groups,
    pub(crate) functions: Functions,
    pub(crate) totals: Totals,
    /// The operator's file; `None`: where it is by default.
    pub(crate) file: Option<PathBuf>,
    /// Another daemon has been told that it may take over.
    pub(crate) hands_over: bool,
    /// Lines that the audit trail left out since the last one.
    pub(crate) left_out: u64,
    pub(crate) started: Instant,
    /// Before this scheduler.
    pub(crate) ejections: Ejections,
    /// Domains without members that the scheduler could not remove yet, since a member was still dying.
    doomed_domains: Vec<u32>,
    /// Where the last sweep for dead members stopped.
    sweep_from: (ConnectionId, u32),
    /// The scheduler's count of members that ended, when the sweep that goes on began.
    ends_seen: u64,
    /// Sweeps that are still to be done.
    sweeps: u32,
}

impl Service {
    pub fn new(host: Box<dyn Host>, processes: Processes, limits: Limits) -> Self {
        let division = Division::by_default(host.cpus());
        Service {
            reservations: Reservations::new(division),
            host,
            processes,
            users: Users::new(limits),
            bills: Bills::default(),
            clients: Clients::default(),
            domains: Domains::default(),
            groups: Groups::default(),
            functions: Functions::default(),
            totals: Totals::default(),
            file: None,
            hands_over: false,
            left_out: 0,
            started: Instant::now(),
            ejections: Ejections::new(Restarts::default()),
            doomed_domains: Vec::new(),
            sweep_from: (0, 0),
            ends_seen: 0,
            sweeps: 0,
        }
    }

    /// Lets a program in.
    ///
    /// # Errors
    /// EAGAIN or EDQUOT when its user has too much of it.
    pub fn connect(&mut self, id: ConnectionId, peer: Peer, now: Instant) -> Result<(), Refusal> {
        self.totals.connections += 1;
        let admitted = self.users.admit_connection(peer.uid, now);
        self.note_refusal((peer.uid, peer.pid), now, &admitted);
        admitted?;
        self.let_in(id, peer, now);
        Ok(())
    }

    /// Lets a program in whose user number the kernel has told; who exactly it is, is looked up only then.
    ///
    /// # Errors
    /// Those of [`Service::connect`], EACCES.
    pub fn connect_from(
        &mut self,
        id: ConnectionId,
        socket: impl AsFd,
        now: Instant,
    ) -> Result<(), Refusal> {
        self.totals.connections += 1;
        let credentials = peer::credentials(&socket)?;
        let (uid, pid) = (credentials.uid(), credentials.pid());
        let admitted = self.users.admit_connection(uid, now);
        self.note_refusal((uid, pid), now, &admitted);
        admitted?;
        let found = self.processes.peer_at(&socket, &credentials);
        self.note_refusal((uid, pid), now, &found);
        self.let_in(id, found?, now);
        Ok(())
    }

    pub(crate) fn let_in(&mut self, id: ConnectionId, peer: Peer, now: Instant) {
        self.users.add_client(peer.uid, now);
        self.clients.insert(id, peer);
    }

    fn note_refusal<T>(
        &mut self,
        (uid, pid): (u32, i32),
        now: Instant,
        outcome: &Result<T, Refusal>,
    ) {
        if let Err(refusal) = outcome {
            self.totals.refusals += 1;
            self.users.entry(uid, now).told.refusals += 1;
            audit::turned_away(self, (uid, pid), refusal, now);
        }
    }

    /// How long the connection is left unread, since its user has taken too much of the daemon's time.
    pub fn waits_for(&mut self, id: ConnectionId, now: Instant) -> Option<Duration> {
        let uid = self.clients.get(id)?.peer.uid;
        self.users.waits_for(uid, now)
    }

    /// Of a connection's page; `None`: it has none.
    pub(crate) fn number_at(&self, id: ConnectionId) -> Option<u32> {
        self.clients.get(id)?.number
    }

    /// Who pays for what is done for a connection: its user, and the first thread of its program.
    pub(crate) fn payer_at(&self, id: ConnectionId) -> Option<(u32, Thread)> {
        let peer = &self.clients.get(id)?.peer;
        let (tid, start) = (peer.pid, peer.start);
        Some((peer.uid, Thread { tid, start }))
    }

    /// Takes back all that a program held.
    pub fn disconnect(&mut self, id: ConnectionId, now: Instant) {
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let uid = client.peer.uid;
        self.forget_names_of(id);
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let slots: Vec<u32> = client.members.keys().copied().collect();
        self.totals.lost_members += slots.len() as u64;
        for slot in slots {
            self.remove_member(id, slot, now);
        }
        if let Some(number) = self.clients.remove(id).and_then(|client| client.number) {
            self.host.release_client(number);
        }
        self.users.remove_client(uid, now);
    }

    /// Ends a membership, in the scheduler too, and removes the domain with its last member.
    pub(crate) fn remove_member(&mut self, id: ConnectionId, slot: u32, now: Instant) {
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let (uid, pid) = (client.peer.uid, client.peer.pid);
        let client = client.number.unwrap_or_default();
        let Some(member) = self.clients.remove_member(id, slot) else {
            return;
        };
        self.users.entry(uid, now).members -= 1;
        let place = Membership {
            client,
            slot,
            domain: member.domain,
        };
        self.take_out((pid, member.thread), place, |host, thread| {
            let tid = thread.tid;
            host.leave(LeaveArgs { tid, client, slot })
        });
        self.shrink_domain(member.domain, now);
    }

    fn shrink_domain(&mut self, id: u32, now: Instant) {
        let Some(domain) = self.domains.get_mut(id) else {
            return;
        };
        domain.members -= 1;
        if domain.members == 0 {
            self.remove_domain(id, now);
        }
    }

    pub(crate) fn remove_domain(&mut self, id: u32, now: Instant) {
        let Some(domain) = self.domains.remove(id) else {
            return;
        };
        self.users.remove_domain(domain.uid, now);
        self.destroy_or_doom(id);
    }

    pub(crate) fn destroy_or_doom(&mut self, id: u32) {
        match self.host.destroy_domain(id) {
            Ok(()) => {}
            Err(error) if error.errno() == Errno::EBUSY as i32 => self.doomed_domains.push(id),
            Err(error) => warn!(domain = id, %error, "cannot remove a domain"),
        }
    }

    /// Called a few times a second: forgets threads that ended without leaving, and other leftovers.
    pub fn tick(&mut self, now: Instant) {
        for id in std::mem::take(&mut self.doomed_domains) {
            self.destroy_or_doom(id);
        }
        self.sweep_dead_members(now);
        self.tick_reservations(now);
        self.tick_groups();
        self.tick_functions();
        self.bill_all();
        self.users.forget_idle(now);
    }

    /// Looks for members that have ended, only if the scheduler has seen one end: to look is a system call a member.
    fn sweep_dead_members(&mut self, now: Instant) {
        let ends = self.host.member_ends();
        if ends != self.ends_seen {
            self.ends_seen = ends;
            self.sweeps = SWEEPS;
        }
        if self.sweeps == 0 {
            return;
        }
        let places = self.clients.places_after(self.sweep_from, SWEEP_MEMBERS);
        self.sweep_from = match places.last() {
            Some(last) if places.len() == SWEEP_MEMBERS => *last,
            _ => {
                self.sweeps -= 1;
                (0, 0)
            }
        };
        for place in places {
            self.remove_if_dead(place, now);
        }
    }

    /// Ends the membership at `place` when its thread has ended; true when it is vacant afterwards.
    pub(crate) fn remove_if_dead(&mut self, place: (ConnectionId, u32), now: Instant) -> bool {
        let Some((client, member)) = self.clients.member(place) else {
            return true;
        };
        if self.processes.lives(client.peer.pid, member.thread) {
            return false;
        }
        debug!(tid = member.thread.tid, "a member ended without leaving");
        self.totals.lost_members += 1;
        self.remove_member(place.0, place.1, now);
        true
    }

    /// Why the scheduler is no longer in charge; `None` while it is.
    pub fn exited(&self) -> Option<ExitReport> {
        self.host.exited()
    }
}
