// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waking a loop from other threads, and running one inside another loop.

use super::{Begun, Event, EventLoop, Interest, When};
use crate::Error;
use std::cell::Cell;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;

/// Wakes a loop, from any thread. Clones wake the same; one that outlives its loop wakes nobody.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> Result<Waker, Error> {
        // SAFETY: plain system call; the descriptor is ours alone.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Error::system("eventfd"));
        }
        // SAFETY: as above.
        Ok(Waker(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Lets the loop run the waker's event once, however often it is woken before that. Never waits.
    pub fn wake(&self) {
        let one = 1u64;
        // SAFETY: eight valid bytes. It fails only where the loop has been woken 2^64 - 2 times and not run.
        unsafe { libc::write(self.fd(), std::ptr::from_ref(&one).cast(), size_of::<u64>()) };
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Forgets the wakes so far.
    pub(crate) fn hear(&self) {
        let mut count = 0u64;
        // SAFETY: room for eight bytes. It fails where nobody has woken it.
        unsafe {
            libc::read(
                self.fd(),
                std::ptr::from_mut(&mut count).cast(),
                size_of::<u64>(),
            )
        };
    }

    /// How its event is submitted.
    pub(crate) fn when(&self, priority: u32) -> When {
        When::Ready {
            fd: self.fd(),
            interest: Interest::READ,
            priority,
            key: 0,
        }
    }
}

impl EventLoop {
    /// A waker, and its event: after each wake the callback runs as a best-effort event of that priority.
    /// [`EventLoop::run`] goes on until [`EventLoop::remove`] of the event.
    ///
    /// # Errors
    /// [`Error::PriorityRange`]; [`Error::System`].
    pub fn waker(
        &mut self,
        priority: u32,
        mut callback: impl FnMut(&mut EventLoop) + 'static,
    ) -> Result<(Waker, Event), Error> {
        let waker = Waker::new()?;
        let own = Rc::new(Cell::new(None));
        let event = self.event({
            let (waker, own) = (waker.clone(), Rc::clone(&own));
            move |events| {
                waker.hear();
                if let Some(event) = own.get() {
                    // Its descriptor and priority were good before.
                    let _ = events.submit(event, waker.when(priority));
                }
                callback(events);
            }
        });
        own.set(Some(event));
        let submitted = self.submit(event, waker.when(priority));
        if let Err(error) = submitted {
            self.remove(event);
            return Err(error);
        }
        Ok((waker, event))
    }

    /// For another loop that shall run this one: readable when a descriptor of it is. It then calls
    /// [`EventLoop::run_ready`], and at [`EventLoop::next_due_ns`] at the latest.
    pub fn fd(&self) -> RawFd {
        self.watches.fd()
    }

    /// When [`EventLoop::run_ready`] is to be called at the latest; [`NEVER`](crate::NEVER): when the descriptor is ready.
    pub fn next_due_ns(&self) -> u64 {
        let heads = self.queues.heads();
        match heads.best_effort {
            Some(_) => self.now_ns(),
            None => heads.due_ns,
        }
    }

    /// Runs what there is to run now, gives way to the other members in between, and returns instead of sleeping. Until it
    /// is called again, the thread counts as asleep in a poll: what it does meanwhile must be to wait, in the loop outside.
    ///
    /// # Errors
    /// As [`EventLoop::run`].
    pub fn run_ready(&mut self) -> Result<(), Error> {
        self.dispatch(EventLoop::begin_ready)
    }

    /// The next event to call now, or none: then the thread counts as asleep.
    pub(crate) fn begin_ready(&mut self) -> Begun {
        self.host.resume();
        while !std::mem::take(&mut self.stop) {
            let now_ns = self.host.now_ns();
            if self.queues.is_idle_at(now_ns) && self.watches.awaited() > 0 {
                self.watches.epoll_mut().look()?;
                self.take_ready()?;
            }
            if self.queues.is_idle_at(now_ns) {
                self.host.rest(self.queues.heads(), now_ns)?;
                return Ok(None);
            }
            if let Some(event) = self.turn()? {
                if let Some(callback) = self.events.take_callback(event) {
                    return Ok(Some((event, callback)));
                }
            }
        }
        Ok(None)
    }
}
