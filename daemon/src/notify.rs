// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the service manager how the daemon is (the protocol of sd_notify(3)); silent where there is none.

use std::{
    env,
    io::{self, IoSlice},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    os::unix::net::UnixDatagram,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, SyncSender},
        Arc, OnceLock,
    },
    thread,
    time::{Duration, Instant},
};

use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags, UnixAddr};
use tracing::warn;

/// Tells the service manager again and again that the daemon's loop goes round, where it wants to know
/// (`WATCHDOG_USEC`).
#[derive(Debug)]
pub struct Watchdog {
    every: Option<Duration>,
    next: Instant,
}

impl Watchdog {
    /// As the environment says; another process' wish is not ours.
    pub fn asked_for() -> Self {
        let read = |name| env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = read("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let limit = read("WATCHDOG_USEC").filter(|limit| *limit > 0 && is_ours);
        Watchdog {
            // Half of it, as sd_watchdog_enabled(3) has it.
            every: limit.map(|limit| Duration::from_micros(limit) / 2),
            next: Instant::now(),
        }
    }

    pub fn feed(&mut self, now: Instant) {
        let Some(every) = self.every.filter(|_| now >= self.next) else {
            return;
        };
        self.next = now + every;
        notify("WATCHDOG=1");
    }
}

/// Sends `state`, such as `READY=1`, to the socket that `NOTIFY_SOCKET` names.
pub fn notify(state: &str) {
    if let Err(error) = notify_with(state, &[]) {
        warn!(%error, "cannot notify the service manager");
    }
}

/// How long a manager may be behind: anybody can keep it busy, since everybody may send to its socket.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where the daemon itself waits, before it serves and when it ends.
const OWN_PATIENCE: Duration = Duration::from_millis(250);
/// Words that wait: as many as there are connections.
const WAITING_MAX: usize = 4096;

/// Says aside what the manager does not take at once: nobody else waits for it.
#[derive(Debug)]
struct Aside {
    sender: SyncSender<(String, Vec<OwnedFd>)>,
    waiting: Arc<AtomicUsize>,
}

static ASIDE: OnceLock<Aside> = OnceLock::new();

/// From now on no word to the manager holds this thread up.
pub(crate) fn begin_aside() {
    if ASIDE.get().is_some() || env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    match Aside::start() {
        Ok(aside) => drop(ASIDE.set(aside)),
        Err(error) => warn!(%error, "a service manager that is behind holds the daemon up"),
    }
}

/// Waits a moment until all is said.
pub(crate) fn end_aside() {
    let until = Instant::now() + OWN_PATIENCE;
    while ASIDE.get().is_some_and(Aside::is_behind) && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}

impl Aside {
    fn start() -> io::Result<Self> {
        let (sender, words) = mpsc::sync_channel::<(String, Vec<OwnedFd>)>(WAITING_MAX);
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        let thread = thread::Builder::new().name("consort-notify".to_owned());
        thread.spawn(move || {
            for (state, descriptors) in words {
                let descriptors: Vec<BorrowedFd> = descriptors.iter().map(AsFd::as_fd).collect();
                if let Err(error) = say(&state, &descriptors, Some(PATIENCE)) {
                    warn!(%error, state, "the service manager was not told");
                }
                left.fetch_sub(1, Ordering::Release);
            }
        })?;
        Ok(Aside { sender, waiting })
    }

    fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    fn say(&self, state: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let copies = descriptors.iter().map(BorrowedFd::try_clone_to_owned);
        let copies: Vec<OwnedFd> = copies.collect::<io::Result<_>>()?;
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.sender
            .try_send((state.to_owned(), copies))
            .map_err(|_| {
                self.waiting.fetch_sub(1, Ordering::AcqRel);
                io::Error::from(io::ErrorKind::WouldBlock)
            })
    }
}

/// The same, with descriptors. What is said comes in order.
///
/// # Errors
/// EAGAIN where the manager is far behind, or those of sending.
pub(crate) fn notify_with(state: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let Some(aside) = ASIDE.get() else {
        return say(state, descriptors, Some(OWN_PATIENCE));
    };
    if aside.is_behind() {
        return aside.say(state, descriptors);
    }
    match say(state, descriptors, None) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => aside.say(state, descriptors),
        said => said,
    }
}

/// `patience`: how long to wait for a manager that is behind.
fn say(state: &str, descriptors: &[BorrowedFd<'_>], patience: Option<Duration>) -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    let name = name.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(rest) => UnixAddr::new_abstract(rest)?,
        None => UnixAddr::new(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    let wait = match patience {
        Some(_) => MsgFlags::empty(),
        None => MsgFlags::MSG_DONTWAIT,
    };
    socket.set_write_timeout(patience)?;
    let descriptors: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let control = match descriptors.is_empty() {
        true => &[][..],
        false => &rights[..],
    };
    let flags = MsgFlags::MSG_NOSIGNAL | wait;
    let parts = [IoSlice::new(state.as_bytes())];
    sendmsg(socket.as_raw_fd(), &parts, control, flags, Some(&address))?;
    Ok(())
}
