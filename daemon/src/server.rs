// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop of the daemon: connections, signals, and the scheduler's end.
//!
//! One message of each ready connection is answered per round, so that a connection that floods the socket
//! delays the others by one answer and no more.

use std::{
    collections::{HashMap, VecDeque},
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use consort_abi::CONSORT_HELLO;
use consort_kernel::ExitReport;
use nix::{
    errno::Errno,
    sys::{
        epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout},
        resource::{getrlimit, setrlimit, Resource},
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};
use tracing::{debug, info, warn};

use crate::{
    clients::ConnectionId,
    config::{ConfigError, Division},
    limits::Limits,
    listen::{self, Listener},
    lock::{Lock, LockError},
    notify::notify,
    peer::Processes,
    requests::Next,
    service::Service,
    wire::{Reply, MESSAGE_BYTES_MAX},
    Host,
};

/// How often the scheduler's health and the members' lives are looked at.
const TICK: Duration = Duration::from_millis(250);
const EVENTS_PER_ROUND: usize = 64;
/// Some twenty unread replies: more than any program needs that reads them.
const UNREAD_BYTES_MAX: usize = 16384;
/// Descriptors for every client that the scheduler has room for, and some.
const DESCRIPTORS: u64 = 8192;

const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const FIRST_CONNECTION: ConnectionId = 2;

#[derive(Debug, Clone)]
pub struct Config {
    pub socket: PathBuf,
    pub limits: Limits,
    /// The operator's file; `None`: the default one, if there is one.
    pub classes: Option<PathBuf>,
}

/// Why the daemon stopped serving.
#[derive(Debug)]
pub enum End {
    Signal(Signal),
    /// The scheduler is out of the kernel; programs run under the stock scheduler.
    Ejected(ExitReport),
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Kernel(#[from] consort_kernel::Error),
    #[error("cannot listen at {}: {source}", path.display())]
    Listen {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Classes(#[from] ConfigError),
    #[error("cannot take up reservations from {}: {source}", path.display())]
    Journal {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the daemon's event loop failed: {0}")]
    Loop(#[from] Errno),
}

/// Takes the lock, loads a scheduler by calling `load`, and serves until a signal (TERM, INT or HUP) or until
/// the scheduler leaves the kernel. The scheduler is unloaded when this returns.
///
/// # Errors
/// When another daemon runs, the scheduler cannot be loaded, or the socket cannot be made.
pub fn serve<H: Host + 'static>(
    config: &Config,
    load: impl FnOnce() -> Result<H, consort_kernel::Error>,
) -> Result<End, ServeError> {
    let _lock = Lock::take(&config.socket)?;
    // Before loading: a signal that comes while loading must unload, too.
    let signals = blocked_signals()?;
    raise_descriptor_limit();
    raise_priority();
    let host = Box::new(load()?);
    let division = Division::read(config.classes.as_deref(), host.cpus())?;
    let listener = Listener::bind(&config.socket).map_err(|source| ServeError::Listen {
        path: config.socket.clone(),
        source,
    })?;
    let mut service = Service::new(host, Processes::default(), config.limits);
    let journal = config.socket.with_extension("journal");
    let opened = service.open_reservations(division, &journal);
    opened.map_err(|source| ServeError::Journal {
        path: journal,
        source,
    })?;
    let mut server = Server::new(service, listener, signals, config.limits.pause)?;
    info!(socket = %config.socket.display(), "serving");
    notify("READY=1");
    let end = server.run()?;
    match &end {
        End::Signal(_) => notify("STOPPING=1"),
        End::Ejected(report) => notify(&format!(
            "STOPPING=1\nSTATUS=the scheduler was ejected: {}",
            report.reason
        )),
    }
    Ok(end)
}

fn blocked_signals() -> Result<SignalFd, Errno> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft >= DESCRIPTORS {
            return Ok(());
        }
        setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, hard.max(DESCRIPTORS))
            .or_else(|_| setrlimit(Resource::RLIMIT_NOFILE, hard, hard))
    });
    if let Err(error) = raised {
        warn!(%error, "cannot raise the limit of open files: fewer programs can connect");
    }
}

/// Programs that join wait for the daemon, which must not queue behind all that is runnable. What users can make
/// it do is bounded by their rates.
fn raise_priority() {
    const NICE: libc::c_int = -10;
    // SAFETY: 0 is this process, and no memory is involved.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } != 0 {
        warn!(error = %io::Error::last_os_error(), "cannot raise the daemon's priority: joining may take long under load");
    }
}

struct Server {
    service: Service,
    listener: Listener,
    signals: SignalFd,
    epoll: Epoll,
    connections: HashMap<ConnectionId, OwnedFd>,
    next_id: ConnectionId,
    /// Connections that are not listened to until a time, in its order.
    paused: VecDeque<(Instant, ConnectionId)>,
    pause: Duration,
    next_tick: Instant,
}

