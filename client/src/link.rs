// SPDX-License-Identifier: MIT OR Apache-2.0
//! The link to the daemon: connect, greet, map the page, hand out its slots. Each step either has happened, or is
//! looked at again later, so that a thread that must be on time never waits here.

use crate::connection::{Connection, Reply, Ticket};
use crate::domain::Terms;
use crate::inherited::Inherited;
use crate::layout::{Request, SLOTS, WIRE_VERSION, WIRE_VERSION_LEAST};
use crate::member::Said;
use crate::page::Page;
use crate::Error;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long nobody asks again after no daemon was there.
pub const RETRY_NS: u64 = 250_000_000;

/// The same after a daemon in safe mode: that lasts until somebody restarts it.
const SAFE_MODE_RETRY_NS: u64 = 2_000_000_000;

/// The same after a daemon to which others are about to connect.
const CROWD_RETRY_NS: u64 = 10_000_000;

/// The daemon has a scheduler without domains: the thread is on its own, as without a daemon.
fn is_safe_mode(error: &Error) -> bool {
    matches!(error, Error::Refused { errno, .. } if *errno == libc::EHOSTDOWN)
}

pub struct Link {
    stage: Stage,
    /// A socket whose connect failed, kept: trying again is one system call.
    spare: Option<OwnedFd>,
    /// Numbers the connections, so that a slot of a former one is known as such.
    serial: u64,
    next_connect_ns: u64,
    socket: Arc<Inherited>,
}

enum Stage {
    Down,
    Greeting(Connection, Ticket),
    Up(Up),
}

struct Up {
    connection: Connection,
    page: Arc<Page>,
    /// Bit n: slot n belongs to a thread.
    used: u64,
    /// Leave messages that did not fit into the socket.
    unsent: Vec<Request>,
    /// The scheduler has answered a join: from now on, a page that is not attached is a dead one.
    proven: bool,
}

/// A thread's slot in one connection's page.
#[derive(Clone)]
pub struct Place {
    pub page: Arc<Page>,
    pub slot: usize,
    pub serial: u64,
}

/// A join that was sent.
pub struct Pending {
    pub place: Place,
    pub ticket: Ticket,
}

impl Link {
    pub fn new(socket: Arc<Inherited>) -> Link {
        Link {
            stage: Stage::Down,
            spare: None,
            serial: 0,
            next_connect_ns: 0,
            socket,
        }
    }

    /// Gets as far towards a greeted connection as it can until `deadline`. False: no daemon is there, or it has
    /// not answered yet, or has no domains to join.
    pub fn advance(&mut self, now_ns: u64, deadline: Instant) -> Result<bool, Error> {
        if matches!(&self.stage, Stage::Up(up) if up.is_dead()) {
            self.drop_connection();
        }
        if matches!(self.stage, Stage::Down) {
            if now_ns < self.next_connect_ns {
                return Ok(false);
            }
            self.next_connect_ns = now_ns.saturating_add(RETRY_NS);
            if !self.connect(now_ns, deadline)? {
                return Ok(false);
            }
        }
        let outcome = self.finish_greeting(deadline);
        if outcome.is_err() {
            self.drop_connection();
        }
        match outcome {
            Err(error) if is_safe_mode(&error) => {
                self.next_connect_ns = now_ns.saturating_add(SAFE_MODE_RETRY_NS);
                Ok(false)
            }
            other => other,
        }
    }

    /// The next `advance` may connect at once.
    pub fn hurry(&mut self) {
        self.next_connect_ns = 0;
    }

    /// True while the greeting has been sent and not answered.
    pub fn is_greeting(&self) -> bool {
        matches!(self.stage, Stage::Greeting(..))
    }

    fn connect(&mut self, now_ns: u64, deadline: Instant) -> Result<bool, Error> {
        let socket = match self.spare.take() {
            Some(socket) => socket,
            None => new_socket()?,
        };
        match connect_to_daemon(&socket, deadline)? {
            Reached::Daemon => {}
            outcome => {
                self.spare = Some(socket);
                if outcome == Reached::Crowd {
                    self.next_connect_ns = now_ns.saturating_add(CROWD_RETRY_NS);
                }
                return Ok(false);
            }
        }
        let number = socket.as_raw_fd();
        let mut connection = Connection::new(socket);
        // Without this the socket is closed here, and its number may be the program's own soon.
        let ticket = connection.send(&GREETING)?;
        self.socket.note(number);
        self.serial += 1;
        self.stage = Stage::Greeting(connection, ticket);
        Ok(true)
    }

