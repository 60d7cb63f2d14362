// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process has one of: its link to the daemon. A forked child starts with none.

use crate::link::Link;
use crate::{fork_guard, Error};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
static CHILD_HANDLER: AtomicBool = AtomicBool::new(false);

pub struct Process {
    number: u64,
    link: Mutex<Link>,
    /// The connection's socket, for a child to close without the lock that its parent may have held.
    socket: Arc<AtomicI32>,
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
                process.close_inherited_socket();
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
        let socket = Arc::new(AtomicI32::new(-1));
        Process {
            number,
            link: Mutex::new(Link::new(Arc::clone(&socket))),
            socket,
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

    /// In a child: the daemon shall see the end of the connection when the parent ends.
    fn close_inherited_socket(&self) {
        let socket = self.socket.swap(-1, Ordering::AcqRel);
        if socket >= 0 {
            // SAFETY: the OwnedFd that it came from is never dropped in this process.
            unsafe { libc::close(socket) };
        }
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
        process.close_inherited_socket();
    }
}
