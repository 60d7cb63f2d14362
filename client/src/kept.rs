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
    file: (libc::dev_t, libc::ino_t),
    path: OsString,
    users: [libc::uid_t; 2],
}

impl Kept {
    /// `None`: it is not worth keeping.
    pub fn new(connection: Connection) -> Option<Kept> {
        let file = file_at(connection.fd())?;
        Some(Kept {
            connection,
            file,
            path: socket_path(),
            users: users(),
        })
    }

    pub fn fd(&self) -> RawFd {
        self.connection.fd()
    }

    /// The connection, if a new one would be no other: the daemon knows a program as whom it was when it connected. A
    /// program that has closed what it does not know may have another file by that number, which is its own.
    pub fn usable(self) -> Option<Connection> {
        if file_at(self.fd()) != Some(self.file) {
            self.connection.forget();
            return None;
        }
        let is_another = self.users != users() || self.path != socket_path();
        (!is_another).then_some(self.connection)
    }
}

fn users() -> [libc::uid_t; 2] {
    // SAFETY: plain system calls.
    unsafe { [libc::getuid(), libc::geteuid()] }
}

fn file_at(fd: RawFd) -> Option<(libc::dev_t, libc::ino_t)> {
    // SAFETY: all bytes zero are a valid struct, which the kernel fills.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let told = unsafe { libc::fstat(fd, &mut stat) };
    (told == 0).then_some((stat.st_dev, stat.st_ino))
}
