// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket as a program meets it that does not use libconsort: for what a library would never say.

use std::{
    mem::size_of,
    num::NonZeroUsize,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr::NonNull,
};

use consort_abi::{
    consort_page, consort_reply, consort_request, CONSORT_ABI_MAGIC, CONSORT_ABI_VERSION,
    CONSORT_CONTROL, CONSORT_HELLO, CONSORT_JOIN, CONSORT_LEAVE, CONSORT_MAPPING_BYTES,
};
use nix::{
    cmsg_space,
    errno::Errno,
    sys::{
        mman::{mmap, munmap, MapFlags, ProtFlags},
        socket::{
            connect, recvmsg, send, setsockopt, socket, sockopt::ReceiveTimeout, AddressFamily,
            ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
        },
        time::{TimeVal, TimeValLike},
    },
};

use serde_json::Value;

use super::consort::SOCKET;

const REPLY_BYTES: usize = size_of::<consort_reply>();

/// What the daemon answered.
#[derive(Debug)]
pub struct Reply {
    /// 0 or a positive errno.
    pub error: i32,
    pub text: String,
    /// What follows the reply: JSON.
    pub rest: Vec<u8>,
    pub page: Option<OwnedFd>,
}

pub struct Client {
    socket: OwnedFd,
    page: Option<(NonNull<consort_page>, OwnedFd)>,
}

impl Client {
    /// Connects, and says nothing yet.
    pub fn connect() -> Result<Client, String> {
        let failed = |errno: Errno| format!("cannot connect to {SOCKET}: {errno}");
        let socket = socket(
            AddressFamily::Unix,
            SockType::SeqPacket,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .map_err(failed)?;
        // A daemon that does not answer shall fail the test, not hang it.
        setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(20)).map_err(failed)?;
        connect(socket.as_raw_fd(), &UnixAddr::new(SOCKET).map_err(failed)?).map_err(failed)?;
        Ok(Client { socket, page: None })
    }

    /// Connects, says HELLO and maps the page.
    pub fn hello() -> Result<Client, String> {
        let mut client = Client::connect()?;
        let reply = client.ask(&request(CONSORT_HELLO))?;
        let page = match reply {
            Reply {
                error: 0,
                page: Some(page),
                ..
            } => page,
            other => return Err(format!("HELLO was refused: {other:?}")),
        };
        client.page = Some((map_page(&page)?, page));
        Ok(client)
    }

    pub fn send_bytes(&self, bytes: &[u8]) -> Result<(), Errno> {
        send(self.socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL).map(|_| ())
    }

    pub fn socket(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The next reply; `None` when the daemon has closed the connection.
    pub fn receive(&self) -> Result<Option<Reply>, String> {
        let mut buffer = vec![0; 1 << 17];
        let mut space = cmsg_space!(RawFd);
        let mut parts = [std::io::IoSliceMut::new(&mut buffer)];
        let received = recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut space),
            MsgFlags::MSG_CMSG_CLOEXEC,
        );
        let (length, page) = match received {
            Err(Errno::ECONNRESET) => return Ok(None),
            Err(errno) => return Err(format!("no reply: {errno}")),
            Ok(message) => (message.bytes, first_descriptor(message.cmsgs())),
        };
        match length {
            0 => Ok(None),
            _ => parse_reply(&buffer[..length], page).map(Some),
        }
    }

    pub fn ask_bytes(&self, bytes: &[u8]) -> Result<Option<Reply>, String> {
        match self.send_bytes(bytes) {
            // The daemon may have refused the connection, and said why, before it was asked anything.
            Ok(()) | Err(Errno::EPIPE) => self.receive(),
            Err(errno) => Err(format!("cannot send: {errno}")),
        }
    }

    pub fn ask(&self, request: &consort_request) -> Result<Reply, String> {
        self.ask_bytes(bytes_of(request))?
            .ok_or_else(|| "the daemon closed the connection".to_owned())
    }

    pub fn join(&self, tid: i32, slot: u32, domain: &str) -> Result<Reply, String> {
        self.ask(&join_request(tid, slot, domain.as_bytes()))
    }

    pub fn leave(&self, tid: i32, slot: u32) -> Result<Reply, String> {
        self.ask(&consort_request {
            tid,
            slot,
            ..request(CONSORT_LEAVE)
        })
    }

    /// A CONTROL request with this text.
    pub fn control(&self, text: &[u8]) -> Result<Option<Reply>, String> {
        let head = request(CONSORT_CONTROL);
        let mut message = bytes_of(&head).to_vec();
        message.extend_from_slice(text);
        self.ask_bytes(&message)
    }

    /// What the daemon answers to a CONTROL request; an error is its refusal.
    pub fn command(&self, command: &Value) -> Result<Value, String> {
        let reply = self.control(command.to_string().as_bytes())?;
        let reply = reply.ok_or("the daemon closed the connection")?;
        if reply.error != 0 {
            return Err(format!("errno {}: {}", reply.error, reply.text));
        }
        serde_json::from_slice(&reply.rest).map_err(|error| format!("no JSON: {error}"))
    }

    /// The mapping's own memory, for writing whatever a hostile program may write. Null before HELLO.
    pub fn page(&self) -> *mut consort_page {
        self.page
            .as_ref()
            .map_or(std::ptr::null_mut(), |(page, _)| page.as_ptr())
    }

    pub fn page_fd(&self) -> Option<RawFd> {
        self.page.as_ref().map(|(_, fd)| fd.as_raw_fd())
    }
}

