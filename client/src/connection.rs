// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conversation with the daemon: one request, one reply, in order. Nothing here waits unless told to.

use crate::inherited::{file_at, File};
use crate::layout::{
    RawReply, RawUsage, Request, HELLO, MAGIC, USAGE, WIRE_VERSION, WIRE_VERSION_LEAST,
};
use crate::Error;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// File descriptors that a reply may carry before the rest is dropped by the kernel.
const FDS_MAX: usize = 4;

/// How often a socket tells that the other side has gone before it hands out what that wrote: once as an error, where not all
/// was read there, and once as an end, where the message came between the kernel's look at the queue and at the connection.
const ENDS_BEFORE_WORDS_MAX: usize = 2;

/// Names a request whose reply is awaited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket(u64);

/// A reply, checked.
pub struct Reply {
    pub errno: i32,
    /// That the daemon answers in.
    pub version: u16,
    pub text: Box<str>,
    pub page: Option<OwnedFd>,
    /// The whole message, where it is the answer to USAGE.
    pub usage: Option<RawUsage>,
}

struct Expected {
    ticket: Ticket,
    kind: u16,
    wanted: bool,
}

pub struct Connection {
    socket: ManuallyDrop<OwnedFd>,
    /// What the socket was when it was made. A program that has closed what it does not know may have another file by that
    /// number, which is its own.
    file: Option<File>,
    /// Of messages.
    version: u16,
    next_ticket: u64,
    expected: VecDeque<Expected>,
    answered: Vec<(Ticket, Reply)>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.has_its_socket() {
            // SAFETY: nobody uses it after that.
            unsafe { ManuallyDrop::drop(&mut self.socket) }
        }
    }
}

impl Connection {
    /// `socket` is a connected, non-blocking SOCK_SEQPACKET socket.
    pub fn new(socket: OwnedFd) -> Connection {
        Connection {
            file: file_at(socket.as_raw_fd()),
            socket: ManuallyDrop::new(socket),
            version: WIRE_VERSION_LEAST as u16,
            next_ticket: 0,
            expected: VecDeque::new(),
            answered: Vec::new(),
        }
    }

    /// What both sides speak from now on.
    pub fn speak(&mut self, version: u16) {
        self.version = version;
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether its number still is that of its socket.
    pub fn has_its_socket(&self) -> bool {
        self.file.is_some() && file_at(self.fd()) == self.file
    }

    pub fn send(&mut self, request: &Request) -> Result<Ticket, Error> {
        if !self.has_its_socket() {
            return Err(Error::Gone);
        }
        let bytes = request.encode(self.version).to_bytes();
        // SAFETY: the pointer and the length are of one valid value.
        let sent = unsafe {
            libc::send(
                self.fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if sent != bytes.len() as isize {
            let error = std::io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EPIPE | libc::ECONNRESET) => self.last_words(request.kind()),
                _ => Err(Error::System {
                    call: "send to the daemon",
                    source: error,
                }),
            };
        }
        let ticket = self.new_ticket();
        self.expected.push_back(Expected {
            ticket,
            kind: request.kind(),
            wanted: true,
        });
        Ok(ticket)
    }

    fn new_ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    /// A daemon that has gone before it was asked may have said why. Gone: it has not.
    fn last_words(&mut self, kind: u16) -> Result<Ticket, Error> {
        let Some((raw, length, fds)) = receive_message(self.fd())? else {
            return Err(Error::Gone);
        };
        let reply = check_reply(&raw, length, fds, kind)?;
        let ticket = self.new_ticket();
        self.answered.push((ticket, reply));
        Ok(ticket)
    }

    /// Nobody will ask for this reply any more.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.answered.retain(|(answered, _)| *answered != ticket);
        if let Some(expected) = self.expected.iter_mut().find(|e| e.ticket == ticket) {
            expected.wanted = false;
        }
    }

    /// Takes in what has arrived, without waiting. An error means that the connection is of no use any more.
    pub fn receive(&mut self) -> Result<(), Error> {
        if !self.has_its_socket() {
            return Err(Error::Gone);
        }
        while let Some((raw, length, fds)) = receive_message(self.fd())? {
            let Some(expected) = self.expected.pop_front() else {
                return Err(Error::protocol("a reply that was not asked for"));
            };
            let reply = check_reply(&raw, length, fds, expected.kind)?;
            if expected.wanted {
                self.answered.push((expected.ticket, reply));
            }
        }
        Ok(())
    }

    /// The reply, if it has been taken in.
    fn take(&mut self, ticket: Ticket) -> Option<Reply> {
        let index = self.answered.iter().position(|(t, _)| *t == ticket)?;
        Some(self.answered.swap_remove(index).1)
    }

    /// The reply, if it has come by now, be it the last that comes.
    pub fn answer(&mut self, ticket: Ticket) -> Result<Option<Reply>, Error> {
        let received = self.receive();
        match self.take(ticket) {
            None => received.map(|()| None),
            reply => Ok(reply),
        }
    }

