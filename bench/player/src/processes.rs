// SPDX-License-Identifier: MIT OR Apache-2.0
//! Child processes that run a function and send back what it returns.

use crate::error::Error;
use serde::{de::DeserializeOwned, Serialize};
use std::io::{Read, Write};
use std::marker::PhantomData;
use std::os::fd::FromRawFd;

/// A running child that will send back an `Answer`.
pub struct Child<Answer> {
    pub pid: libc::pid_t,
    answers: std::fs::File,
    kind: PhantomData<Answer>,
}

/// Runs `work` in a new process. The caller must have a single thread: a fork copies only that one.
pub fn spawn<Answer, Work>(work: Work) -> Result<Child<Answer>, Error>
where
    Answer: Serialize + DeserializeOwned,
    Work: FnOnce() -> Result<Answer, Error>,
{
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(Error::last_os("make a pipe to a child"));
    }
    // SAFETY: single-threaded (see above), so the child may run any code.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os("start a child process")),
        0 => {
            // SAFETY: the child owns its copies of both ends.
            unsafe { libc::close(ends[0]) };
            let answers = unsafe { std::fs::File::from_raw_fd(ends[1]) };
            die_with_parent();
            std::process::exit(answer(work(), answers));
        }
        pid => {
            // SAFETY: the parent owns its copies of both ends.
            unsafe { libc::close(ends[1]) };
            let answers = unsafe { std::fs::File::from_raw_fd(ends[0]) };
            Ok(Child {
                pid,
                answers,
                kind: PhantomData,
            })
        }
    }
}

/// No hog may outlive a launcher that was interrupted.
fn die_with_parent() {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and changes only the calling process.
    unsafe {
        libc::prctl(
            libc::PR_SET_PDEATHSIG,
            libc::SIGKILL as libc::c_ulong,
            0,
            0,
            0,
        )
    };
}

/// Sends the answer; returns the exit status.
fn answer<Answer: Serialize>(result: Result<Answer, Error>, mut answers: std::fs::File) -> i32 {
    let sent = result.and_then(|answer| {
        let text = serde_json::to_vec(&answer).map_err(Error::Json)?;
        answers
            .write_all(&text)
            .map_err(|source| Error::io("send a child's answer", source))
    });
    match sent {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

impl<Answer> Child<Answer> {
    /// Whether it has ended; it is still to be waited for.
    pub fn has_ended(&self) -> bool {
        // SAFETY: `info` may be all zeroes, and is as large as the kernel expects; the child is ours.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let asked = libc::waitid(libc::P_PID, self.pid.unsigned_abs(), &mut info, options);
            asked != 0 || info.si_pid() != 0
        }
    }

    /// Waits for a child that was killed, and has no answer.
    pub fn reap(self) {
        // SAFETY: the child is ours and not yet waited for; its status is not wanted.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// Ends children that would go on for ever: all are killed before any is waited for.
pub fn kill_all<Answer>(children: impl IntoIterator<Item = Child<Answer>>) {
    let children: Vec<Child<Answer>> = children.into_iter().collect();
    for child in &children {
        // SAFETY: sends a signal to a child of ours that has not been waited for.
        unsafe { libc::kill(child.pid, libc::SIGKILL) };
    }
    children.into_iter().for_each(Child::reap);
}

impl<Answer: DeserializeOwned> Child<Answer> {
    /// Waits for the child to end and returns its answer.
    pub fn wait(mut self) -> Result<Answer, Error> {
        let mut text = Vec::new();
        let read = self.answers.read_to_end(&mut text);
        let mut status = 0;
        // SAFETY: `status` is valid; the child is ours and not yet waited for.
        unsafe { libc::waitpid(self.pid, &mut status, 0) };
        read.map_err(|source| Error::io("read a child's answer", source))?;
        if status != 0 {
            return Err(Error::Child {
                pid: self.pid,
                status,
            });
        }
        serde_json::from_slice(&text).map_err(Error::Json)
    }
}

/// Keeps all memory of the calling process in place, so that no page is fetched or made in the middle of an
/// event. Where that is not permitted, the process does without.
pub fn lock_memory() {
    // SAFETY: takes flags and changes only the calling process.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
}

/// Names the calling process; the kernel keeps the first 15 bytes.
pub fn set_name(name: &str) -> Result<(), Error> {
    let name = std::ffi::CString::new(name)
        .map_err(|_| Error::Usage(format!("{name:?} cannot be the name of a process")))?;
    // SAFETY: PR_SET_NAME takes a string and changes only the calling thread.
    match unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(Error::last_os("name a process")),
    }
}

pub fn set_nice(nice: i32) -> Result<(), Error> {
    // SAFETY: takes numbers and changes only the calling process.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } {
        0 => Ok(()),
        _ => Err(Error::last_os("change a nice value")),
    }
}

/// Makes the calling process another user's; nothing changes for the user that it is.
///
/// # Errors
/// When the kernel refuses: only root becomes somebody else.
pub fn become_user(uid: u32) -> Result<(), Error> {
    // SAFETY: takes numbers and changes only the calling process.
    if unsafe { libc::setresuid(uid, uid, uid) } != 0 {
        return Err(Error::last_os(&format!("become user {uid}")));
    }
    // The kernel forgets that for another user.
    die_with_parent();
    Ok(())
}

/// Lets the calling process and its children go before all others of this machine, where that is permitted: a session of its
/// own, of the least nice value, and the least nice value in it.
pub fn go_before_others() {
    // SAFETY: takes nothing; a leader of a group stays in its session.
    unsafe { libc::setsid() };
    // Without groups by session there is no such file.
    let _ = std::fs::write("/proc/self/autogroup", "-20");
    let _ = set_nice(-19);
}

/// The first CPU that the calling process may run on.
pub fn first_cpu() -> Result<usize, Error> {
    // SAFETY: the set is valid, and as large as said.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        match libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) {
            0 => set,
            _ => return Err(Error::last_os("see on which CPUs this runs")),
        }
    };
    // SAFETY: below the number of the set's bits.
    let is_in = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..libc::CPU_SETSIZE as usize)
        .find(is_in)
        .ok_or_else(|| Error::Usage("this may run on no CPU".into()))
}

/// Keeps the calling process, and its future children, on one CPU.
pub fn pin_to_cpu(cpu: usize) -> Result<(), Error> {
    // SAFETY: a zeroed set is an empty one; CPU_SET stays inside it for any CPU below its size.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu.min(libc::CPU_SETSIZE as usize - 1), &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) != 0
    };
    if failed {
        return Err(Error::last_os("stay on the CPU given by --cpu"));
    }
    Ok(())
}
