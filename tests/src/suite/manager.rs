// SPDX-License-Identifier: MIT OR Apache-2.0
//! A service manager as far as a daemon sees one: what systemd does with descriptors that are put into its store
//! (sd_pid_notify_with_fds(3), sd_listen_fds(3)). The guest has none.

use std::{
    io::IoSliceMut,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::{net::UnixDatagram, process::CommandExt},
    },
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use nix::{
    fcntl::{fcntl, FcntlArg},
    poll::{poll, PollFd, PollFlags, PollTimeout},
    sys::socket::{recvmsg, ControlMessageOwned, MsgFlags},
};

use super::consort::Daemon;

const SOCKET: &str = "/run/manager.sock";
/// `SD_LISTEN_FDS_START`.
const FIRST: RawFd = 3;
/// Above all that are handed on.
const ABOVE: RawFd = 500;

type Store = Arc<Mutex<Vec<(String, OwnedFd)>>>;

pub struct Manager {
    store: Store,
}

impl Manager {
    pub fn start() -> Result<Manager, String> {
        let _ = std::fs::remove_file(SOCKET);
        let socket = UnixDatagram::bind(SOCKET)
            .map_err(|error| format!("cannot listen at {SOCKET}: {error}"))?;
        let store = Store::default();
        let of_thread = Arc::clone(&store);
        thread::spawn(move || while take(&socket, &of_thread).is_some() {});
        Ok(Manager { store })
    }

    /// How many descriptors of such names it keeps.
    pub fn keeps(&self, name: &str) -> usize {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let is_such = |(known, _): &&(String, OwnedFd)| known.starts_with(name);
        store.iter().filter(is_such).count()
    }

    /// Gives up all that it keeps, as systemd does when a unit has ended for good.
    pub fn let_go(&self) {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.clear();
    }

    /// Starts a daemon that may put descriptors here, with those that are here; waits until it serves.
    pub fn start_daemon(&self, options: &[&str]) -> Result<Daemon, String> {
        let mut daemon = self.spawn_daemon(options)?;
        daemon.await_serving()?;
        Ok(daemon)
    }

    /// The same, without waiting.
    pub fn spawn_daemon(&self, options: &[&str]) -> Result<Daemon, String> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = Vec::new();
        for (_, descriptor) in store.iter() {
            let copy = fcntl(descriptor, FcntlArg::F_DUPFD(ABOVE));
            kept.push(copy.map_err(|errno| format!("cannot duplicate a descriptor: {errno}"))?);
        }
        let names: Vec<&str> = store.iter().map(|(name, _)| name.as_str()).collect();
        let (names, count) = (names.join(":"), kept.len());
        drop(store);
        let copies = kept.clone();
        let daemon = Daemon::start_by_shell(options, "LISTEN_PID=$$ exec", move |command| {
            command
                .env("NOTIFY_SOCKET", SOCKET)
                .env("FDSTORE", "8192")
                .env("LISTEN_FDS", count.to_string())
                .env("LISTEN_FDNAMES", names);
            // SAFETY: only system calls between fork and exec.
            unsafe {
                command.pre_exec(move || {
                    for (to, from) in (FIRST..).zip(&kept) {
                        if libc::dup2(*from, to) < 0 {
                            return Err(std::io::Error::last_os_error());
                        }
                    }
                    // Only those at their places are handed on.
                    libc::close_range(ABOVE as u32, u32::MAX, 0);
                    Ok(())
                });
            }
        });
        // SAFETY: made above, and nobody else's.
        copies
            .into_iter()
            .for_each(|fd| drop(unsafe { OwnedFd::from_raw_fd(fd) }));
        daemon
    }
}

/// systemd forgets what says so when it is polled, unless it was told not to ask.
fn has_hung_up(descriptor: &OwnedFd) -> bool {
    let mut ready = [PollFd::new(descriptor.as_fd(), PollFlags::empty())];
    poll(&mut ready, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

/// Takes one message; `None` when the socket has gone.
fn take(socket: &UnixDatagram, store: &Store) -> Option<()> {
    let mut buffer = [0; 4096];
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let mut space = nix::cmsg_space!([RawFd; 8]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags).ok()?;
    let mut descriptors = Vec::new();
    for control in message.cmsgs().ok()? {
        if let ControlMessageOwned::ScmRights(fds) = control {
            // SAFETY: the kernel just made these descriptors for us.
            descriptors.extend(
                fds.into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            );
        }
    }
    let length = message.bytes;
    let said = String::from_utf8_lossy(&buffer[..length]).into_owned();
    let name = said.lines().find_map(|line| line.strip_prefix("FDNAME="));
    let name = name.unwrap_or("stored").to_owned();
    let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
    if said.lines().any(|line| line == "FDSTOREREMOVE=1") {
        store.retain(|(known, _)| *known != name);
    }
    let says = |wanted: &str| said.lines().any(|line| line == wanted);
    if says("FDSTORE=1") {
        let is_of_use = |fd: &OwnedFd| says("FDPOLL=0") || !has_hung_up(fd);
        let kept = descriptors.into_iter().filter(is_of_use);
        store.extend(kept.map(|fd| (name.clone(), fd)));
    }
    Some(())
}
