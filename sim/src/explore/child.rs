// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs in processes of their own: a crash is a finding, not the end of the search; and all CPUs are used.

use super::Kind;
use crate::consort::{Library, Turn};
use crate::error::Error;
use crate::setup::Setup;
use std::sync::atomic::{AtomicU64, Ordering};

/// A run that has computed for longer is stuck, however busy the machine is.
const COMPUTING_MAX_S: libc::time_t = 30;
/// One that waits for longer, too.
const RUN_MAX_S: u32 = 600;

/// A run begins. The process dies if it does not end.
fn begin_run() {
    let timer = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: COMPUTING_MAX_S,
            tv_usec: 0,
        },
    };
    // SAFETY: plain system calls on a value that outlives them.
    unsafe {
        libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut());
        libc::alarm(RUN_MAX_S);
    }
}

/// How a run in a process of its own ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    /// A promise was broken; which one, as a number.
    Broken(u8),
    /// The process died of this signal; SIGPROF or SIGALRM: the run was stuck.
    Died(i32),
}

fn number_of(rule: &str) -> u8 {
    let sum = rule.bytes().fold(7u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    (sum % 200) as u8 + 1
}

/// Runs a setup in a process of its own.
///
/// # Errors
/// No process to be had.
pub fn try_apart(setup: &Setup, library: &Library) -> Result<Verdict, Error> {
    try_as(Kind::Anything, setup, library)
}

/// The same, by the rules of a kind of scenarios.
///
/// # Errors
/// As above.
pub(super) fn try_as(kind: Kind, setup: &Setup, library: &Library) -> Result<Verdict, Error> {
    let attempt = || kind.attempt(setup, library);
    let pid = fork(|| attempt().map_or(0, |violation| number_of(violation.rule)))?;
    wait(pid, 0).map(|status| status.unwrap_or(Verdict::Fine))
}

/// Forks; the child ends with what `work` returns.
fn fork(work: impl FnOnce() -> u8) -> Result<libc::pid_t, Error> {
    // No other thread may be inside the scheduler: the child would wait for it for ever.
    let turn = Turn::take();
    // SAFETY: the child only runs the simulator, whose locks are ours, and leaves by _exit.
    match unsafe { libc::fork() } {
        -1 => Err(Error::System {
            doing: "start a process for a run".to_owned(),
            source: std::io::Error::last_os_error(),
        }),
        0 => {
            drop(turn);
            begin_run();
            let number = work();
            // SAFETY: a plain system call.
            unsafe { libc::_exit(i32::from(number)) }
        }
        pid => Ok(pid),
    }
}

/// None: still running, if `flags` are WNOHANG.
fn wait(pid: libc::pid_t, flags: i32) -> Result<Option<Verdict>, Error> {
    let mut status = 0;
    // SAFETY: a child of ours that nobody else waits for.
    match unsafe { libc::waitpid(pid, &mut status, flags) } {
        0 => Ok(None),
        -1 => Err(Error::System {
            doing: "wait for a run".to_owned(),
            source: std::io::Error::last_os_error(),
        }),
        _ if libc::WIFSIGNALED(status) => Ok(Some(Verdict::Died(libc::WTERMSIG(status)))),
        _ => Ok(Some(match libc::WEXITSTATUS(status) {
            0 => Verdict::Fine,
            number => Verdict::Broken(number as u8),
        })),
    }
}

/// What parent and child see of each other's progress.
#[repr(C)]
struct Progress {
    seed: AtomicU64,
    done: AtomicU64,
}

/// A process that tries one seed after another.
pub struct Worker {
    pid: libc::pid_t,
    progress: *mut Progress,
    ended: Option<Verdict>,
}

impl Worker {
    /// Tries `first`, `first + step`, ... below `end`; stops at the first that is not fine.
    ///
    /// # Errors
    /// No process or memory to be had.
    pub fn start(
        first: u64,
        step: u64,
        end: u64,
        library: &Library,
        kind: Kind,
    ) -> Result<Self, Error> {
        let progress = shared()?;
        let pid = fork(|| {
            let mut seed = first;
            while seed < end {
                // SAFETY: mapped for as long as the parent lives.
                unsafe { (*progress).seed.store(seed, Ordering::Relaxed) };
                begin_run();
                if let Some(violation) = kind.attempt(&kind.generate(seed), library) {
                    return number_of(violation.rule);
                }
                // SAFETY: as above.
                unsafe { (*progress).done.fetch_add(1, Ordering::Relaxed) };
                seed += step;
            }
            0
        })?;
        Ok(Self {
            pid,
            progress,
            ended: None,
        })
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// As of waitpid.
    pub fn look(&mut self) -> Result<Option<Verdict>, Error> {
        if self.ended.is_none() {
            self.ended = wait(self.pid, libc::WNOHANG)?;
        }
        Ok(self.ended)
    }

    /// The seed that it is at, or was.
    pub fn seed(&self) -> u64 {
        // SAFETY: mapped for as long as we live.
        unsafe { (*self.progress).seed.load(Ordering::Relaxed) }
    }

    pub fn done(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (*self.progress).done.load(Ordering::Relaxed) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // SAFETY: our own child, not waited for yet.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            // What it says does not matter any more.
            let _ = wait(self.pid, 0);
        }
        // SAFETY: mapped by `shared`, and not used after this.
        unsafe { libc::munmap(self.progress.cast(), size_of::<Progress>()) };
    }
}

fn shared() -> Result<*mut Progress, Error> {
    // SAFETY: a new mapping, wherever there is room; zero is a valid value.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<Progress>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(Error::System {
            doing: "share memory with a run".to_owned(),
            source: std::io::Error::last_os_error(),
        });
    }
    Ok(at.cast())
}
