// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU time of processes, by their clocks: reading one costs little, so the reader disturbs little.

use consort_bench_player::clock::NS_PER_S;
use consort_bench_player::error::Error;

/// The clock that counts a process' CPU time.
pub struct CpuClock(libc::clockid_t);

impl CpuClock {
    /// # Errors
    /// When there is no such process.
    pub fn of(pid: libc::pid_t) -> Result<Self, Error> {
        let mut clock = 0;
        // SAFETY: `clock` is valid.
        match unsafe { libc::clock_getcpuclockid(pid, &mut clock) } {
            0 => Ok(Self(clock)),
            errno => Err(Error::io(
                format!("find the CPU clock of process {pid}"),
                std::io::Error::from_raw_os_error(errno),
            )),
        }
    }

    /// Nanoseconds that all its threads have had; 0 once it has been waited for.
    pub fn now_ns(&self) -> u64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is valid.
        unsafe { libc::clock_gettime(self.0, &mut time) };
        time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
    }
}
