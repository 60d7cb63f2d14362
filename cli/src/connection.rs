// SPDX-License-Identifier: MIT OR Apache-2.0
//! Talks to the daemon: one control request, one answer in JSON.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
};

use consort_abi::CONSORT_CONTROL;
use consort_daemon::{
    listen::socket_path,
    wire::{self, ANSWER_BYTES_MAX, REPLY_BYTES},
    Refusal,
};
use nix::{
    errno::Errno,
    sys::{
        socket::{
            connect, recv, send, setsockopt, socket, sockopt, AddressFamily, MsgFlags, SockFlag,
            SockType, UnixAddr,
        },
        time::{TimeVal, TimeValLike},
    },
    unistd::geteuid,
};
use serde_json::Value;

use crate::failure::Failure;

/// A daemon that does not answer for this long is stuck.
const ANSWER_TIMEOUT_S: i64 = 10;
/// So long a user is not told why nothing happens.
const PATIENCE_S: i64 = 1;

pub struct Connection {
    socket: OwnedFd,
}

/// Why there may be no answer. The daemon leaves the messages of a user unread who has used up the time that it has for that
/// user.
fn unanswered(within_s: i64) -> String {
    let own = match geteuid().is_root() {
        true => "",
        false => ", or has no time left for your requests (cpu_percent of its [limits])",
    };
    format!("it did not answer within {within_s} s: it is overloaded or stuck{own}")
}

impl Connection {
    /// Connects to the daemon.
    ///
    /// # Errors
    /// [`Failure::NoDaemon`] when nobody listens.
    pub fn open() -> Result<Self, Failure> {
        let path = socket_path();
        let broken = |errno: Errno| explain_connect(&path, errno);
        let kind = SockType::SeqPacket;
        let socket =
            socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).map_err(broken)?;
        let timeout = TimeVal::seconds(ANSWER_TIMEOUT_S);
        setsockopt(&socket, sockopt::SendTimeout, &timeout).map_err(broken)?;
        let address = UnixAddr::new(&path).map_err(broken)?;
        connect(socket.as_raw_fd(), &address).map_err(broken)?;
        Ok(Connection { socket })
    }

    /// Sends a control command and returns its answer.
    ///
    /// # Errors
    /// [`Failure::Refused`] with the daemon's reason.
    pub fn control(&self, command: &Value) -> Result<Value, Failure> {
        let broken = |errno: Errno| {
            Failure::Connection(match errno {
                Errno::EAGAIN => unanswered(ANSWER_TIMEOUT_S) + ": wait and try again",
                errno => io::Error::from(errno).to_string(),
            })
        };
        let message = wire::control_message(&command.to_string());
        match send(self.socket.as_raw_fd(), &message, MsgFlags::MSG_NOSIGNAL) {
            // It may have refused the connection and said why.
            Ok(_) | Err(Errno::EPIPE) => {}
            Err(errno) => return Err(broken(errno)),
        }
        let mut buffer = vec![0; REPLY_BYTES + ANSWER_BYTES_MAX];
        let length = self.receive(&mut buffer).map_err(broken)?;
        let reply = wire::parse_reply(&buffer[..length]).ok_or_else(|| {
            Failure::Connection("its answer is not Consort's: is it another version?".to_owned())
        })?;
        if reply.error != 0 {
            return Err(Failure::Refused(Refusal::new(
                Errno::from_raw(reply.error),
                reply.text,
            )));
        }
        debug_assert_eq!(u32::from(reply.kind), CONSORT_CONTROL);
        serde_json::from_slice(&reply.rest)
            .map_err(|error| Failure::Connection(format!("its answer is malformed: {error}")))
    }

    /// Waits for an answer, and says so where that takes a while.
    fn receive(&self, buffer: &mut [u8]) -> nix::Result<usize> {
        let within = |timeout_s: i64, buffer: &mut [u8]| {
            let timeout = TimeVal::seconds(timeout_s);
            setsockopt(&self.socket, sockopt::ReceiveTimeout, &timeout)?;
            recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty())
        };
        match within(PATIENCE_S, buffer) {
            Err(Errno::EAGAIN) => {}
            done => return done,
        }
        let left_s = ANSWER_TIMEOUT_S - PATIENCE_S;
        eprintln!(
            "consort: the daemon: {}; waiting for {left_s} s more",
            unanswered(PATIENCE_S)
        );
        within(left_s, buffer)
    }
}

fn explain_connect(path: &std::path::Path, errno: Errno) -> Failure {
    let path = PathBuf::from(path);
    match errno {
        Errno::ENOENT | Errno::ECONNREFUSED => Failure::NoDaemon(path),
        Errno::EACCES | Errno::EPERM => Failure::SocketPermission {
            path,
            source: errno.into(),
        },
        errno => Failure::Connection(format!("{}: {}", path.display(), io::Error::from(errno))),
    }
}
