// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop around one scheduler: connections, signals, and the scheduler's end.
//!
//! One message of each ready connection is answered per round, so that a connection that floods the socket
//! delays the others by one answer and no more. Of many that end at once a few are closed per round: no answer waits for all.

mod connect;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use consort_kernel::{ExitReport, Thread};
use nix::{
    errno::Errno,
    sys::{
        epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout},
        signal::Signal,
        signalfd::SignalFd,
        socket::{shutdown, Shutdown},
        time::TimeSpec,
    },
    time::{clock_gettime, ClockId},
};
use tracing::{debug, info, warn};

use connect::Refused;

use crate::{
    clients::ConnectionId,
    ejection,
    estate::{client_name, Belongings},
    handover,
    listen::{self, Closer, Listener},
    lock::Lock,
    notify::Watchdog,
    priority,
    requests::Next,
    service::Service,
    signals,
    store::Store,
    wire::MESSAGE_BYTES_MAX,
};

/// How often the scheduler's health and the members' lives are looked at.
const TICK: Duration = Duration::from_millis(250);
/// As many as there are connections, but for the largest machines: an answer is not to wait for a second look.
const EVENTS_PER_ROUND: usize = 1024;
/// So many connections that have ended are closed per round.
const ENDS_PER_ROUND: usize = 8;
/// Some twenty unread replies: more than any program needs that reads them.
const UNREAD_BYTES_MAX: usize = 16384;

const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
pub(crate) const FIRST_CONNECTION: ConnectionId = 2;

/// Why a server stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    Signal(Signal),
    /// The scheduler has left the kernel.
    Exited(ExitReport),
    /// Another daemon has taken it out of the kernel, and has not taken over.
    Detached(ExitReport),
    /// Another daemon has taken over.
    Replaced,
}

/// What a server is handed when it starts, and hands on.
pub(crate) struct Tools<'a> {
    pub signals: &'a SignalFd,
    pub lock: &'a Lock,
    pub store: &'a Store,
    pub pause: Duration,
}

pub(crate) struct Server<'a> {
    // Dropped first: the scheduler leaves the kernel before programs find nobody listening.
    pub service: Service,
    pub listener: Listener,
    tools: Tools<'a>,
    epoll: Epoll,
    connections: HashMap<ConnectionId, OwnedFd>,
    next_id: ConnectionId,
    /// Connections that are not listened to until a time; the earliest first.
    paused: BinaryHeap<Reverse<(Instant, ConnectionId)>>,
    /// Those that have ended and are not closed yet; nothing more is heard of them.
    ended: VecDeque<(ConnectionId, OwnedFd)>,
    /// For what strangers may have put into a connection.
    closer: Closer,
    /// A daemon that takes over from this one.
    hands_over_to: Option<ConnectionId>,
    /// A daemon that has not taken over had detached the scheduler by then.
    was_detached: bool,
    refused: Refused,
    watchdog: Watchdog,
    next_tick: Instant,
    /// For one message.
    buffer: Vec<u8>,
    /// Of this thread's CPU time, what is charged to somebody, or is nobody's to pay.
    charged: Duration,
}

