// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process has one of: its link to the daemon, and a connection for its reservations. A forked child starts with none.

use crate::connection::Connection;
use crate::inherited::Inherited;
use crate::kept::Kept;
use crate::link::Link;
use crate::{fork_guard, Error};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
static CHILD_HANDLER: AtomicBool = AtomicBool::new(false);

pub struct Process {
    number: u64,
    link: Mutex<Link>,
    kept: Mutex<Option<Kept>>,
    /// The connections' sockets, for a child to close.
    socket: Arc<Inherited>,
    kept_socket: Inherited,
}

impl Process {
    /// This process'. Lives as long as the process.
    pub fn current() -> Result<&'static Process, Error> {
        install_child_handler();
        let number = fork_guard::number()?;
        loop {
            let known = CURRENT.load(Ordering::Acquire);
            // SAFETY: CURRENT only ever holds null or a box that is never freed.
            if let Some(process) = unsafe { known.as_ref() } {
                if process.number == number {
                    return Ok(process);
                }
                process.close_inherited_sockets();
            }
            let fresh = Box::into_raw(Box::new(Process::new(number)));
            match CURRENT.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: as above.
                Ok(_) => return Ok(unsafe { &*fresh }),
                // SAFETY: made by into_raw above, and nobody else has seen it.
                Err(_) => drop(unsafe { Box::from_raw(fresh) }),
            }
        }
    }

    fn new(number: u64) -> Process {
        let socket = Arc::new(Inherited::none());
        Process {
            number,
            link: Mutex::new(Link::new(Arc::clone(&socket))),
            kept: Mutex::new(None),
            socket,
            kept_socket: Inherited::none(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The link, if no other thread is using it just now.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Link>> {
        match self.link.try_lock() {
            Ok(link) => Some(link),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A connection for a request of its own, if one was kept that still is of use.
    pub fn take_kept(&self) -> Option<Connection> {
        let kept = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            self.kept_socket.forget();
            kept.take()
        };
        kept?.usable()
    }

    /// Keeps a connection on which nothing is awaited, in place of one that another thread has kept meanwhile.
    pub fn keep(&self, connection: Connection) {
        let fresh = Kept::new(connection);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        self.kept_socket.forget();
        let number = fresh.fd();
        drop(kept.replace(fresh));
        self.kept_socket.note(number);
    }

    /// In a child: the daemon shall see the end of the connections when the parent ends.
    fn close_inherited_sockets(&self) {
        self.socket.close();
        self.kept_socket.close();
    }
}

fn install_child_handler() {
    if !CHILD_HANDLER.swap(true, Ordering::AcqRel) {
        // SAFETY: the handler only does what is allowed between fork and exec.
        unsafe { libc::pthread_atfork(None, None, Some(forget_parent)) };
    }
}

unsafe extern "C" fn forget_parent() {
    let parents = CURRENT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: as in `current`.
    if let Some(process) = unsafe { parents.as_ref() } {
        process.close_inherited_sockets();
    }
}
