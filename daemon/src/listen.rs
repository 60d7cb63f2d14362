// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket: where it is, who may connect, and messages in and out.

use std::{
    env, fs, io,
    io::{IoSlice, IoSliceMut},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use consort_abi::CONSORT_SOCKET_PATH;
use nix::{
    errno::Errno,
    sys::socket::{
        accept4, bind, listen, recvmsg, sendmsg, socket, AddressFamily, Backlog, ControlMessage,
        MsgFlags, SockFlag, SockType, UnixAddr,
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

/// A listening socket whose file goes with it.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

impl Listener {
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
        // Everybody may connect: what each may do is decided by who they are, request by request.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
        listen(&socket, Backlog::new(BACKLOG)?)?;
        Ok(Listener {
            socket,
            path: path.to_owned(),
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
        // When this fails the file stays, and the next daemon removes it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Receives one message into `buffer` and returns its true length: above `buffer`'s when it did not fit,
/// 0 when the peer has closed the connection. Descriptors that come along are dropped by the kernel.
///
/// # Errors
/// EAGAIN when there is no message.
pub fn receive(socket: RawFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
    recvmsg::<()>(socket, &mut parts, None, flags).map(|message| message.bytes)
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
