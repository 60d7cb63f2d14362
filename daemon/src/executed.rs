// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that executes a program has its process' number from then on, and all other threads of the process have ended.
//! The scheduler has it where it was: whoever takes it out by the number that it had finds nobody.

use consort_kernel::{Error, Membership, Thread};
use tracing::{debug, warn};

use crate::{service::Service, Host};

impl Service {
    /// Takes a thread of process `pid` out of `place` by `leave`, wherever it is by now. One that has ended is out already.
    pub(crate) fn take_out(
        &mut self,
        (pid, thread): (i32, Thread),
        place: Membership,
        leave: impl Fn(&mut dyn Host, Thread) -> Result<(), Error>,
    ) {
        if !is_gone(thread, leave(&mut *self.host, thread)) {
            return;
        }
        let first = self.processes.living_thread(pid, pid);
        let Some(first) = first.filter(|first| first.tid != thread.tid) else {
            return;
        };
        if matches!(self.host.member(first), Ok(Some(is_at)) if is_at == place) {
            debug!(
                tid = thread.tid,
                pid, "a thread has executed a program, and is taken out"
            );
            is_gone(first, leave(&mut *self.host, first));
        }
    }
}

/// Whether the scheduler knows no such thread, or has it elsewhere.
fn is_gone(thread: Thread, left: Result<(), Error>) -> bool {
    match left {
        Ok(()) => false,
        Err(error) if [libc::ESRCH, libc::ENOENT].contains(&error.errno()) => true,
        Err(error) => {
            warn!(tid = thread.tid, %error, "a thread cannot be taken out of its domain or group");
            false
        }
    }
}
