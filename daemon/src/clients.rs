// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connected programs: their numbers and which of their threads are members.

use std::collections::{BTreeMap, HashMap};

use crate::peer::{Peer, Thread};

/// Names a connection for as long as the daemon runs.
pub type ConnectionId = u64;

#[derive(Debug)]
pub struct Client {
    pub peer: Peer,
    /// Of its page, given by HELLO.
    pub number: Option<u32>,
    /// By slot.
    pub members: BTreeMap<u32, Member>,
}

/// A thread that joined.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    pub thread: Thread,
    /// The thread as the program called it when it joined.
    pub named: i32,
    pub domain: u32,
}

#[derive(Debug, Default)]
pub struct Clients {
    by_connection: BTreeMap<ConnectionId, Client>,
    /// Where each member thread is; a thread is a member once, whatever connection it uses.
    by_tid: HashMap<i32, (ConnectionId, u32)>,
}

impl Clients {
    pub fn insert(&mut self, id: ConnectionId, peer: Peer) {
        let client = Client {
            peer,
            number: None,
            members: BTreeMap::new(),
        };
        self.by_connection.insert(id, client);
    }

    /// Removes a client; its members must have been removed.
    pub fn remove(&mut self, id: ConnectionId) -> Option<Client> {
        let client = self.by_connection.remove(&id)?;
        assert!(
            client.members.is_empty(),
            "a program goes after its members"
        );
        Some(client)
    }

    pub fn get(&self, id: ConnectionId) -> Option<&Client> {
        self.by_connection.get(&id)
    }

    pub fn set_number(&mut self, id: ConnectionId, number: u32) {
        if let Some(client) = self.by_connection.get_mut(&id) {
            client.number = Some(number);
        }
    }

    pub fn add_member(&mut self, id: ConnectionId, slot: u32, member: Member) {
        if let Some(client) = self.by_connection.get_mut(&id) {
            client.members.insert(slot, member);
            self.by_tid.insert(member.thread.tid, (id, slot));
        }
    }

    pub fn remove_member(&mut self, id: ConnectionId, slot: u32) -> Option<Member> {
        let member = self.by_connection.get_mut(&id)?.members.remove(&slot)?;
        self.by_tid.remove(&member.thread.tid);
        Some(member)
    }

    /// The place of thread `tid` among the members.
    pub fn place_of(&self, tid: i32) -> Option<(ConnectionId, u32)> {
        self.by_tid.get(&tid).copied()
    }

    pub fn member(&self, (id, slot): (ConnectionId, u32)) -> Option<(&Client, &Member)> {
        let client = self.by_connection.get(&id)?;
        Some((client, client.members.get(&slot)?))
    }

    /// Up to `count_max` members' places, in order, from the one after `place` on.
    pub fn places_after(
        &self,
        place: (ConnectionId, u32),
        count_max: usize,
    ) -> Vec<(ConnectionId, u32)> {
        let clients = self.by_connection.range(place.0..);
        let places =
            clients.flat_map(|(id, client)| client.members.keys().map(|slot| (*id, *slot)));
        places
            .filter(|found| *found > place)
            .take(count_max)
            .collect()
    }

    pub fn members(&self) -> usize {
        self.by_tid.len()
    }

    pub fn len(&self) -> usize {
        self.by_connection.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_connection.is_empty()
    }

    /// All clients, oldest connection first.
    pub fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Client)> {
        self.by_connection.iter().map(|(id, client)| (*id, client))
    }
}
