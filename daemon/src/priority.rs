// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's own turn among all that wants a CPU.

use std::io;

use tracing::{debug, warn};

/// Programs wait for the daemon's answers, which must not queue behind all that is runnable: it runs in a real-time
/// class, above what Consort schedules. What users can make it do is bounded by their share of its time.
pub(crate) fn raise() {
    const NICE: libc::c_int = -10;
    match set(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 1) {
        Ok(()) => return,
        Err(error) => debug!(%error, "no real-time class for the daemon: a nice value instead"),
    }
    // SAFETY: 0 is this process, and no memory is involved.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } != 0 {
        warn!(error = %io::Error::last_os_error(), "cannot raise the daemon's priority: joining may take long under load");
    }
}

/// Who hands over, and ends, is in nobody's way.
pub(crate) fn lower() {
    if let Err(error) = set(libc::SCHED_OTHER, 0) {
        debug!(%error, "the daemon's priority stays");
    }
}

fn set(policy: libc::c_int, sched_priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: 0 is this thread, and the parameters are a valid struct.
    match unsafe { libc::sched_setscheduler(0, policy, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