    /// The reply, awaited until `deadline`.
    pub fn wait(&mut self, ticket: Ticket, deadline: Instant) -> Result<Option<Reply>, Error> {
        loop {
            if let Some(reply) = self.answer(ticket)? {
                return Ok(Some(reply));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.wait_readable(left)?;
        }
    }

    fn wait_readable(&self, timeout: Duration) -> Result<(), Error> {
        let mut poll = libc::pollfd {
            fd: self.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout_ms = timeout.as_millis().min(60_000) as i32 + 1;
        // SAFETY: one valid pollfd.
        let ready = unsafe { libc::poll(&mut poll, 1, timeout_ms) };
        if ready < 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return Err(Error::system("poll of the daemon's socket"));
        }
        Ok(())
    }
}

/// A message as it came: its bytes, how many, and file descriptors.
type Message = (Bytes, usize, Vec<OwnedFd>);

/// As long as the longest reply.
type Bytes = [u8; RawUsage::BYTES];

/// One message; none if nothing has arrived.
fn receive_message(socket: RawFd) -> Result<Option<Message>, Error> {
    for _ in 0..ENDS_BEFORE_WORDS_MAX {
        match receive_next(socket) {
            Err(Error::Gone) => (),
            received => return received,
        }
    }
    receive_next(socket)
}

fn receive_next(socket: RawFd) -> Result<Option<Message>, Error> {
    let mut reply: Bytes = [0; RawUsage::BYTES];
    // SAFETY: all bytes zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    let mut part = libc::iovec {
        iov_base: reply.as_mut_ptr().cast(),
        iov_len: reply.len(),
    };
    let mut control = [0u64; 8]; // u64: aligned like a cmsghdr
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: arithmetic only.
    header.msg_controllen = unsafe { libc::CMSG_SPACE((FDS_MAX * size_of::<RawFd>()) as u32) } as _;
    // SAFETY: every pointer in `header` is valid for the length beside it.
    let length = unsafe {
        libc::recvmsg(
            socket,
            &mut header,
            libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC,
        )
    };
    if length < 0 {
        let error = std::io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(None),
            Some(libc::ECONNRESET | libc::EPIPE) => Err(Error::Gone),
            _ => Err(Error::System {
                call: "recvmsg from the daemon",
                source: error,
            }),
        };
    }
    // SAFETY: recvmsg has filled the control buffer that `header` names.
    let fds = unsafe { take_fds(&header) };
    if length == 0 {
        return Err(Error::Gone);
    }
    let grows = RawReply::from_bytes(&reply).is_some_and(|reply| reply.version >= 2);
    if header.msg_flags & libc::MSG_CTRUNC != 0
        || (header.msg_flags & libc::MSG_TRUNC != 0 && !grows)
    {
        return Err(Error::protocol("a reply longer than any reply"));
    }
    Ok(Some((reply, length as usize, fds)))
}

/// # Safety
/// `header` is as recvmsg left it.
unsafe fn take_fds(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    let mut message = libc::CMSG_FIRSTHDR(header);
    while !message.is_null() {
        if (*message).cmsg_level == libc::SOL_SOCKET && (*message).cmsg_type == libc::SCM_RIGHTS {
            let bytes = (*message).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let first = libc::CMSG_DATA(message).cast::<RawFd>();
            for index in 0..bytes / size_of::<RawFd>() {
                fds.push(OwnedFd::from_raw_fd(first.add(index).read_unaligned()));
            }
        }
        message = libc::CMSG_NXTHDR(header, message);
    }
    fds
}

fn check_reply(
    message: &Bytes,
    length: usize,
    mut fds: Vec<OwnedFd>,
    kind: u16,
) -> Result<Reply, Error> {
    let usage = RawUsage::from_bytes(message).unwrap_or_default();
    let raw = &usage.reply;
    let tells_usage = kind == USAGE && raw.error == 0;
    let expected = match tells_usage {
        true => RawUsage::BYTES,
        false => RawReply::BYTES,
    };
    let versions = WIRE_VERSION_LEAST..=WIRE_VERSION;
    if raw.magic != MAGIC || !versions.contains(&raw.version.into()) {
        return Err(Error::protocol(format!(
            "a reply of magic {:#x} version {}, {MAGIC:#x} version {WIRE_VERSION_LEAST} to {WIRE_VERSION} is expected",
            raw.magic, raw.version
        )));
    }
    if length < expected || (raw.version == 1 && length != expected) {
        return Err(Error::protocol(format!(
            "a reply of {length} bytes, {expected} are expected"
        )));
    }
    // A connection that is refused is told so as if it had said HELLO.
    let refuses_connection = raw.type_ == HELLO && raw.error != 0;
    if raw.type_ != kind && !refuses_connection {
        return Err(Error::protocol(format!(
            "a reply of type {}, type {kind} is expected",
            raw.type_
        )));
    }
    if !(0..4096).contains(&raw.error) {
        return Err(Error::protocol(format!("errno {} in a reply", raw.error)));
    }
    let fds_expected = usize::from(kind == HELLO && raw.error == 0);
    if fds.len() != fds_expected {
        return Err(Error::protocol(format!(
            "a reply with {} file descriptors, {fds_expected} are expected",
            fds.len()
        )));
    }
    Ok(Reply {
        errno: raw.error,
        version: raw.version,
        text: reply_text(raw),
        page: fds.pop(),
        usage: tells_usage.then_some(usage),
    })
}

fn reply_text(raw: &RawReply) -> Box<str> {
    let bytes: Vec<u8> = raw.said().collect();
    String::from_utf8_lossy(&bytes)
        .chars()
        .filter(|c| !c.is_control())
        .collect()
}
