// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that talks to a daemon.

use std::{
    ffi::c_char,
    io::{IoSlice, IoSliceMut},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::Path,
};

use consort_abi::{
    consort_request, CONSORT_ABI_MAGIC, CONSORT_ABI_VERSION, CONSORT_JOIN, CONSORT_LEAVE,
};
use consort_daemon::wire::{self, Reply, ANSWER_BYTES_MAX, REPLY_BYTES};
use nix::sys::socket::{
    connect, recv, recvmsg, send, sendmsg, socket, AddressFamily, ControlMessage,
    ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
};

/// The program's end of a connection.
pub struct Program(OwnedFd);

impl Program {
    pub fn try_connect(path: &Path) -> Option<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        connect(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()).ok()?;
        Some(Program(socket))
    }

    /// The end `socket` of a connection.
    pub fn at(socket: OwnedFd) -> Self {
        Program(socket)
    }

    pub fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub fn send_with(&self, message: &[u8], files: &[RawFd]) -> nix::Result<usize> {
        let parts = [IoSlice::new(message)];
        let control = [ControlMessage::ScmRights(files)];
        let flags = MsgFlags::MSG_NOSIGNAL;
        sendmsg::<()>(self.0.as_raw_fd(), &parts, &control, flags, None)
    }

    pub fn send(&self, message: &[u8]) -> nix::Result<usize> {
        send(self.0.as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL)
    }

    /// The next reply; `None` when the daemon has closed the connection.
    pub fn receive(&self) -> Option<Reply> {
        let mut buffer = vec![0; REPLY_BYTES + ANSWER_BYTES_MAX];
        let mut space = nix::cmsg_space!([RawFd; 4]);
        let (length, page) = {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let message =
                recvmsg::<()>(self.0.as_raw_fd(), &mut parts, Some(&mut space), flags).ok()?;
            let page = message.cmsgs().unwrap().find_map(|control| match control {
                ControlMessageOwned::ScmRights(fds) => fds.first().copied(),
                _ => None,
            });
            (message.bytes, page)
        };
        if length == 0 {
            return None;
        }
        let mut reply =
            wire::parse_reply(&buffer[..length]).expect("a reply of the daemon's layout");
        // SAFETY: the kernel just gave this descriptor to us.
        reply.page = page.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Some(reply)
    }

    /// The next reply as it came, without what came with it.
    pub fn receive_raw(&self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; REPLY_BYTES + ANSWER_BYTES_MAX];
        let length = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()).ok()?;
        buffer.truncate(length);
        (length > 0).then_some(buffer)
    }

    pub fn ask(&self, request: &consort_request) -> Reply {
        self.send(&wire::request_bytes(*request)).unwrap();
        self.receive().expect("a reply")
    }

    pub fn control(&self, json: &str) -> Result<serde_json::Value, Reply> {
        self.send(&wire::control_message(json)).unwrap();
        let reply = self.receive().expect("a reply");
        match reply.error {
            0 => Ok(serde_json::from_slice(&reply.rest).unwrap()),
            _ => Err(reply),
        }
    }
}

pub fn request(kind: u32) -> consort_request {
    consort_request {
        magic: CONSORT_ABI_MAGIC,
        version: CONSORT_ABI_VERSION as u16,
        type_: kind as u16,
        ..consort_request::default()
    }
}

pub fn join(tid: i32, slot: u32, domain: &str) -> consort_request {
    let mut request = consort_request {
        tid,
        slot,
        ..request(CONSORT_JOIN)
    };
    for (to, from) in request.domain.iter_mut().zip(domain.bytes()) {
        *to = from as c_char;
    }
    request
}

pub fn leave(tid: i32, slot: u32) -> consort_request {
    consort_request {
        tid,
        slot,
        ..request(CONSORT_LEAVE)
    }
}

pub fn gettid() -> i32 {
    nix::unistd::gettid().as_raw()
}
