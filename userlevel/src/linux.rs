// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux below the host: futexes that processes share, clocks, and who is alive.

use crate::os::{Fate, Os, Waited, Who, NEVER};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicU32;

const NS_PER_S: u64 = 1_000_000_000;

/// The machine that this runs on, for one thread.
#[derive(Clone, Debug)]
pub struct Linux {
    pid: u32,
    /// The namespace of this process' numbers; 0: unknown.
    pid_space: u64,
    is_patient: Cell<bool>,
}

impl Linux {
    /// For the calling thread.
    pub fn new() -> Linux {
        Linux {
            pid: std::process::id(),
            pid_space: pid_space().unwrap_or(0),
            is_patient: Cell::new(false),
        }
    }

    /// Whether the kernel lets the calling thread wait for others: a filter of system calls may not.
    pub fn can_wait(&self) -> bool {
        // The word is another one already.
        futex_wait(&AtomicU32::new(0), 1, 0) == Waited::Over
    }

    /// The calling thread.
    pub fn me(&self) -> Who {
        // SAFETY: no arguments, never fails.
        let tid = unsafe { libc::gettid() } as u32;
        let pid = std::process::id();
        Who {
            pid,
            tid,
            started: started(pid, tid).map_or(0, |(started, _)| started),
            pid_space: self.pid_space,
        }
    }
}

impl Default for Linux {
    fn default() -> Linux {
        Linux::new()
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = std::mem::MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: both clocks exist on every Linux and the pointer is valid, so the call fills `time`.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

/// The namespace of this process' numbers. Without a /proc that shows them, nobody is declared dead; a member that does not poll is
/// skipped all the same.
fn pid_space() -> Option<u64> {
    let shown = fs::read_link("/proc/self").ok()?;
    let is_own = shown.to_str()? == std::process::id().to_string();
    let space = fs::metadata("/proc/self/ns/pid").ok()?;
    is_own.then(|| space.ino())
}

/// The calling thread's policy.
fn policy() -> libc::c_int {
    // SAFETY: a plain look-up.
    unsafe { libc::sched_getscheduler(0) }
}

/// A thread of SCHED_BATCH that wakes does not take the CPU from the one that woke it: that goes to sleep in a moment, and would
/// be switched to once more for it.
fn set_policy(policy: libc::c_int) {
    // SAFETY: all bits zero is a valid parameter, the one of both policies; about the calling thread alone.
    unsafe {
        let parameter: libc::sched_param = std::mem::zeroed();
        // Where it may not, it is as before: one switch more.
        libc::sched_setscheduler(0, policy, &parameter);
    }
}

fn futex_wait(word: &AtomicU32, expected: u32, until_ns: u64) -> Waited {
    let until = libc::timespec {
        tv_sec: (until_ns / NS_PER_S) as libc::time_t,
        tv_nsec: (until_ns % NS_PER_S) as libc::c_long,
    };
    let until = match until_ns {
        NEVER => std::ptr::null(),
        _ => std::ptr::from_ref(&until),
    };
    // SAFETY: the word is mapped and aligned; the kernel reads `until` during the call. This wait takes an absolute time.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET,
            expected,
            until,
            std::ptr::null::<u32>(),
            u32::MAX,
        )
    };
    let errno = match failed {
        0 => return Waited::Over,
        _ => std::io::Error::last_os_error().raw_os_error(),
    };
    match errno {
        Some(libc::EAGAIN | libc::ETIMEDOUT) => Waited::Over,
        Some(libc::EINTR) => Waited::Interrupted,
        _ => Waited::Refused,
    }
}

pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

impl Os for Linux {
    #[inline]
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    #[inline]
    fn cpu_ns(&self) -> u64 {
        clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
    }

    fn wait(&self, word: &AtomicU32, expected: u32, until_ns: u64) -> Waited {
        let waited = futex_wait(word, expected, until_ns);
        // A signal handler may have forked, and returned in the child, too: that does not have the memory.
        match std::process::id() == self.pid {
            true => waited,
            false => Waited::Refused,
        }
    }

    fn be_patient(&self, is_patient: bool) {
        if self.is_patient.get() == is_patient {
            return;
        }
        // The stock policy again before it goes on: what it starts, children above all, are to inherit that. The program, or
        // its user, may have chosen another one meanwhile: that stays.
        let (from, to) = match is_patient {
            true => (libc::SCHED_OTHER, libc::SCHED_BATCH),
            false => (libc::SCHED_BATCH, libc::SCHED_OTHER),
        };
        let is_to_change = policy() == from;
        if is_to_change {
            set_policy(to);
        }
        self.is_patient.set(is_patient && is_to_change);
    }

    fn wake(&self, word: &AtomicU32) -> bool {
        // SAFETY: the word is mapped and aligned.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) > 0 }
    }

    fn fate(&self, who: &Who) -> Fate {
        let is_known = who.pid_space != 0 && who.pid_space == self.pid_space;
        if !is_known || who.pid == 0 || who.pid > i32::MAX as u32 || who.tid > i32::MAX as u32 {
            return Fate::Alive;
        }
        // SAFETY: signal 0 is none; it only looks.
        let missing = unsafe { libc::syscall(libc::SYS_tgkill, who.pid, who.tid, 0) } != 0
            && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
        if missing {
            return Fate::Gone;
        }
        // The number may be another thread's by now; and who is dead and not buried still has one.
        match started(who.pid, who.tid) {
            Some((started, _)) if who.started != 0 && started != who.started => Fate::Gone,
            Some((_, b'Z' | b'X')) => Fate::Gone,
            _ => Fate::Alive,
        }
    }
}

/// When a thread was started, in the kernel's ticks, and the letter of its state.
fn started(pid: u32, tid: u32) -> Option<(u64, u8)> {
    let text = fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let rest = &text[text.iter().rposition(|&byte| byte == b')')? + 1..];
    let mut fields = rest
        .split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty());
    let state = *fields.next()?.first()?;
    // Field 22; the state is the third.
    let started = std::str::from_utf8(fields.nth(18)?).ok()?;
    Some((started.parse().ok()?, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_are_alive_and_the_dead_are_not() {
        let linux = Linux::new();
        let me = linux.me();
        assert!(me.started > 0);
        assert_eq!(linux.fate(&me), Fate::Alive);
        let another_start = Who {
            started: me.started + 1,
            ..me
        };
        assert_eq!(linux.fate(&another_start), Fate::Gone);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let who = Who {
            pid: child.id(),
            tid: child.id(),
            started: 0,
            ..me
        };
        child.wait().unwrap();
        assert_eq!(linux.fate(&who), Fate::Gone);
        let elsewhere = Who {
            pid_space: me.pid_space + 1,
            ..who
        };
        assert_eq!(linux.fate(&elsewhere), Fate::Alive, "nobody can know");
    }
}