impl Server {
    fn new(
        service: Service,
        listener: Listener,
        signals: SignalFd,
        pause: Duration,
    ) -> Result<Self, Errno> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(
            listener.as_fd(),
            EpollEvent::new(EpollFlags::EPOLLIN, LISTENER),
        )?;
        epoll.add(
            signals.as_fd(),
            EpollEvent::new(EpollFlags::EPOLLIN, SIGNALS),
        )?;
        Ok(Server {
            service,
            listener,
            signals,
            epoll,
            connections: HashMap::new(),
            next_id: FIRST_CONNECTION,
            paused: VecDeque::new(),
            pause,
            next_tick: Instant::now(),
        })
    }

    fn run(&mut self) -> Result<End, Errno> {
        let mut events = [EpollEvent::empty(); EVENTS_PER_ROUND];
        loop {
            let now = Instant::now();
            if now >= self.next_tick {
                self.next_tick = now + TICK;
                if let Some(report) = self.service.exited() {
                    return Ok(End::Ejected(report));
                }
                self.service.tick(now);
            }
            self.resume_paused(now);
            let count = match self.epoll.wait(&mut events, self.timeout(now)) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            for event in &events[..count] {
                match event.data() {
                    LISTENER => self.accept(),
                    SIGNALS => {
                        if let Some(signal) = self.pending_signal()? {
                            return Ok(End::Signal(signal));
                        }
                    }
                    id => self.serve_one(id),
                }
            }
        }
    }

    fn timeout(&self, now: Instant) -> EpollTimeout {
        let resume = self
            .paused
            .front()
            .map_or(self.next_tick, |(until, _)| *until);
        let wait = resume.min(self.next_tick).saturating_duration_since(now);
        // Rounded up: waking before the time would spin.
        let wait_ms = wait.as_millis() as u16 + 1;
        EpollTimeout::from(wait_ms)
    }

    fn pending_signal(&mut self) -> Result<Option<Signal>, Errno> {
        let Some(info) = self.signals.read_signal()? else {
            return Ok(None);
        };
        Signal::try_from(info.ssi_signo as i32).map(Some)
    }

    fn accept(&mut self) {
        let socket = match self.listener.accept() {
            Ok(Some(socket)) => socket,
            Ok(None) => return,
            Err(errno) => {
                // Out of descriptors: wait for a program to end, without spinning.
                warn!(%errno, "cannot accept a connection");
                self.pause_listening(LISTENER);
                return;
            }
        };
        let now = Instant::now();
        let id = self.next_id;
        self.next_id += 1;
        let admitted = self
            .service
            .processes
            .peer_of(&socket)
            .and_then(|peer| self.service.connect(id, peer, now));
        if let Err(refusal) = admitted {
            debug!(%refusal, "connection refused");
            // The program has not spoken yet; it will take this for the answer to its HELLO.
            let _ = listen::send(
                socket.as_raw_fd(),
                &Reply::refused(CONSORT_HELLO as u16, &refusal),
            );
            return;
        }
        let event = EpollEvent::new(EpollFlags::EPOLLIN, id);
        if let Err(errno) = self.epoll.add(&socket, event) {
            warn!(%errno, "cannot watch a connection");
            self.service.disconnect(id, now);
            return;
        }
        self.connections.insert(id, socket);
    }

    fn serve_one(&mut self, id: ConnectionId) {
        let Some(socket) = self.connections.get(&id) else {
            return;
        };
        let fd = socket.as_raw_fd();
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        let length = match listen::receive(fd, &mut buffer) {
            Ok(0) => return self.close(id),
            Ok(length) => length,
            Err(Errno::EAGAIN | Errno::EINTR) => return,
            Err(_) => return self.close(id),
        };
        // Unread replies are kernel memory that the daemon pays for.
        if listen::unread_bytes(fd) > UNREAD_BYTES_MAX {
            debug!(id, "a program does not read its replies");
            return self.close(id);
        }
        let received = &buffer[..length.min(MESSAGE_BYTES_MAX)];
        let (reply, next) = self.service.handle(id, received, length, Instant::now());
        let sent = listen::send(fd, &reply);
        match next {
            _ if sent.is_err() => self.close(id),
            Next::Close => self.close(id),
            Next::Pause => self.pause_listening(id),
            Next::Listen => {}
        }
    }

    fn close(&mut self, id: ConnectionId) {
        if let Some(socket) = self.connections.remove(&id) {
            // Closing would do; other processes may share the file, and would keep it watched.
            let _ = self.epoll.delete(&socket);
        }
        self.service.disconnect(id, Instant::now());
    }

    fn pause_listening(&mut self, id: u64) {
        self.set_interest(id, EpollFlags::empty());
        self.paused.push_back((Instant::now() + self.pause, id));
    }

    fn resume_paused(&mut self, now: Instant) {
        while let Some((_, id)) = self
            .paused
            .front()
            .filter(|(until, _)| *until <= now)
            .copied()
        {
            self.paused.pop_front();
            self.set_interest(id, EpollFlags::EPOLLIN);
        }
    }

    fn set_interest(&self, id: u64, interest: EpollFlags) {
        let mut event = EpollEvent::new(interest, id);
        let changed = match (id, self.connections.get(&id)) {
            (LISTENER, _) => self.epoll.modify(self.listener.as_fd(), &mut event),
            (_, Some(socket)) => self.epoll.modify(socket.as_fd(), &mut event),
            (_, None) => return,
        };
        if let Err(errno) = changed {
            warn!(%errno, "cannot change what is listened to");
        }
    }
}
