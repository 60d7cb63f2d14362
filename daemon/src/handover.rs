// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon that runs hands over to the next one (`consort serve --replace`), over its own socket:
//!
//! 1. The next one asks (CONTROL `hand_over`) and is root, or the daemon's user. From then on the first one answers nobody:
//!    what programs ask waits in their connections.
//! 2. The first one sends all its descriptors: messages of JSON, a list of names, with as many descriptors; an empty list
//!    is the last.
//! 3. The next one takes over, and says [`TAKEN`]. The first one ends without giving anything up.
//!
//! If the next one hangs up instead, is stopped, or does not say so in time, the first one serves on.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

use consort_kernel::TunablesChange;
use nix::{
    errno::Errno,
    poll::{poll, PollFd, PollFlags, PollTimeout},
    sys::{
        socket::{
            connect, getsockopt, sendmsg, setsockopt, socket, sockopt, AddressFamily,
            ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr,
        },
        time::{TimeVal, TimeValLike},
    },
    unistd::geteuid,
};

use crate::{
    estate::Estate,
    host::Running,
    listen, peer,
    procfs::Stat,
    wire::{self, ANSWER_BYTES_MAX, REPLY_BYTES},
};

/// Said by the daemon that has taken over.
const TAKEN: &[u8] = b"taken";
/// Descriptors of one message: some less than the kernel takes.
const DESCRIPTORS: usize = 128;
/// How long the next daemon may take: an emulated machine is slow to exchange a scheduler.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the other one may be stopped: whoever has typed ^Z need not come back.
const STOPPED: Duration = Duration::from_secs(1);
/// More than the names of one message.
const NAMES_BYTES_MAX: usize = 65536;

#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    #[error("no daemon listens at {0} that could be replaced: start one without --replace")]
    Nobody(String),
    #[error(
        "whoever listens at {path} runs as user {uid}: expected root, or the owner of the folder"
    )]
    Stranger { path: String, uid: u32 },
    #[error(
        "the daemon that runs cannot hand over: {0}. End it, and start this one without --replace"
    )]
    Refused(String),
    #[error(
        "the daemon that runs hands over to root alone, and to the user that it runs as: run this with sudo"
    )]
    NotPermitted,
    #[error("the daemon that runs did not hand over all: {0}. It serves on")]
    Broken(io::Error),
}

impl From<Errno> for HandoverError {
    fn from(errno: Errno) -> Self {
        HandoverError::Broken(errno.into())
    }
}

/// The next daemon's side.
#[derive(Debug)]
pub struct Successor {
    socket: OwnedFd,
    pub running: Running,
}

