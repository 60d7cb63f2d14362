// SPDX-License-Identifier: MIT OR Apache-2.0
//! SCHED_DEADLINE: a runtime in each period, for one thread.

use crate::error::Error;

const SCHED_DEADLINE: u32 = 6;

/// The kernel's struct sched_attr, in its first version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Gives the calling thread `rate`, a part of a CPU, in each period.
///
/// # Errors
/// When the kernel does not admit it.
pub fn become_deadline(rate: f64, period_ns: u64) -> Result<(), Error> {
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: SCHED_DEADLINE,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime_ns: (rate * period_ns as f64) as u64,
        deadline_ns: period_ns,
        period_ns,
    };
    // SAFETY: changes only the calling thread; `attr` is valid and says its size.
    if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attr, 0) } != 0 {
        return Err(Error::last_os("become SCHED_DEADLINE"));
    }
    Ok(())
}
