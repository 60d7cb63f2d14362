// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon without a scheduler: hands out pages, writes down requests, answers as it is told to.

use consort_abi::*;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How the daemon answers.
#[derive(Clone, Debug)]
pub enum Manner {
    Honest,
    Refuse {
        request: u32,
        errno: i32,
    },
    /// Refuses the connection, before anything has been asked.
    RefuseAll {
        errno: i32,
    },
    Silent {
        request: u32,
    },
    Short {
        bytes: usize,
    },
    Long,
    WrongMagic,
    WrongVersion,
    /// Of the next version, whose replies are longer.
    Later,
    WrongType,
    BadErrno,
    NoPage,
    TwoPages,
    PageOfBytes(u64),
    PageWithoutMagic,
    /// A daemon from before there were variables.
    NoVariables,
    /// A page that claims to have variables, and is too short.
    ShortVariables,
    HangUp {
        request: u32,
    },
}

pub const REFUSAL: &str = "no: because the test says so; ask differently";

/// The daemon's view of a client's page.
pub struct Page {
    base: *mut consort_page,
    bytes: usize,
    file: OwnedFd,
}

// SAFETY: shared memory; every access below is volatile.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn new(bytes: u64) -> Page {
        unsafe {
            let fd = libc::memfd_create(c"page".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0);
            let file = OwnedFd::from_raw_fd(fd);
            assert_eq!(libc::ftruncate(fd, bytes as i64), 0);
            // Never less than is written here.
            let mapped = (bytes as usize).max(CONSORT_PAGE_BYTES as usize);
            let base = libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            Page {
                base: base.cast(),
                bytes: mapped,
                file,
            }
        }
    }

    fn write_header(&self) {
        unsafe {
            (&raw mut (*self.base).header.magic).write_volatile(CONSORT_ABI_MAGIC);
            (&raw mut (*self.base).header.version).write_volatile(CONSORT_ABI_VERSION);
            if self.bytes >= CONSORT_MAPPING_BYTES as usize {
                (&raw mut (*self.base).header.bytes).write_volatile(self.bytes as u32);
            }
        }
        self.set_attached(1);
    }

    pub fn set_attached(&self, attached: u32) {
        unsafe { (&raw mut (*self.base).header.attached).write_volatile(attached) }
    }

    pub fn slot(&self, number: usize) -> consort_slot {
        unsafe { (&raw const (*self.base).slots[number]).read_volatile() }
    }

    /// The variables beside a slot.
    pub fn variables(&self, number: usize) -> consort_variables {
        assert!(self.bytes >= CONSORT_MAPPING_BYTES as usize);
        unsafe {
            let mapping = self.base.cast::<consort_mapping>();
            (&raw const (*mapping).variables[number]).read_volatile()
        }
    }

    /// What the decision function says there.
    pub fn set_control(&self, number: usize, index: usize, value: i64) {
        assert!(self.bytes >= CONSORT_MAPPING_BYTES as usize);
        unsafe {
            let mapping = self.base.cast::<consort_mapping>();
            (&raw mut (*mapping).variables[number].control[index]).write_volatile(value);
        }
    }

    /// Changes the scheduler's half of a slot.
    pub fn answer(&self, number: usize, change: impl FnOnce(&mut consort_slot)) {
        unsafe {
            let slot = &raw mut (*self.base).slots[number];
            let mut copy = slot.read_volatile();
            change(&mut copy);
            (&raw mut (*slot).yield_by_ns).write_volatile(copy.yield_by_ns);
            (&raw mut (*slot).other_due_ns).write_volatile(copy.other_due_ns);
            (&raw mut (*slot).other_key).write_volatile(copy.other_key);
            (&raw mut (*slot).other_priority).write_volatile(copy.other_priority);
            (&raw mut (*slot).standing).write_volatile(copy.standing);
        }
    }

    fn admit(&self, number: usize) {
        self.answer(number, |slot| {
            slot.yield_by_ns = u64::MAX;
            slot.other_due_ns = u64::MAX;
            slot.other_priority = CONSORT_PRIORITY_NONE;
            slot.standing = CONSORT_MEMBER;
        });
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

#[derive(Default)]
struct Seen {
    requests: Vec<consort_request>,
    pages: Vec<Arc<Page>>,
    connections: Vec<Arc<OwnedFd>>,
}

pub struct Daemon {
    seen: Arc<Mutex<Seen>>,
    listener: Arc<OwnedFd>,
    acceptor: Option<JoinHandle<()>>,
}

impl Daemon {
    /// Serves at CONSORT_SOCKET until dropped or killed.
    pub fn start() -> Daemon {
        Daemon::with(Manner::Honest)
    }

    pub fn with(manner: Manner) -> Daemon {
        Daemon::on(listen(), manner)
    }

    /// Serves those who connect to a socket that listens already.
    pub fn on(listener: OwnedFd, manner: Manner) -> Daemon {
        let listener = Arc::new(listener);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let acceptor = std::thread::spawn({
            let (listener, seen) = (Arc::clone(&listener), Arc::clone(&seen));
            move || accept_all(&listener, &seen, &manner)
        });
        Daemon {
            seen,
            listener,
            acceptor: Some(acceptor),
        }
    }

    /// As kill -9: connections end, nobody clears anything.
    pub fn kill(self) {
        drop(self);
    }

    pub fn requests(&self) -> Vec<consort_request> {
        self.seen.lock().unwrap().requests.clone()
    }

    pub fn requests_of(&self, kind: u32) -> Vec<consort_request> {
        let mut requests = self.requests();
        requests.retain(|request| u32::from(request.type_) == kind);
        requests
    }

    /// The page of the nth connection.
    pub fn page(&self, nth: usize) -> Arc<Page> {
        Arc::clone(&self.seen.lock().unwrap().pages[nth])
    }

    /// So many there have been.
    pub fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections.len()
    }

    pub fn pages(&self) -> usize {
        self.seen.lock().unwrap().pages.len()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        unsafe {
            libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR);
            let _ = std::fs::remove_file(std::env::var_os("CONSORT_SOCKET").unwrap());
            if let Some(acceptor) = self.acceptor.take() {
                acceptor.join().unwrap();
            }
            for connection in &self.seen.lock().unwrap().connections {
                libc::shutdown(connection.as_raw_fd(), libc::SHUT_RDWR);
            }
        }
    }
}