impl<'a> Server<'a> {
    pub fn new(
        service: Service,
        listener: Listener,
        connections: Vec<(ConnectionId, OwnedFd)>,
        tools: Tools<'a>,
    ) -> Result<Self, Errno> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(
            listener.as_fd(),
            EpollEvent::new(EpollFlags::EPOLLIN, LISTENER),
        )?;
        epoll.add(
            tools.signals.as_fd(),
            EpollEvent::new(EpollFlags::EPOLLIN, SIGNALS),
        )?;
        for (id, socket) in &connections {
            epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, *id))?;
        }
        let last = connections.iter().map(|(id, _)| *id).max();
        Ok(Server {
            service,
            listener,
            tools,
            epoll,
            next_id: last.map_or(FIRST_CONNECTION, |last| last + 1),
            connections: connections.into_iter().collect(),
            paused: BinaryHeap::new(),
            ended: VecDeque::new(),
            hands_over_to: None,
            was_detached: false,
            closer: Closer::start()
                .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EAGAIN)))?,
            refused: Refused::new(Instant::now()),
            watchdog: Watchdog::asked_for(),
            next_tick: Instant::now(),
            buffer: vec![0; MESSAGE_BYTES_MAX],
            charged: Duration::ZERO,
        })
    }

    /// Serves until a signal comes, or until the scheduler leaves the kernel.
    pub fn run(&mut self) -> Result<Stop, Errno> {
        let mut events = [EpollEvent::empty(); EVENTS_PER_ROUND];
        loop {
            let now = Instant::now();
            if now >= self.next_tick {
                self.next_tick = now + TICK;
                if let Some(report) = self.service.exited() {
                    return Ok(match self.was_detached {
                        true => Stop::Detached(report),
                        false => Stop::Exited(report),
                    });
                }
                self.service.tick(now);
                self.watchdog.feed(now);
                self.charged = cpu_time();
            }
            self.resume_paused(now);
            self.close_ended(ENDS_PER_ROUND);
            let count = match self.epoll.wait(&mut events, self.timeout(now)) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            for event in &events[..count] {
                match event.data() {
                    LISTENER => self.accept(),
                    SIGNALS => match signals::pending(self.tools.signals)? {
                        Some(sent) if sent.signal == Signal::SIGHUP => {
                            self.service.reload((sent.uid, sent.pid));
                        }
                        Some(sent) => return Ok(Stop::Signal(sent.signal)),
                        None => {}
                    },
                    id => self.serve_one(id, event.events()),
                }
                if let Some(id) = self.hands_over_to.take() {
                    if self.hand_over(id) {
                        return Ok(Stop::Replaced);
                    }
                    // What was got meanwhile may be about connections that are closed now.
                    break;
                }
            }
        }
    }

    /// Gives all to the daemon at the other end of a connection. False: it did not take it, and this one serves on.
    fn hand_over(&mut self, id: ConnectionId) -> bool {
        self.close_ended(usize::MAX);
        let Some(successor) = self.connections.get(&id) else {
            return false;
        };
        let others = self.connections.iter().filter(|(other, _)| **other != id);
        let belongings = Belongings {
            lock: self.tools.lock.as_fd(),
            listener: self.listener.as_fd(),
            listener_is_own: self.listener.is_own(),
            connections: others
                .map(|(id, socket)| (self.service.number_at(*id), socket.as_fd()))
                .collect(),
        };
        let mut named = self.service.host.descriptors();
        named.extend(belongings.named());
        let began = Instant::now();
        priority::lower();
        match handover::hand_over(successor.as_fd(), &named) {
            Ok(()) => {
                info!(descriptors = named.len(), after = ?began.elapsed(), "handed over");
                self.listener.hand_on();
                true
            }
            Err(errno) => {
                warn!(%errno, "the other daemon did not take over: this one serves on");
                drop(named);
                let report = self.service.exited();
                self.was_detached = report.as_ref().is_some_and(ejection::was_detached);
                priority::raise();
                self.close(id);
                self.service.take_reservations_back();
                self.service.reservations.take_journal_back();
                self.service.take_groups_back();
                false
            }
        }
    }

    fn timeout(&self, now: Instant) -> EpollTimeout {
        if !self.ended.is_empty() {
            return EpollTimeout::ZERO;
        }
        let resume = self.paused.peek();
        let resume = resume.map_or(self.next_tick, |Reverse((until, _))| *until);
        let wait = resume.min(self.next_tick).saturating_duration_since(now);
        // Rounded up: waking before the time would spin.
        let wait_ms = wait.as_millis() as u16 + 1;
        EpollTimeout::from(wait_ms)
    }

    /// Charges all the CPU time since the last charge, waking up included, and returns it.
    fn charge(&mut self, payer: Option<(u32, Thread)>, now: Instant) -> Duration {
        let until = cpu_time();
        let spent = until.saturating_sub(self.charged);
        self.charged = until;
        if let Some((uid, thread)) = payer {
            self.service.pay(uid, thread, spent, now);
        }
        spent
    }

    fn serve_one(&mut self, id: ConnectionId, events: EpollFlags) {
        let now = Instant::now();
        let wait = self.service.waits_for(id, now);
        let has_ended = events.intersects(EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR);
        let payer = self.service.payer_at(id);
        match wait {
            // An end is told whether it is listened to or not.
            Some(_) if has_ended => self.end(id),
            Some(wait) => self.pause_listening(id, now + wait.max(self.tools.pause)),
            None => self.answer_one(id, now),
        }
        self.charge(payer, now);
    }

    /// The client that is being answered when this daemon is killed is known to the next one.
    fn answer_one(&mut self, id: ConnectionId, now: Instant) {
        let number = self.service.number_at(id);
        self.service.host.set_answering(number.unwrap_or_default());
        self.answer_noted(id, now);
        self.service.host.set_answering(0);
    }

    fn answer_noted(&mut self, id: ConnectionId, now: Instant) {
        let Some(socket) = self.connections.get(&id) else {
            return;
        };
        let fd = socket.as_raw_fd();
        if self.closer.is_behind() && !listen::closes_at_once(socket) {
            debug!(
                id,
                "a program may send descriptors, and too many are being closed"
            );
            return self.end(id);
        }
        let (length, descriptors) = match listen::receive(fd, &mut self.buffer) {
            Ok((0, _)) => return self.end(id),
            Ok(received) => received,
            Err(Errno::EAGAIN | Errno::EINTR) => return,
            Err(_) => return self.end(id),
        };
        if !descriptors.is_empty() {
            debug!(id, "a program sends descriptors");
            let close = |file| self.closer.close(file);
            descriptors.into_iter().for_each(close);
            return self.end(id);
        }
        // Unread replies are kernel memory that the daemon pays for.
        if listen::unread_bytes(fd) > UNREAD_BYTES_MAX {
            debug!(id, "a program does not read its replies");
            return self.end(id);
        }
        let received = &self.buffer[..length.min(MESSAGE_BYTES_MAX)];
        let (reply, next) = self.service.handle(id, received, length, now);
        if let (Some(_), Some(number)) = (&reply.page, self.service.number_at(id)) {
            let name = client_name(number);
            self.tools.store.keep_connection(&name, socket.as_fd());
        }
        let sent = listen::send(fd, &reply);
        match next {
            _ if sent.is_err() => self.end(id),
            Next::Close => self.end(id),
            Next::Pause => self.pause_listening(id, now + self.tools.pause),
            Next::HandOver => self.hands_over_to = Some(id),
            Next::Listen => {}
        }
    }

    /// A connection has ended: it is closed when those have been that ended before it.
    fn end(&mut self, id: ConnectionId) {
        if let Some(socket) = self.connections.remove(&id) {
            // Closing would do; other processes may share the file, and would keep it watched, and open.
            let _ = self.epoll.delete(&socket);
            self.ended.push_back((id, socket));
        }
    }

    /// Closes up to `count` of those that have ended.
    fn close_ended(&mut self, count: usize) {
        for _ in 0..count {
            let Some((id, socket)) = self.ended.pop_front() else {
                return;
            };
            let now = Instant::now();
            let payer = self.service.payer_at(id);
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
            if let Some(number) = self.service.number_at(id) {
                self.tools.store.forget(&client_name(number));
            }
            self.close_connection(socket);
            self.service.disconnect(id, now);
            self.charge(payer, now);
        }
    }

    /// At once, after those that have ended before.
    fn close(&mut self, id: ConnectionId) {
        self.end(id);
        self.close_ended(usize::MAX);
    }

    /// Forgets all programs: the scheduler has gone, and their pages with it.
    pub fn close_all(&mut self) {
        let all: Vec<ConnectionId> = self.connections.keys().copied().collect();
        all.into_iter().for_each(|id| self.close(id));
    }

    fn pause_listening(&mut self, id: u64, until: Instant) {
        self.set_interest(id, EpollFlags::empty());
        self.paused.push(Reverse((until, id)));
    }

    fn resume_paused(&mut self, now: Instant) {
        while let Some(Reverse((until, id))) = self.paused.peek().copied() {
            if until > now {
                break;
            }
            self.paused.pop();
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

/// The CPU time of this thread; 0 where the kernel does not tell.
pub(crate) fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, TimeSpec::into)
}