    fn finish_greeting(&mut self, deadline: Instant) -> Result<bool, Error> {
        let Stage::Greeting(connection, ticket) = &mut self.stage else {
            return Ok(true);
        };
        let Some(reply) = connection.wait(*ticket, deadline)? else {
            return Ok(false);
        };
        refuse("connect", &reply)?;
        let version = reply.version;
        let file = reply
            .page
            .ok_or_else(|| Error::protocol("a greeting without a page"))?;
        let page = Arc::new(Page::map(file)?);
        let Stage::Greeting(mut connection, _) = std::mem::replace(&mut self.stage, Stage::Down)
        else {
            return Ok(false);
        };
        connection.speak(version);
        self.stage = Stage::Up(Up {
            connection,
            page,
            used: 0,
            unsent: Vec::new(),
            proven: false,
        });
        Ok(true)
    }

    /// Forgets the connection; members notice by their page.
    pub fn drop_connection(&mut self) {
        if let Stage::Up(up) = &self.stage {
            up.page.attached().store(0, Ordering::Release);
        }
        self.socket.forget();
        self.stage = Stage::Down;
    }

    /// Notices the end of the connection, without waiting.
    pub fn check(&mut self) {
        if let Stage::Up(up) = &mut self.stage {
            if up.connection.receive().is_err() {
                self.drop_connection();
            }
        }
    }

    /// Sends a join for a slot that was free. Gone: the connection was dead, advance again.
    pub fn send_join(&mut self, terms: &Terms, tid: i32, said: Said) -> Result<Pending, Error> {
        let serial = self.serial;
        let sent = match &mut self.stage {
            Stage::Up(up) => up.send_join(terms, tid, serial, said),
            _ => Err(Error::Gone),
        };
        self.drop_if_useless(sent)
    }

    /// The daemon's answer, awaited until `deadline`; none if it has not come. Gone: the connection has ended.
    pub fn join_answer(
        &mut self,
        pending: &Pending,
        deadline: Instant,
    ) -> Result<Option<()>, Error> {
        let answer = match &mut self.stage {
            Stage::Up(up) if self.serial == pending.place.serial => {
                up.connection.wait(pending.ticket, deadline)
            }
            _ => Err(Error::Gone),
        };
        let Some(reply) = self.drop_if_useless(answer)? else {
            return Ok(None);
        };
        let Stage::Up(up) = &mut self.stage else {
            return Err(Error::Gone);
        };
        up.proven = true;
        if let Err(refusal) = refuse("join", &reply) {
            up.used &= !(1 << pending.place.slot);
            return Err(refusal);
        }
        Ok(Some(()))
    }

    /// Gives the slot back. Waits for the daemon's answer until `deadline`, if there is one.
    pub fn leave(
        &mut self,
        place: &Place,
        join: Option<Ticket>,
        tid: i32,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let Stage::Up(up) = &mut self.stage else {
            return Ok(());
        };
        if self.serial != place.serial {
            return Ok(());
        }
        let left = up.leave(place.slot, join, tid, deadline);
        match self.drop_if_useless(left) {
            Err(Error::Gone) => Ok(()),
            other => other,
        }
    }

    /// A refusal or a full house leaves the connection usable; everything else does not.
    fn drop_if_useless<T>(&mut self, outcome: Result<T, Error>) -> Result<T, Error> {
        match &outcome {
            Ok(_) | Err(Error::Refused { .. } | Error::NoFreeSlot | Error::NoAnswer { .. }) => {}
            Err(_) => self.drop_connection(),
        }
        outcome
    }
}

impl Up {
    fn is_dead(&self) -> bool {
        self.proven && self.page.attached().load(Ordering::Acquire) == 0
    }

    /// `said`: what the thread says there from the beginning.
    fn send_join(
        &mut self,
        terms: &Terms,
        tid: i32,
        serial: u64,
        said: Said,
    ) -> Result<Pending, Error> {
        self.connection.receive()?;
        self.flush()?;
        let slot = (!self.used).trailing_zeros() as usize;
        if slot >= SLOTS {
            return Err(Error::NoFreeSlot);
        }
        self.page.reset_slot(slot);
        if let Some(variables) = self.page.variables(slot) {
            said.write(variables);
        }
        let ticket = self.connection.send(&terms.request(tid, slot as u32))?;
        self.used |= 1 << slot;
        let place = Place {
            page: Arc::clone(&self.page),
            slot,
            serial,
        };
        Ok(Pending { place, ticket })
    }

    fn leave(
        &mut self,
        slot: usize,
        join: Option<Ticket>,
        tid: i32,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        if let Some(ticket) = join {
            self.connection.abandon(ticket);
        }
        self.page.reset_slot(slot);
        // A later join for the slot is sent after this message, so the slot is free at once.
        self.used &= !(1 << slot);
        self.unsent.push(Request::Leave {
            tid,
            slot: slot as u32,
        });
        let Some(ticket) = self.flush()? else {
            return Ok(());
        };
        let Some(deadline) = deadline else {
            self.connection.abandon(ticket);
            return Ok(());
        };
        match self.connection.wait(ticket, deadline)? {
            Some(reply) => refuse("leave", &reply),
            None => {
                self.connection.abandon(ticket);
                Err(Error::NoAnswer {
                    waited_ms: crate::member::DAEMON_WAIT.as_millis() as u64,
                })
            }
        }
    }

