// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a daemon leaves to the next one: descriptors, by name. One that runs hands them over ([`crate::handover`]), of one
//! that has ended the service manager kept them ([`crate::store`]). All else is read from what they mean.

use std::{
    collections::BTreeMap,
    os::fd::{BorrowedFd, OwnedFd},
};

use consort_kernel::Kept;

use crate::listen::is_listener;

const LOCK: &str = "lock";
/// The name of the socket that a daemon has made itself.
pub(crate) const LISTENER: &str = "listener";
const CLIENT: &str = "client-";
const STRANGER: &str = "connection-";

/// A program's connection.
#[derive(Debug)]
pub struct Connection {
    /// Of its page; `None`: it has said no HELLO.
    pub client: Option<u32>,
    pub socket: OwnedFd,
}

/// All that is left.
#[derive(Debug, Default)]
pub struct Estate {
    pub scheduler: Option<Kept>,
    pub connections: Vec<Connection>,
    /// At which programs connect, and whether its file goes with the daemon.
    pub listener: Option<(OwnedFd, bool)>,
    pub lock: Option<OwnedFd>,
    /// The process that leaves it, if that may be alive.
    pub predecessor: Option<OwnedFd>,
}

impl Estate {
    /// Finds out what is what.
    pub fn of(mut named: BTreeMap<String, OwnedFd>) -> Self {
        let scheduler = Kept::take(&mut named);
        let lock = named.remove(LOCK);
        let mut estate = Estate {
            scheduler,
            lock,
            ..Estate::default()
        };
        for (name, descriptor) in named {
            if let Some(number) = name.strip_prefix(CLIENT) {
                let client = number.parse().ok();
                estate.connections.extend(client.map(|client| Connection {
                    client: Some(client),
                    socket: descriptor,
                }));
            } else if name.starts_with(STRANGER) {
                estate.connections.push(Connection {
                    client: None,
                    socket: descriptor,
                });
            } else if is_listener(&descriptor) {
                // Any other name is a unit's, whose socket stays.
                estate.listener = Some((descriptor, name == LISTENER));
            }
        }
        estate
    }
}

/// The name of a program's connection, by the number of its page.
pub fn client_name(client: u32) -> String {
    format!("{CLIENT}{client}")
}

/// What a daemon that runs hands over beside its scheduler.
pub(crate) struct Belongings<'a> {
    pub lock: BorrowedFd<'a>,
    pub listener: BorrowedFd<'a>,
    pub listener_is_own: bool,
    pub connections: Vec<(Option<u32>, BorrowedFd<'a>)>,
}

impl<'a> Belongings<'a> {
    pub fn named(&self) -> Vec<(String, BorrowedFd<'a>)> {
        let listener = match self.listener_is_own {
            true => LISTENER,
            false => "unit",
        };
        let mut named = vec![
            (LOCK.to_owned(), self.lock),
            (listener.to_owned(), self.listener),
        ];
        let connections = self.connections.iter().enumerate();
        named.extend(connections.map(|(index, (client, socket))| {
            let name = match client {
                Some(client) => client_name(*client),
                None => format!("{STRANGER}{index}"),
            };
            (name, *socket)
        }));
        named
    }
}
