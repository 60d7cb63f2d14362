// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket: where it is, who may connect, and messages in and out.

use std::{
    env, fs, io,
    io::{IoSlice, IoSliceMut},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc, Arc,
    },
};

use consort_abi::CONSORT_SOCKET_PATH;
use nix::{
    errno::Errno,
    fcntl::{fcntl, FcntlArg, OFlag},
    sys::socket::{
        accept4, bind, getsockopt, listen, recvmsg, sendmsg, shutdown, socket, sockopt,
        AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, Shutdown, SockFlag,
        SockType, UnixAddr,
    },
};

use crate::wire::Reply;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// `CONSORT_SOCKET`, or where the daemon listens by default.
pub fn socket_path() -> PathBuf {
    match env::var_os("CONSORT_SOCKET") {
        Some(path) if !path.is_empty() => path.into(),
        _ => String::from_utf8_lossy(CONSORT_SOCKET_PATH)
            .trim_end_matches('\0')
            .into(),
    }
}

/// A listening socket. Its file goes with it, if the daemon has made it.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: Option<PathBuf>,
}

/// Whether it is a socket of the kind that a daemon listens at.
pub(crate) fn is_listener(socket: &OwnedFd) -> bool {
    getsockopt(socket, sockopt::SockType).is_ok_and(|kind| kind == SockType::SeqPacket)
        && getsockopt(socket, sockopt::AcceptConn).unwrap_or(false)
}

impl Listener {
    /// Leaves its file to the daemon that has taken the socket over.
    pub fn hand_on(&mut self) {
        self.path = None;
    }

    /// Whether its file goes with it.
    pub fn is_own(&self) -> bool {
        self.path.is_some()
    }

    /// From now on the kernel tells everybody who connects that this process listens, not the one that made the socket.
    ///
    /// # Errors
    /// Those of listening.
    pub fn sign(&self) -> io::Result<()> {
        Ok(listen(&self.socket, Backlog::new(BACKLOG)?)?)
    }

    /// From now on the file at `path` goes with it: the daemon that has made it has gone.
    pub fn own(&mut self, path: &Path) {
        self.path = Some(path.to_owned());
    }

    /// Listens at a socket that somebody else has made; its file stays.
    ///
    /// # Errors
    /// EINVAL for one that does not listen, or not for packets.
    pub fn adopt(socket: OwnedFd) -> io::Result<Self> {
        if !is_listener(&socket) {
            let text = "the service manager's socket is no listening one for packets: expected ListenSequentialPacket=";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        fcntl(
            &socket,
            FcntlArg::F_SETFL(OFlag::O_RDWR | OFlag::O_NONBLOCK),
        )?;
        refuse_descriptors(&socket);
        Ok(Listener { socket, path: None })
    }

    /// Listens at `path`, in place of a daemon that died; the caller holds the lock that says so.
    ///
    /// # Errors
    /// Those of making the socket.
    pub fn bind(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
        refuse_descriptors(&socket);
        // Everybody may connect: what each may do is decided by who they are, request by request.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
        listen(&socket, Backlog::new(BACKLOG)?)?;
        Ok(Listener {
            socket,
            path: Some(path.to_owned()),
        })
    }

    /// The next connection that waits; `None` when there is none.
    ///
    /// # Errors
    /// EMFILE and ENFILE when no descriptor is left.
    pub fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        match accept4(self.socket.as_raw_fd(), flags) {
            // SAFETY: the kernel just made this descriptor, and nobody else has it.
            Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.socket)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // When this fails the file stays, and the next daemon removes it.
            let _ = fs::remove_file(path);
        }
    }
}

const SO_PASSRIGHTS: libc::c_int = 83;

/// Lets the kernel refuse messages with descriptors (Linux 6.16): who sends one is told EPERM. The last reference to a
/// stranger's file must never be the daemon's, since giving it up may take as long as the stranger likes. Connections
/// have it from the socket that they came to, as it was when they were made.
fn refuse_descriptors(socket: &OwnedFd) {
    let no: libc::c_int = 0;
    // SAFETY: the pointer is to one int, whose length is given.
    let refused = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            std::ptr::from_ref(&no).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if refused != 0 {
        let error = io::Error::last_os_error();
        tracing::warn!(%error, "this kernel lets programs send descriptors to the daemon: they are closed aside");
    }
}

/// Whether no stranger's file can be in a connection: then closing it never waits. Where a service manager listens before
/// the daemon does, some are made before descriptors are refused.
pub(crate) fn closes_at_once(connection: &OwnedFd) -> bool {
    let (mut passes, mut length): (libc::c_int, _) =
        (1, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the pointers are to one int and its length.
    let told = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            std::ptr::from_mut(&mut passes).cast(),
            &mut length,
        )
    };
    told == 0 && passes == 0
}

