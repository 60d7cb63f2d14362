// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one thread's events in the order that all members of the domain agree on.
//!
//! Each turn runs the earliest expired due event, else the most important best-effort event. Two proxies stand in
//! the queues for the other members: a due event at the yield-by time, and a best-effort event with the
//! rank of the others' most important one. The callback of both is `yield`, so that the thread gives the CPU
//! up exactly where a single program would have run the others' event next. (The thesis' Figures 2.3 and 2.4.)

mod events;
mod fds;
mod host;
mod queues;
mod waker;

use crate::poll::{check_range, Next, Others};
use crate::{fork_guard, trace, Error, Member};
pub(crate) use events::Callback;
use events::{Events, Place};
use fds::Watches;
pub use host::{Host, Proxies};
use queues::{Pick, Queues};
use std::ffi::c_void;
use std::os::fd::RawFd;
pub use waker::Waker;

/// How often a busy loop looks at its file descriptors, unless it is told otherwise.
const FD_INTERVAL_NS: u64 = 500_000;

/// Names an event of one loop; copies name the same event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Event(pub(crate) u64);

/// When an event shall run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// From this time on, before all best-effort events.
    Due { due_ns: u64 },
    /// When nothing more important is there: the smaller (priority, key), the earlier.
    BestEffort { priority: u32, key: u64 },
    /// As a best-effort event from when the file descriptor is ready. Cancel it before closing that.
    Ready {
        fd: RawFd,
        interest: Interest,
        priority: u32,
        key: u64,
    },
}

/// What of a file descriptor is waited for: bits of epoll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest(pub u32);

impl Interest {
    /// There is something to read, or the other side has gone.
    pub const READ: Interest = Interest(libc::EPOLLIN as u32);
    /// There is room to write.
    pub const WRITE: Interest = Interest(libc::EPOLLOUT as u32);
    const ALLOWED: u32 =
        (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP) as u32;
}

/// The next event to call, and its callback; none when it is time to return.
pub(crate) type Begun = Result<Option<(Event, Callback)>, Error>;

/// One thread's events, and who runs them.
///
/// ```
/// use consort::{EventLoop, When};
///
/// let mut events = EventLoop::new()?;
/// let tick = events.event(|events| {
///     println!("a millisecond later");
///     events.stop();
/// });
/// events.submit(tick, When::Due { due_ns: consort::now_ns() + 1_000_000 })?;
/// events.run()?;
/// # Ok::<(), consort::Error>(())
/// ```
pub struct EventLoop {
    host: Box<dyn Host>,
    events: Events,
    queues: Queues,
    watches: Watches,
    /// An event has run since the last yield. Until then the proxies stay out: every yield is followed
    /// by a unit of work, whatever the others' numbers say.
    worked: bool,
    stop: bool,
    running: bool,
    fd_interval_ns: u64,
    looked_at_ns: u64,
    process: u64,
}

impl EventLoop {
    /// A loop that works alone.
    ///
    /// # Errors
    /// [`Error::System`]: no epoll instance could be made.
    pub fn new() -> Result<EventLoop, Error> {
        EventLoop::on_host(Box::new(host::Alone))
    }

    /// A loop that polls on behalf of the member, which leaves its domain when the loop is dropped.
    ///
    /// # Errors
    /// As [`EventLoop::new`].
    pub fn for_member(member: Member) -> Result<EventLoop, Error> {
        EventLoop::on_host(Box::new(host::OnMember::owning(member)))
    }

    pub(crate) fn for_borrowed_member(member: &Member) -> Result<EventLoop, Error> {
        EventLoop::on_host(Box::new(host::OnMember::borrowing(member)))
    }

    /// A loop with a clock and a poll of one's own.
    ///
    /// # Errors
    /// As [`EventLoop::new`].
    pub fn on_host(host: Box<dyn Host>) -> Result<EventLoop, Error> {
        Ok(EventLoop {
            host,
            events: Events::default(),
            queues: Queues::default(),
            watches: Watches::new()?,
            worked: true,
            stop: false,
            running: false,
            fd_interval_ns: FD_INTERVAL_NS,
            looked_at_ns: 0,
            process: fork_guard::number()?,
        })
    }

