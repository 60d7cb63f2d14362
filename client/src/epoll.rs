// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for file descriptors and for a due time in one system call.

use crate::clock::{now_ns, sleep_until, timespec_from_ns};
use crate::layout::NEVER;
use crate::poll::Sleeper;
use crate::Error;
use std::os::fd::RawFd;

const NS_PER_MS: u64 = 1_000_000;

/// An epoll instance to sleep on, and room for what turns out to be ready.
pub struct Epoll {
    fd: RawFd,
    events: Vec<libc::epoll_event>,
    ready: usize,
}

impl Epoll {
    /// `fd` is an epoll instance that outlives this; at most `capacity` (at least 1) file descriptors are told at a
    /// time.
    pub fn new(fd: RawFd, capacity: usize) -> Epoll {
        Epoll {
            fd,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; capacity.max(1)],
            ready: 0,
        }
    }

    /// What the last wait found.
    pub fn ready(&self) -> &[libc::epoll_event] {
        &self.events[..self.ready]
    }

    pub(crate) fn clear(&mut self) {
        self.ready = 0;
    }

    /// Looks without waiting.
    ///
    /// # Errors
    /// [`Error::System`]: it is no epoll instance.
    pub fn look(&mut self) -> Result<(), Error> {
        self.wait_ms(0)
    }

    /// Waits until a file descriptor is ready, `due_ns` is there, or a signal handler has run.
    pub(crate) fn wait_until(&mut self, due_ns: u64) -> Result<(), Error> {
        let left_ns = match due_ns {
            NEVER => None,
            due_ns => Some(due_ns.saturating_sub(now_ns())),
        };
        match self.wait_ns(left_ns) {
            Err(error) if error.errno() == libc::ENOSYS => self.wait_coarsely(due_ns),
            other => other,
        }
    }

    fn wait_ns(&mut self, left_ns: Option<u64>) -> Result<(), Error> {
        let timeout = left_ns.map(timespec_from_ns);
        // SAFETY: the buffer has room for the number of events given; the timeout is valid or null.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd,
                self.events.as_mut_ptr(),
                self.events.len() as libc::c_int,
                timeout
                    .as_ref()
                    .map_or(std::ptr::null(), std::ptr::from_ref),
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        self.note(ready)
    }

    /// Before Linux 5.11: whole milliseconds with file descriptors, the rest without.
    fn wait_coarsely(&mut self, due_ns: u64) -> Result<(), Error> {
        if due_ns == NEVER {
            return self.wait_ms(-1);
        }
        let left_ms = due_ns.saturating_sub(now_ns()) / NS_PER_MS;
        self.wait_ms(left_ms.min(i32::MAX as u64) as i32)?;
        if self.ready == 0 && left_ms == 0 {
            sleep_until(due_ns)?;
        }
        Ok(())
    }

    fn wait_ms(&mut self, timeout_ms: i32) -> Result<(), Error> {
        let capacity = self.events.len() as libc::c_int;
        // SAFETY: the buffer has room for `capacity` events.
        let ready =
            unsafe { libc::epoll_wait(self.fd, self.events.as_mut_ptr(), capacity, timeout_ms) };
        self.note(libc::c_long::from(ready))
    }

    fn note(&mut self, ready: libc::c_long) -> Result<(), Error> {
        self.ready = 0;
        match usize::try_from(ready) {
            Ok(ready) => self.ready = ready,
            Err(_) => {
                let error = Error::system("epoll_pwait2");
                match error.errno() {
                    libc::EINTR => {}
                    libc::EINVAL => return Err(Error::NoEpoll { fd: self.fd }),
                    libc::EBADF => return Err(Error::NotOpen { fd: self.fd }),
                    _ => return Err(error),
                }
            }
        }
        Ok(())
    }
}

pub(crate) struct EpollSleeper<'a>(pub &'a mut Epoll);

impl Sleeper for EpollSleeper<'_> {
    const HAS_FDS: bool = true;

    fn sleep(&mut self, due_ns: u64) -> Result<(), Error> {
        self.0.wait_until(due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoll_with_eventfd(value: u32) -> (Epoll, RawFd) {
        unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            let event_fd = libc::eventfd(value, libc::EFD_CLOEXEC);
            let mut wanted = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: 5,
            };
            let added = libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, event_fd, &mut wanted);
            assert_eq!(added, 0);
            (Epoll::new(fd, 2), event_fd)
        }
    }

    /// Older kernels than this one take this way.
    #[test]
    fn waiting_coarsely_is_never_early_and_hears_descriptors() {
        let (mut idle, _) = epoll_with_eventfd(0);
        let due_ns = now_ns() + 3_300_000;
        while now_ns() < due_ns {
            idle.wait_coarsely(due_ns).unwrap();
            assert!(idle.ready().is_empty());
        }
        let (mut ready, _) = epoll_with_eventfd(1);
        ready.wait_coarsely(NEVER).unwrap();
        assert_eq!(ready.ready().len(), 1);
        ready.wait_coarsely(now_ns() + 1_000_000_000).unwrap();
        assert_eq!({ ready.ready()[0].u64 }, 5);
    }

    #[test]
    fn a_descriptor_that_is_no_epoll_is_an_error() {
        let (_, event_fd) = epoll_with_eventfd(0);
        let error = Epoll::new(event_fd, 1).wait_until(0).err().unwrap();
        assert_eq!(error.errno(), libc::EINVAL);
    }
}