    /// Sends what waits to be sent; the last one's ticket, if all went out.
    fn flush(&mut self) -> Result<Option<Ticket>, Error> {
        let mut last = None;
        while let Some(first) = self.unsent.first() {
            match self.connection.send(first) {
                Ok(ticket) => {
                    if let Some(previous) = last.replace(ticket) {
                        self.connection.abandon(previous);
                    }
                    self.unsent.remove(0);
                }
                Err(error) if error.errno() == libc::EAGAIN => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(last)
    }
}

/// Says which versions of messages this library speaks.
const GREETING: Request = Request::Hello {
    greatest: WIRE_VERSION,
    least: WIRE_VERSION_LEAST,
};

pub(crate) fn refuse(action: &'static str, reply: &Reply) -> Result<(), Error> {
    if reply.errno == 0 {
        return Ok(());
    }
    let text = if reply.text.is_empty() {
        std::io::Error::from_raw_os_error(reply.errno)
            .to_string()
            .into_boxed_str()
    } else {
        reply.text.clone()
    };
    Err(Error::Refused {
        action,
        errno: reply.errno,
        text,
    })
}

pub(crate) fn new_socket() -> Result<OwnedFd, Error> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain system call; the descriptor is ours alone.
    unsafe {
        let socket = libc::socket(libc::AF_UNIX, kind, 0);
        if socket < 0 {
            return Err(Error::system("socket"));
        }
        Ok(OwnedFd::from_raw_fd(socket))
    }
}

/// What trying to connect came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reached {
    Daemon,
    /// Nobody listens.
    Nobody,
    /// It listens, and so many others are about to connect that there was no room.
    Crowd,
}

/// Connects, and waits until `deadline` where others are about to do the same: whoever waits is let in before whoever
/// comes later.
pub(crate) fn connect_to_daemon(socket: &OwnedFd, deadline: Instant) -> Result<Reached, Error> {
    let reached = connect_once(socket)?;
    let left = deadline.saturating_duration_since(Instant::now());
    if reached != Reached::Crowd || left.is_zero() {
        return Ok(reached);
    }
    set_blocking(socket, Some(left))?;
    let reached = connect_once(socket);
    set_blocking(socket, None)?;
    reached
}

/// With a time: system calls on the socket wait so long. Without: they do not wait.
fn set_blocking(socket: &OwnedFd, wait: Option<Duration>) -> Result<(), Error> {
    let wait = wait.unwrap_or_default();
    let time = libc::timeval {
        tv_sec: wait.as_secs() as libc::time_t,
        tv_usec: wait.subsec_micros() as libc::suseconds_t,
    };
    let flags = match wait.is_zero() {
        true => libc::O_RDWR | libc::O_NONBLOCK,
        false => libc::O_RDWR,
    };
    // SAFETY: the time is valid for the length given; the rest are plain system calls.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDTIMEO,
            std::ptr::from_ref(&time).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        ) | libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, flags)
    };
    match outcome {
        0 => Ok(()),
        _ => Err(Error::system("setsockopt(SO_SNDTIMEO)")),
    }
}

fn connect_once(socket: &OwnedFd) -> Result<Reached, Error> {
    let path = socket_path();
    // SAFETY: all bytes zero is a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_bytes();
    if bytes.len() >= address.sun_path.len() {
        return Err(Error::System {
            call: "connect to the path in CONSORT_SOCKET",
            source: std::io::Error::from_raw_os_error(libc::ENAMETOOLONG),
        });
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the address is valid for the length given.
    let connected = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_un>() as libc::socklen_t,
        )
    };
    if connected == 0 {
        return Ok(Reached::Daemon);
    }
    let error = std::io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(Reached::Crowd),
        Some(libc::ENOENT | libc::ENOTDIR | libc::ECONNREFUSED | libc::ECONNRESET) => {
            Ok(Reached::Nobody)
        }
        _ => Err(Error::System {
            call: "connect to the daemon's socket",
            source: error,
        }),
    }
}

pub(crate) fn socket_path() -> OsString {
    // SAFETY: plain look-up.
    let has_more_rights_than_its_user = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    match std::env::var_os("CONSORT_SOCKET") {
        Some(path) if !path.is_empty() && !has_more_rights_than_its_user => path,
        _ => {
            let path = consort_abi::CONSORT_SOCKET_PATH;
            OsStr::from_bytes(&path[..path.len() - 1]).to_owned()
        }
    }
}
