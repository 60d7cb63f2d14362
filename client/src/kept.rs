// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection for reservations and credits, kept from one call to the next.
//!
//! A connect wakes the daemon before anything is asked, and the caller has lost its turn when the daemon knows it: what it
//! then asks it asks at its next one. On a connection that is there, the daemon answers first.

use crate::connection::Connection;
use crate::link::socket_path;
use std::ffi::OsString;
use std::os::fd::RawFd;

pub struct Kept {
    connection: Connection,
    path: OsString,
    users: [libc::uid_t; 2],
}

impl Kept {
    pub fn new(connection: Connection) -> Kept {
        Kept {
            connection,
            path: socket_path(),
            users: users(),
        }
    }

    pub fn fd(&self) -> RawFd {
        self.connection.fd()
    }

    /// The connection, if a new one would be no other: the daemon knows a program as whom it was when it connected.
    pub fn usable(self) -> Option<Connection> {
        let is_another = !self.connection.has_its_socket()
            || self.users != users()
            || self.path != socket_path();
        (!is_another).then_some(self.connection)
    }
}

fn users() -> [libc::uid_t; 2] {
    // SAFETY: plain system calls.
    unsafe { [libc::getuid(), libc::geteuid()] }
}