// SAFETY: the page is memory that others write at any time anyway, and is only reached through raw pointers.
unsafe impl Sync for Client {}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some((page, _)) = &self.page {
            // SAFETY: mapped by `map_page`; the client's pointers end with it.
            let _ = unsafe { munmap(page.cast(), CONSORT_MAPPING_BYTES as usize) };
        }
    }
}

pub fn map_page(fd: &OwnedFd) -> Result<NonNull<consort_page>, String> {
    let length = NonZeroUsize::new(CONSORT_MAPPING_BYTES as usize).ok_or("no length")?;
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, fd, 0) }
        .map(NonNull::cast)
        .map_err(|errno| format!("cannot map the page: {errno}"))
}

pub fn request(kind: u32) -> consort_request {
    consort_request {
        magic: CONSORT_ABI_MAGIC,
        version: CONSORT_ABI_VERSION as u16,
        type_: kind as u16,
        ..consort_request::default()
    }
}

/// A JOIN; of a name that is too long for the field, as much as fits.
pub fn join_request(tid: i32, slot: u32, domain: &[u8]) -> consort_request {
    let mut request = consort_request {
        tid,
        slot,
        ..request(CONSORT_JOIN)
    };
    for (to, from) in request.domain.iter_mut().zip(domain) {
        *to = *from as std::ffi::c_char;
    }
    request
}

pub fn bytes_of(request: &consort_request) -> &[u8] {
    // SAFETY: only integers and no padding: every byte is initialised.
    unsafe {
        std::slice::from_raw_parts(
            std::ptr::from_ref(request).cast(),
            size_of::<consort_request>(),
        )
    }
}

fn first_descriptor(messages: nix::Result<nix::sys::socket::CmsgIterator>) -> Option<OwnedFd> {
    let mut messages = messages.ok()?;
    messages.find_map(|message| match message {
        // SAFETY: the kernel has just made these descriptors for us.
        ControlMessageOwned::ScmRights(fds) => {
            fds.first().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) })
        }
        _ => None,
    })
}

fn parse_reply(bytes: &[u8], page: Option<OwnedFd>) -> Result<Reply, String> {
    if bytes.len() < REPLY_BYTES {
        return Err(format!("a reply of {} bytes is too short", bytes.len()));
    }
    // SAFETY: only integers, and enough bytes.
    let raw: consort_reply = unsafe { bytes.as_ptr().cast::<consort_reply>().read_unaligned() };
    if raw.magic != CONSORT_ABI_MAGIC {
        return Err(format!("the reply's magic is {:#x}", raw.magic));
    }
    let text: Vec<u8> = raw
        .text
        .iter()
        .map(|byte| *byte as u8)
        .take_while(|byte| *byte != 0)
        .collect();
    Ok(Reply {
        error: raw.error,
        text: String::from_utf8_lossy(&text).into_owned(),
        rest: bytes[REPLY_BYTES..].to_vec(),
        page,
    })
}

/// The calling thread's number.
pub fn gettid() -> i32 {
    nix::unistd::gettid().as_raw()
}