    /// A new, idle event. It exists until [`EventLoop::remove`].
    pub fn event(&mut self, callback: impl FnMut(&mut EventLoop) + 'static) -> Event {
        self.events.insert(Callback::Rust(Box::new(callback)))
    }

    pub(crate) fn foreign_event(&mut self, event: *mut c_void) -> Event {
        self.events.insert(Callback::Foreign(event))
    }

    pub(crate) fn foreign_events(&self) -> impl Iterator<Item = *mut c_void> + '_ {
        self.events.foreign()
    }

    /// Submits the event to run once. No effect if it is submitted already (false): cancel it first to change it.
    ///
    /// # Errors
    /// [`Error::PriorityRange`], [`Error::DueRange`], [`Error::UnknownOption`] for interest in nothing that epoll knows;
    /// [`Error::DescriptorTaken`]; [`Error::UnknownEvent`]; [`Error::System`] if epoll does not take the
    /// file descriptor.
    pub fn submit(&mut self, event: Event, when: When) -> Result<bool, Error> {
        self.check_when(when)?;
        if self.events.place(event)? != Place::Idle {
            return Ok(false);
        }
        let place = match when {
            When::Due { due_ns } => self.queues.add_due(event, due_ns),
            When::BestEffort { priority, key } => self.queues.add_best_effort(event, priority, key),
            When::Ready {
                fd,
                interest,
                priority,
                key,
            } => {
                let events = &self.events;
                self.watches
                    .await_ready(event, fd, interest.0, |other| events.is_submitted(other))?;
                Place::Awaiting { priority, key }
            }
        };
        self.events.set_place(event, place);
        Ok(true)
    }

    fn check_when(&self, when: When) -> Result<(), Error> {
        let next = match when {
            When::Due { due_ns } => Next::due(due_ns),
            When::BestEffort { priority, key } | When::Ready { priority, key, .. } => Next {
                due_ns: crate::NEVER,
                best_effort: Some((priority, key)),
            },
        };
        if let When::Ready { interest, .. } = when {
            if interest.0 == 0 || interest.0 & !Interest::ALLOWED != 0 {
                return Err(Error::UnknownOption {
                    what: "interest",
                    value: interest.0,
                });
            }
        }
        check_range(next.raw()?, self.host.now_ns())
    }

    /// Takes the event back. No effect if it is idle, or removed.
    pub fn cancel(&mut self, event: Event) {
        let Ok(place) = self.events.place(event) else {
            return;
        };
        self.queues.remove(place);
        self.watches
            .forget(event, matches!(place, Place::Awaiting { .. }));
        self.events.set_place(event, Place::Idle);
    }

    /// Cancels the event and drops its callback. No effect if it is removed already.
    pub fn remove(&mut self, event: Event) {
        self.cancel(event);
        self.events.remove(event);
    }

    /// Whether the event waits to run.
    pub fn is_submitted(&self, event: Event) -> bool {
        self.events.is_submitted(event)
    }

    /// In the callback of a file descriptor's event: the bits of epoll that were ready; else 0.
    pub fn ready(&self, event: Event) -> u32 {
        self.events.ready(event)
    }

    /// The loop's clock.
    pub fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    /// What the other members want right now.
    ///
    /// # Errors
    /// As [`Member::others`].
    pub fn others(&self) -> Result<Others, Error> {
        self.host.others()
    }

    /// A busy loop looks at its file descriptors at most every `interval_ns` (500 us unless set).
    pub fn set_fd_interval_ns(&mut self, interval_ns: u64) {
        self.fd_interval_ns = interval_ns;
    }

    /// Makes [`EventLoop::run`] return after the current callback; outside of it, makes the next one return at once.
    pub fn stop(&mut self) {
        self.stop = true;
    }

    /// Runs events until [`EventLoop::stop`], or until none is submitted any more.
    ///
    /// # Errors
    /// [`Error::Running`] from inside a callback; [`Error::Forked`] in a child of the process that made the loop; as
    /// [`Member::poll`].
    pub fn run(&mut self) -> Result<(), Error> {
        self.dispatch(EventLoop::begin)
    }

    fn dispatch(&mut self, next: fn(&mut EventLoop) -> Begun) -> Result<(), Error> {
        self.start()?;
        let outcome = loop {
            match next(self) {
                Ok(Some((event, mut callback))) => {
                    if let Callback::Rust(call) = &mut callback {
                        call(self);
                    }
                    self.end(event, callback);
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.finish();
        outcome
    }

    /// First half of `run` for callers that call callbacks of their own between [`EventLoop::begin`] and
    /// [`EventLoop::end`].
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        if self.running {
            return Err(Error::Running);
        }
        if fork_guard::number()? != self.process {
            return Err(Error::Forked);
        }
        self.running = true;
        Ok(())
    }

    pub(crate) fn finish(&mut self) {
        self.running = false;
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running
    }

    /// The next event to call, or none when it is time to stop.
    pub(crate) fn begin(&mut self) -> Begun {
        while !std::mem::take(&mut self.stop) {
            if let Some(event) = self.turn()? {
                if let Some(callback) = self.events.take_callback(event) {
                    return Ok(Some((event, callback)));
                }
            }
        }
        Ok(None)
    }

    pub(crate) fn end(&mut self, event: Event, callback: Callback) {
        self.events.put_back(event, callback);
    }

    /// One turn of Figure 2.3: an event to run, or none after a yield.
    fn turn(&mut self) -> Result<Option<Event>, Error> {
        let now_ns = self.host.now_ns();
        self.look_at_fds(now_ns)?;
        // Read anew each turn: the scheduler may have brought the yield-by time forward.
        let proxies = if self.worked {
            self.host.proxies()?
        } else {
            Proxies::none()
        };
        match self.queues.pick(now_ns, proxies) {
            Pick::Yield => {
                self.yield_to_others(now_ns)?;
                Ok(None)
            }
            Pick::Run(event) => {
                // With the event itself: the thread keeps its rank while it runs it.
                self.host.publish(self.queues.heads(), now_ns)?;
                let place = self.events.place(event)?;
                if let Place::Due { due_ns, .. } = place {
                    trace::due(due_ns, now_ns);
                }
                self.queues.remove(place);
                self.events.set_place(event, Place::Idle);
                self.worked = true;
                Ok(Some(event))
            }
        }
    }

    /// `yield` of Figure 2.4.
    fn yield_to_others(&mut self, now_ns: u64) -> Result<(), Error> {
        let awaits_fds = self.watches.awaited() > 0;
        if self.queues.is_empty() && !awaits_fds {
            self.stop = true;
            return Ok(());
        }
        let next = self.queues.heads();
        self.worked = false;
        if !awaits_fds {
            return self.host.poll(next, now_ns, None);
        }
        self.host
            .poll(next, now_ns, Some(self.watches.epoll_mut()))?;
        self.take_ready()
    }

    fn look_at_fds(&mut self, now_ns: u64) -> Result<(), Error> {
        let looked_lately = now_ns.saturating_sub(self.looked_at_ns) < self.fd_interval_ns;
        // A loop with nothing to run is about to sleep on them anyway.
        if looked_lately || self.watches.awaited() == 0 || self.queues.is_idle_at(now_ns) {
            return Ok(());
        }
        self.looked_at_ns = now_ns;
        self.watches.epoll_mut().look()?;
        self.take_ready()
    }

    /// Makes best-effort events of the file descriptors that were found ready.
    fn take_ready(&mut self) -> Result<(), Error> {
        for index in 0..self.watches.ready_count() {
            let (event, bits) = self.watches.ready_at(index);
            match self.events.place(event) {
                Ok(Place::Awaiting { priority, key }) => {
                    let place = self.queues.add_best_effort(event, priority, key);
                    self.events.set_place(event, place);
                    self.events.set_ready(event, bits);
                    self.watches.is_ready(event);
                }
                // Ready again before its callback has run.
                Ok(Place::BestEffort { .. }) => {}
                // Nobody has asked again: stop hearing of it.
                Ok(_) | Err(_) => self.watches.forget(event, false),
            }
        }
        self.watches.epoll_mut().clear();
        Ok(())
    }
}