/// Receives one message into `buffer` and returns its true length: above `buffer`'s when it did not fit,
/// 0 when the peer has closed the connection. Descriptors come along only where the kernel does not refuse them.
///
/// # Errors
/// EAGAIN when there is no message.
pub fn receive(socket: RawFd, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut parts = [IoSliceMut::new(buffer)];
    let mut space = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket, &mut parts, Some(&mut space), flags)?;
    let mut descriptors = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = control {
            // SAFETY: the kernel just made these descriptors for us.
            descriptors.extend(
                fds.into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            );
        }
    }
    Ok((message.bytes, descriptors))
}

/// Ends what the peer may say, and takes one message that it has said already. Returns the descriptors that came with it.
pub fn shut(socket: RawFd, buffer: &mut [u8]) -> Vec<OwnedFd> {
    let _ = shutdown(socket, Shutdown::Read);
    receive(socket, buffer).map_or_else(|_| Vec::new(), |(_, descriptors)| descriptors)
}

/// `SCM_MAX_FD`: the most that one message can bring; with less room the kernel would give the rest up in our time.
const DESCRIPTORS_MAX: usize = 253;

/// Closes files aside, one after the other: what closing them waits for, nobody else waits for.
#[derive(Debug)]
pub struct Closer {
    files: mpsc::Sender<OwnedFd>,
    waiting: Arc<AtomicUsize>,
}

/// So many files may wait to be closed, and those of one more message: when the daemon may open no more, the kernel gives the
/// rest of a message up in the daemon's own time.
const WAITING_MAX: usize = 512;

impl Closer {
    /// # Errors
    /// When no thread can be made.
    pub fn start() -> io::Result<Self> {
        let (sender, files) = mpsc::channel::<OwnedFd>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let of_closer = waiting.clone();
        let closer = std::thread::Builder::new().name("consort-closer".to_owned());
        closer.spawn(move || {
            for file in files {
                drop(file);
                of_closer.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        Ok(Closer {
            files: sender,
            waiting,
        })
    }

    pub fn close(&self, file: OwnedFd) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(mpsc::SendError(file)) = self.files.send(file) {
            drop(file);
        }
    }

    /// Whether so many files wait that no more are to be received.
    pub fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= WAITING_MAX
    }
}

/// Sends `reply`, with the page's descriptor if it has one, without waiting.
///
/// # Errors
/// EAGAIN when the peer has not read its earlier replies, EPIPE when it has gone.
pub fn send(socket: RawFd, reply: &Reply) -> Result<(), Errno> {
    let bytes = reply.to_bytes();
    let page = reply.page.as_ref().map(AsRawFd::as_raw_fd);
    let descriptors: Vec<RawFd> = page.into_iter().collect();
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let control = if descriptors.is_empty() {
        &[][..]
    } else {
        &rights[..]
    };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(socket, &[IoSlice::new(&bytes)], control, flags, None).map(|_| ())
}

nix::ioctl_read_bad!(outq, libc::TIOCOUTQ, libc::c_int);

/// Kernel memory taken by replies that the peer has not read.
pub fn unread_bytes(socket: RawFd) -> usize {
    let mut bytes = 0;
    // SAFETY: SIOCOUTQ (the same number as TIOCOUTQ) writes one int, which `bytes` is.
    match unsafe { outq(socket, &mut bytes) } {
        Ok(_) => usize::try_from(bytes).unwrap_or(0),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{recv, socketpair};

    /// What a program gets that has said something before it is turned away: the answer, with `shuts`, or the kernel's error.
    fn is_told(shuts: bool) -> Result<usize, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (program, daemon) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        nix::sys::socket::send(program.as_raw_fd(), b"hello", MsgFlags::MSG_NOSIGNAL).unwrap();
        nix::sys::socket::send(daemon.as_raw_fd(), b"no", MsgFlags::MSG_NOSIGNAL).unwrap();
        if shuts {
            assert!(shut(daemon.as_raw_fd(), &mut [0; 8]).is_empty());
        }
        drop(daemon);
        recv(program.as_raw_fd(), &mut [0; 8], MsgFlags::MSG_DONTWAIT)
    }

    #[test]
    fn a_program_that_is_turned_away_is_told_why() {
        assert_eq!(is_told(false), Err(Errno::ECONNRESET));
        assert_eq!(is_told(true), Ok(2));
    }
}
