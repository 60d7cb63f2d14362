// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file descriptors that events wait for, in one epoll instance.
//!
//! A descriptor stays in epoll after its event has run, since most events wait for it again: that costs no
//! system call. It is taken out when it turns out to be ready and nobody waits for it.

use super::Event;
use crate::epoll::Epoll;
use crate::Error;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Descriptors told at a time; epoll tells the others first the next time.
const READY_AT_A_TIME: usize = 64;

pub struct Watches {
    epoll: Epoll,
    fd: OwnedFd,
    /// Which event a descriptor in epoll belongs to.
    owners: HashMap<RawFd, Event>,
    watches: HashMap<Event, Watch>,
    awaiting: HashSet<Event>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Watch {
    fd: RawFd,
    bits: u32,
}

impl Watches {
    pub fn new() -> Result<Watches, Error> {
        // SAFETY: plain system call; the descriptor is ours alone.
        let fd = unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 {
                return Err(Error::system("epoll_create1"));
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Watches {
            epoll: Epoll::new(fd.as_raw_fd(), READY_AT_A_TIME),
            fd,
            owners: HashMap::new(),
            watches: HashMap::new(),
            awaiting: HashSet::new(),
        })
    }

    pub fn epoll_mut(&mut self) -> &mut Epoll {
        &mut self.epoll
    }

    /// Readable when a descriptor is ready.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// How many events wait for their descriptors.
    pub fn awaited(&self) -> usize {
        self.awaiting.len()
    }

    pub fn ready_count(&self) -> usize {
        self.epoll.ready().len()
    }

    /// The event of the nth descriptor found ready, and its bits.
    pub fn ready_at(&self, index: usize) -> (Event, u32) {
        let found = self.epoll.ready()[index];
        (Event(found.u64), found.events)
    }

    /// The event's descriptor was found ready: it does not wait any more.
    pub fn is_ready(&mut self, event: Event) {
        self.awaiting.remove(&event);
    }

    /// The event waits until `fd` is ready. `is_taken` tells whether another event is submitted.
    pub fn await_ready(
        &mut self,
        event: Event,
        fd: RawFd,
        bits: u32,
        is_taken: impl Fn(Event) -> bool,
    ) -> Result<(), Error> {
        let watch = Watch { fd, bits };
        if self.watches.get(&event) != Some(&watch) {
            self.watch(event, watch, is_taken)?;
        }
        self.awaiting.insert(event);
        Ok(())
    }

    fn watch(
        &mut self,
        event: Event,
        watch: Watch,
        is_taken: impl Fn(Event) -> bool,
    ) -> Result<(), Error> {
        match self.owners.get(&watch.fd).copied() {
            Some(owner) if owner != event && is_taken(owner) => {
                return Err(Error::DescriptorTaken { fd: watch.fd })
            }
            // The owner's number may have been closed and opened anew since: start afresh.
            Some(owner) => self.forget(owner, false),
            None => {}
        }
        self.forget(event, false);
        self.control(libc::EPOLL_CTL_ADD, watch.fd, watch.bits, event)?;
        self.owners.insert(watch.fd, event);
        self.watches.insert(event, watch);
        Ok(())
    }

    /// Takes the event's descriptor out of epoll, if it is there.
    pub fn forget(&mut self, event: Event, was_awaiting: bool) {
        if was_awaiting {
            self.awaiting.remove(&event);
        }
        if let Some(watch) = self.watches.remove(&event) {
            self.owners.remove(&watch.fd);
            // Fails if the descriptor was closed meanwhile, which took it out as well.
            let _ = self.control(libc::EPOLL_CTL_DEL, watch.fd, 0, event);
        }
    }

    fn control(
        &self,
        operation: libc::c_int,
        fd: RawFd,
        bits: u32,
        event: Event,
    ) -> Result<(), Error> {
        let mut wanted = libc::epoll_event {
            events: bits,
            u64: event.0,
        };
        // SAFETY: one valid epoll_event.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut wanted) } {
            0 => Ok(()),
            _ => Err(match Error::system("epoll_ctl") {
                error if error.errno() == libc::EPERM => Error::AlwaysReady { fd },
                error if error.errno() == libc::EBADF => Error::NotOpen { fd },
                error => error,
            }),
        }
    }
}