pub fn domain_of(request: &consort_request) -> String {
    let bytes: Vec<u8> = request.domain.iter().map(|&c| c as u8).collect();
    let end = bytes.iter().position(|&b| b == 0).unwrap();
    String::from_utf8(bytes[..end].to_vec()).unwrap()
}

/// A connection that takes no waiting; none if there is no room.
pub fn connect_now() -> Option<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let address = address();
    let size = std::mem::size_of_val(&address) as u32;
    unsafe {
        let socket = OwnedFd::from_raw_fd(libc::socket(libc::AF_UNIX, kind, 0));
        let fd = socket.as_raw_fd();
        let connected = libc::connect(fd, std::ptr::from_ref(&address).cast(), size);
        (connected == 0).then_some(socket)
    }
}

fn address() -> libc::sockaddr_un {
    let path = std::env::var("CONSORT_SOCKET").unwrap();
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    address
}

/// A socket that listens, from which nobody accepts yet.
pub fn listen() -> OwnedFd {
    let address = address();
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        let size = std::mem::size_of_val(&address) as u32;
        let bound = libc::bind(fd, std::ptr::from_ref(&address).cast(), size);
        assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
        assert_eq!(libc::listen(fd, 64), 0);
        OwnedFd::from_raw_fd(fd)
    }
}

fn accept_all(listener: &OwnedFd, seen: &Arc<Mutex<Seen>>, manner: &Manner) {
    loop {
        let fd = unsafe {
            libc::accept4(
                listener.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            )
        };
        if fd < 0 {
            return;
        }
        let connection = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
        seen.lock()
            .unwrap()
            .connections
            .push(Arc::clone(&connection));
        std::thread::spawn({
            let (seen, manner) = (Arc::clone(seen), manner.clone());
            move || serve(&connection, &seen, &manner)
        });
    }
}

fn refuse(reply: &mut consort_reply, errno: i32) {
    reply.error = errno;
    for (to, from) in reply.text.iter_mut().zip(REFUSAL.bytes()) {
        *to = from as libc::c_char;
    }
}

fn serve(connection: &OwnedFd, seen: &Mutex<Seen>, manner: &Manner) {
    let mut page = None;
    if let Manner::RefuseAll { errno } = manner {
        let mut message: consort_usage_reply = unsafe { std::mem::zeroed() };
        message.reply.magic = CONSORT_ABI_MAGIC;
        message.reply.version = CONSORT_ABI_VERSION as u16;
        message.reply.type_ = CONSORT_HELLO as u16;
        refuse(&mut message.reply, *errno);
        let fd = connection.as_raw_fd();
        send(fd, &message, size_of::<consort_reply>(), &[]);
        let is_late = fd % 2 == 0;
        if is_late {
            std::thread::sleep(Duration::from_millis(1));
        }
        unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
        return;
    }
    loop {
        let mut request: consort_request = unsafe { std::mem::zeroed() };
        let size = size_of::<consort_request>();
        let received = unsafe {
            libc::recv(
                connection.as_raw_fd(),
                std::ptr::from_mut(&mut request).cast(),
                size,
                0,
            )
        };
        if received != size as isize {
            unsafe { libc::shutdown(connection.as_raw_fd(), libc::SHUT_RDWR) };
            return;
        }
        assert_eq!(request.magic, CONSORT_ABI_MAGIC);
        let is_greeting = u32::from(request.type_) == CONSORT_HELLO;
        let version = match manner {
            Manner::Later if !is_greeting => 2,
            _ => CONSORT_WIRE_VERSION_LEAST,
        };
        assert_eq!(u32::from(request.version), version);
        seen.lock().unwrap().requests.push(request);
        if let Manner::HangUp { request: kind } = manner {
            if u32::from(request.type_) == *kind {
                unsafe { libc::shutdown(connection.as_raw_fd(), libc::SHUT_RDWR) };
                return;
            }
        }
        answer(connection, &request, seen, manner, &mut page);
    }
}