impl Successor {
    /// Connects to the daemon at `path`, and asks which scheduler it has.
    ///
    /// # Errors
    /// Nobody listens there, or a daemon that cannot hand over.
    pub fn connect(path: &Path) -> Result<Self, HandoverError> {
        let kind = SockType::SeqPacket;
        let socket = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
        let timeout = TimeVal::seconds(PATIENCE.as_secs() as i64);
        setsockopt(&socket, sockopt::ReceiveTimeout, &timeout)?;
        setsockopt(&socket, sockopt::SendTimeout, &timeout)?;
        let shown = path.display().to_string();
        connect(socket.as_raw_fd(), &UnixAddr::new(path)?).map_err(|errno| match errno {
            Errno::ENOENT | Errno::ECONNREFUSED => HandoverError::Nobody(shown.clone()),
            errno => errno.into(),
        })?;
        // What it hands over is trusted: its descriptors become the daemon's own. Whose folder it is could put any socket
        // there.
        let uid = getsockopt(&socket, sockopt::PeerCredentials)?.uid();
        let folder = path.parent().and_then(|folder| folder.metadata().ok());
        let owner = folder.map_or(0, |folder| folder.uid());
        if ![0, owner, geteuid().as_raw()].contains(&uid) {
            return Err(HandoverError::Stranger { path: shown, uid });
        }
        let mut successor = Successor {
            socket,
            running: Running::default(),
        };
        let status = successor.ask(r#"{"command": "status"}"#)?;
        let identity = status["scheduler"]["identity"].as_str();
        let identity = identity.filter(|identity| !identity.is_empty());
        let none = || HandoverError::Refused("it is too old, or in safe mode".to_owned());
        successor.running = Running {
            identity: identity.ok_or_else(none)?.to_owned(),
            tunables: TunablesChange {
                granularity_ns: status["tunables"]["granularity_ns"].as_u64(),
                min_slice_ns: status["tunables"]["min_slice_ns"].as_u64(),
            },
        };
        Ok(successor)
    }

    fn ask(&self, command: &str) -> Result<serde_json::Value, HandoverError> {
        self.send(&wire::control_message(command))?;
        let mut buffer = vec![0; REPLY_BYTES + ANSWER_BYTES_MAX];
        let length =
            nix::sys::socket::recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let reply = wire::parse_reply(&buffer[..length])
            .ok_or_else(|| HandoverError::Refused("its answer is not Consort's".to_owned()))?;
        match reply.error {
            0 => {}
            error if Errno::from_raw(error) == Errno::EPERM => {
                return Err(HandoverError::NotPermitted)
            }
            _ => return Err(HandoverError::Refused(reply.text)),
        }
        serde_json::from_slice(&reply.rest).map_err(|error| HandoverError::Broken(error.into()))
    }

    fn send(&self, message: &[u8]) -> Result<(), HandoverError> {
        let fd = self.socket.as_raw_fd();
        nix::sys::socket::send(fd, message, MsgFlags::MSG_NOSIGNAL)?;
        Ok(())
    }

    /// Lets the daemon hand over.
    ///
    /// # Errors
    /// It refuses, or stops before the end. It serves on, then or once this is dropped.
    pub fn take_over(&self) -> Result<Estate, HandoverError> {
        self.ask(r#"{"command": "hand_over"}"#)?;
        let mut named = BTreeMap::new();
        let mut buffer = vec![0; NAMES_BYTES_MAX];
        loop {
            let (length, descriptors) = receive_waiting(self.socket.as_fd(), &mut buffer)?;
            let names: Vec<String> = serde_json::from_slice(&buffer[..length])
                .map_err(|error| HandoverError::Broken(error.into()))?;
            if names.len() != descriptors.len() {
                let text = "names and descriptors differ in number";
                return Err(HandoverError::Broken(io::Error::other(text)));
            }
            if names.is_empty() {
                break;
            }
            named.extend(names.into_iter().zip(descriptors));
        }
        Ok(Estate {
            predecessor: peer::process_at(self.socket.as_fd()),
            ..Estate::of(named)
        })
    }

    /// Says that everything is taken over: the other daemon ends.
    ///
    /// # Errors
    /// It has not waited.
    pub fn taken(self) -> Result<(), HandoverError> {
        self.send(TAKEN)
    }
}

fn receive_waiting(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> Result<(usize, Vec<OwnedFd>), Errno> {
    wait_for(socket, PollFlags::POLLIN, Instant::now() + PATIENCE)?;
    match listen::receive(socket.as_raw_fd(), buffer)? {
        (0, _) => Err(Errno::EPIPE),
        (length, _) if length > buffer.len() => Err(Errno::EMSGSIZE),
        received => Ok(received),
    }
}

/// Waits for the daemon at the other end.
fn wait_for(socket: BorrowedFd<'_>, what: PollFlags, until: Instant) -> Result<(), Errno> {
    let mut was_stopped = false;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left.min(STOPPED)).unwrap_or(PollTimeout::MAX);
        let mut ready = [PollFd::new(socket, what)];
        match poll(&mut ready, timeout) {
            Ok(0) => {
                let is_stopped = is_stopped(socket);
                if left.is_zero() || (was_stopped && is_stopped) {
                    return Err(Errno::ETIMEDOUT);
                }
                was_stopped = is_stopped;
            }
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Whether a signal or a debugger has stopped the process at the other end.
fn is_stopped(socket: BorrowedFd<'_>) -> bool {
    let other = peer::credentials(socket).ok();
    let folder = other.map(|other| Path::new("/proc").join(other.pid().to_string()));
    let stat = folder.and_then(|folder| Stat::of(&folder));
    stat.is_some_and(|stat| matches!(stat.state, 'T' | 't'))
}

/// The side of the daemon that runs: sends all, and waits until the next one has taken over.
///
/// # Errors
/// It has not: this daemon serves on.
pub(crate) fn hand_over(
    socket: BorrowedFd<'_>,
    named: &[(String, BorrowedFd<'_>)],
) -> Result<(), Errno> {
    let until = Instant::now() + PATIENCE;
    for part in named.chunks(DESCRIPTORS).chain([&[][..]]) {
        let names: Vec<&String> = part.iter().map(|(name, _)| name).collect();
        let message = serde_json::to_vec(&names).map_err(|_| Errno::EINVAL)?;
        let descriptors: Vec<RawFd> = part.iter().map(|(_, fd)| fd.as_raw_fd()).collect();
        send_waiting(socket, &message, &descriptors, until)?;
    }
    wait_for(socket, PollFlags::POLLIN, until)?;
    let mut said = [0; 16];
    match listen::receive(socket.as_raw_fd(), &mut said)? {
        (length, _) if said.get(..length) == Some(TAKEN) => Ok(()),
        _ => Err(Errno::EPIPE),
    }
}

fn send_waiting(
    socket: BorrowedFd<'_>,
    message: &[u8],
    descriptors: &[RawFd],
    until: Instant,
) -> Result<(), Errno> {
    let rights = [ControlMessage::ScmRights(descriptors)];
    let control = match descriptors.is_empty() {
        true => &[][..],
        false => &rights[..],
    };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    loop {
        let parts = [IoSlice::new(message)];
        match sendmsg::<()>(socket.as_raw_fd(), &parts, control, flags, None) {
            Ok(_) => return Ok(()),
            Err(Errno::EAGAIN) => wait_for(socket, PollFlags::POLLOUT, until)?,
            Err(errno) => return Err(errno),
        }
    }
}
