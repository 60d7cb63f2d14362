// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trains: a client that waits for its server lends it its place until the call has ended.
//!
//! A call is a PI futex whose holder is the server: the client writes the server's thread number into a word that both
//! share, and waits for it as for a lock; the server gives it back as its answer. So the kernel knows who waits for whom,
//! follows nested calls, refuses circles, and wakes the client when the server dies; the scheduler runs the server in
//! the place of the best of its clients. Without the scheduler it is a call as any other.

use crate::{Error, NEVER};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// One call at a time, of one client to one server, in memory that both share.
///
/// The memory must stay for as long as the server may answer. All zero is a train without a call.
///
/// ```no_run
/// # let (server, until_ns) = (4711, consort::NEVER);
/// # fn send_request() {}
/// static CALL: consort::Train = consort::Train::new();
///
/// CALL.begin(server)?; // before the request is sent: the answer may come at once
/// send_request();
/// CALL.wait(until_ns)?; // the server, once it has served the request: CALL.end()
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Train {
    /// 0, or the server's thread number with the kernel's flags.
    word: AtomicU32,
}

impl Train {
    pub const fn new() -> Train {
        Train {
            word: AtomicU32::new(0),
        }
    }

    /// A call to the thread `server` (gettid, as the client's pid namespace has it) begins.
    ///
    /// # Errors
    /// [`Error::NoServer`] for what is no thread's number; [`Error::Circle`] for the caller's own;
    /// [`Error::CallUnderWay`] until the call before has ended.
    pub fn begin(&self, server: u32) -> Result<(), Error> {
        if server == 0 || server > libc::FUTEX_TID_MASK {
            return Err(Error::NoServer { server });
        }
        if server == gettid() {
            return Err(Error::Circle);
        }
        let begun = self
            .word
            .compare_exchange(0, server, Ordering::AcqRel, Ordering::Relaxed);
        begun.map(drop).map_err(|word| Error::CallUnderWay {
            server: word & libc::FUTEX_TID_MASK,
        })
    }

    /// Waits until the server has ended the call, at most until `until_ns` ([`NEVER`]: as long as it takes). The server
    /// runs in this thread's place meanwhile.
    ///
    /// # Errors
    /// [`Error::NotAnswered`] at `until_ns`: the call goes on, wait again. [`Error::NoServer`] when the server has ended
    /// without an answer, or there is none; [`Error::Circle`] when the server waits for this thread: the call is over then.
    pub fn wait(&self, until_ns: u64) -> Result<(), Error> {
        let word = self.word.load(Ordering::Acquire);
        let server = word & libc::FUTEX_TID_MASK;
        if word == 0 {
            return Ok(());
        }
        match self.lock(until_ns) {
            Ok(()) => self.take_answer(server),
            Err(libc::ETIMEDOUT) => Err(Error::NotAnswered { server }),
            Err(libc::ESRCH) => {
                self.forget(word);
                Err(Error::NoServer { server })
            }
            Err(libc::EDEADLK) => {
                self.forget(word);
                Err(Error::Circle)
            }
            Err(errno) => Err(Error::System {
                call: "futex",
                source: io::Error::from_raw_os_error(errno),
            }),
        }
    }

    /// The server's answer: the client goes on, and this thread is in its own place again.
    ///
    /// # Errors
    /// [`Error::NotTheServer`] when no call to this thread is under way there.
    pub fn end(&self) -> Result<(), Error> {
        let this = gettid();
        let ended = self
            .word
            .compare_exchange(this, 0, Ordering::AcqRel, Ordering::Relaxed);
        match ended {
            Ok(_) => Ok(()),
            Err(word) if word & libc::FUTEX_TID_MASK == this => self.unlock(),
            Err(_) => Err(Error::NotTheServer),
        }
    }

    /// The kernel has given the word to this thread: by the server's hand, or because that has died.
    fn take_answer(&self, server: u32) -> Result<(), Error> {
        let word = self.word.load(Ordering::Acquire);
        let this = gettid();
        let freed = self
            .word
            .compare_exchange(
                word & !libc::FUTEX_WAITERS,
                0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok();
        if !freed && word & libc::FUTEX_TID_MASK == this {
            self.unlock()?;
        }
        match word & libc::FUTEX_OWNER_DIED {
            0 => Ok(()),
            _ => Err(Error::NoServer { server }),
        }
    }

    /// The call cannot be answered any more.
    fn forget(&self, word: u32) {
        let server = word & libc::FUTEX_TID_MASK;
        let _ = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
                (word & libc::FUTEX_TID_MASK == server).then_some(0)
            });
    }

    fn lock(&self, until_ns: u64) -> Result<(), i32> {
        let until = libc::timespec {
            tv_sec: (until_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (until_ns % 1_000_000_000) as _,
        };
        let timeout = match until_ns {
            NEVER => ptr::null(),
            _ => ptr::from_ref(&until),
        };
        loop {
            match self.futex(libc::FUTEX_LOCK_PI2, timeout) {
                Err(libc::EAGAIN | libc::EINTR) => {}
                outcome => return outcome,
            }
        }
    }

    fn unlock(&self) -> Result<(), Error> {
        self.futex(libc::FUTEX_UNLOCK_PI, ptr::null())
            .map_err(|errno| Error::System {
                call: "futex",
                source: io::Error::from_raw_os_error(errno),
            })
    }

    fn futex(&self, operation: libc::c_int, until: *const libc::timespec) -> Result<(), i32> {
        // SAFETY: the word is valid for as long as the reference, and aligned; the kernel reads `until` during the call.
        let done =
            unsafe { libc::syscall(libc::SYS_futex, self.word.as_ptr(), operation, 0, until) };
        match done {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO)),
        }
    }
}

fn gettid() -> u32 {
    // SAFETY: no arguments, no errors.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}