fn answer(
    connection: &OwnedFd,
    request: &consort_request,
    seen: &Mutex<Seen>,
    manner: &Manner,
    page: &mut Option<Arc<Page>>,
) {
    let kind = u32::from(request.type_);
    let mut message: consort_usage_reply = unsafe { std::mem::zeroed() };
    let reply = &mut message.reply;
    reply.magic = CONSORT_ABI_MAGIC;
    reply.version = CONSORT_ABI_VERSION as u16;
    reply.type_ = request.type_;
    reply.client = 7;
    let mut fds = Vec::new();
    match kind {
        CONSORT_HELLO => {
            let fresh = Arc::new(new_page(manner));
            fds.push(fresh.file.as_raw_fd());
            seen.lock().unwrap().pages.push(Arc::clone(&fresh));
            *page = Some(fresh);
        }
        CONSORT_JOIN => page.as_ref().unwrap().admit(request.slot as usize),
        _ => {}
    }
    let mut bytes = size_of::<consort_reply>();
    if kind == CONSORT_USAGE {
        (message.asked, message.given) = (250_000, 500_000);
        message.used = [100_000, CONSORT_RATE_UNKNOWN, CONSORT_RATE_UNKNOWN];
        (message.suggested, message.late_s, message.threads) = (CONSORT_RATE_UNKNOWN, 3, 2);
        bytes = size_of::<consort_usage_reply>();
    }
    match manner {
        Manner::Silent { request } if *request == kind => return,
        Manner::Refuse { request, errno } if *request == kind => {
            refuse(reply, *errno);
            fds.clear();
            bytes = size_of::<consort_reply>();
        }
        Manner::Short { bytes: few } => bytes = *few,
        Manner::Long => bytes += 8,
        Manner::Later => {
            assert!(kind != CONSORT_HELLO || (request.slot, request.order) == (2, 1));
            reply.version = 2;
            bytes += 8;
        }
        Manner::WrongMagic => reply.magic ^= 1,
        Manner::WrongVersion => reply.version += 76,
        Manner::WrongType => reply.type_ += 1,
        Manner::BadErrno => reply.error = -5,
        Manner::NoPage => fds.clear(),
        Manner::TwoPages if !fds.is_empty() => fds.push(fds[0]),
        _ => {}
    }
    send(connection.as_raw_fd(), &message, bytes, &fds);
}

fn new_page(manner: &Manner) -> Page {
    match manner {
        Manner::PageOfBytes(bytes) => Page::new(*bytes),
        Manner::PageWithoutMagic => Page::new(u64::from(CONSORT_PAGE_BYTES)),
        Manner::NoVariables => {
            let page = Page::new(u64::from(CONSORT_PAGE_BYTES));
            page.write_header();
            page
        }
        Manner::ShortVariables => {
            let page = Page::new(u64::from(CONSORT_PAGE_BYTES) * 2);
            page.write_header();
            unsafe {
                let bytes = &raw mut (*page.base).header.bytes;
                bytes.write_volatile(CONSORT_MAPPING_BYTES);
            }
            page
        }
        _ => {
            let page = Page::new(u64::from(CONSORT_MAPPING_BYTES));
            page.write_header();
            page
        }
    }
}

/// `bytes` may be more than the reply has: then zeroes follow.
fn send(socket: RawFd, reply: &consort_usage_reply, bytes: usize, fds: &[RawFd]) {
    let mut buffer = [0u8; size_of::<consort_usage_reply>() + 8];
    unsafe {
        let from = std::ptr::from_ref(reply).cast::<u8>();
        std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), size_of_val(reply));
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: bytes,
        };
        let mut control = [0u64; 8];
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        if !fds.is_empty() {
            let payload = std::mem::size_of_val(fds) as u32;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(payload) as usize;
            let message = libc::CMSG_FIRSTHDR(&header);
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_RIGHTS;
            (*message).cmsg_len = libc::CMSG_LEN(payload) as usize;
            std::ptr::copy_nonoverlapping(fds.as_ptr(), libc::CMSG_DATA(message).cast(), fds.len());
        }
        libc::sendmsg(socket, &header, libc::MSG_NOSIGNAL);
    }
}
