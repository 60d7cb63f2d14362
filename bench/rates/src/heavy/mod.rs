// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heavy load, as 003 has it: two endless compiles, one of them over a network file system, a greedy copy over the
//! network to the same machine, which is enciphered, and writes to the disk. Compiler, NFS, ssh and disk are real ones:
//! bench/heavy/make-disk makes the disk of a guest that has them.

mod parts;
mod progress;

use crate::promise::Prepared;
use consort_bench_player::error::Error;
use consort_bench_player::processes::{kill_all, spawn, Child};
use progress::Counters;
pub use progress::Progress;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Where guests have their disk.
const DISK: &str = "/disk";
const SERVICES: &str = include_str!("services.sh");
const END: &str = include_str!("end.sh");
/// Until every part is at work.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often a look is taken whether something has ended.
const LOOK: Duration = Duration::from_millis(100);
/// More than what ssh takes while nobody reads at the other end.
const ON_ITS_WAY_BYTES: u64 = 4 << 20;

/// The load; ended when it goes out of scope.
pub struct Heavy {
    counters: &'static Counters,
    /// What was done when all parts were at work.
    begun: Progress,
    keeper: Option<Child<()>>,
}

impl Heavy {
    /// All of it without a promise; returns when every part is at work.
    ///
    /// # Errors
    /// When this machine lacks something for it, or a part does not come to work within two minutes.
    pub fn start(prepared: &Prepared) -> Result<Heavy, Error> {
        let counters = Counters::shared()?;
        let mut heavy = Heavy {
            counters,
            begun: Progress::now(counters)?,
            keeper: Some(spawn(|| {
                prepared.take_none()?;
                keep(counters)
            })?),
        };
        let fresh = heavy.begun;
        let start = Instant::now();
        while let Some(part) = heavy.begun.since(fresh).standing(ON_ITS_WAY_BYTES) {
            if heavy.has_ended() {
                return Err(Error::Usage(
                    "the heavy load ended before it was at work: its message is above".into(),
                ));
            }
            if start.elapsed() > PATIENCE {
                return Err(Error::Usage(format!(
                    "of the heavy load {part} was not at work within {PATIENCE:?}"
                )));
            }
            std::thread::sleep(LOOK);
            heavy.begun = Progress::now(counters)?;
        }
        Ok(heavy)
    }

    fn has_ended(&self) -> bool {
        self.keeper.as_ref().is_some_and(Child::has_ended)
    }

    /// Ends it, and says what it did since it started.
    ///
    /// # Errors
    /// When a part did nothing, or ended before: then there was less load than this says. When something of it is left.
    pub fn end(mut self) -> Result<Progress, Error> {
        let done = Progress::now(self.counters)?.since(self.begun);
        if self.has_ended() {
            return Err(Error::Usage(
                "the heavy load ended before what was measured: its message is above".into(),
            ));
        }
        self.counters.ending.store(true, Ordering::Relaxed);
        self.keeper.take().map_or(Ok(()), Child::wait)?;
        match done.standing(0) {
            None => Ok(done),
            Some(part) => Err(Error::Usage(format!(
                "of the heavy load {part} stood still; expected that each part did something: {done:?}"
            ))),
        }
    }
}

impl Drop for Heavy {
    fn drop(&mut self) {
        self.counters.ending.store(true, Ordering::Relaxed);
        if let Some(keeper) = self.keeper.take() {
            keeper.reap();
        }
    }
}

/// The process that all others of the load are below: in namespaces of their own, which they do not outlive.
fn keep(counters: &'static Counters) -> Result<(), Error> {
    // SAFETY: takes flags; what it changes is this process' own.
    if unsafe { libc::unshare(libc::CLONE_NEWPID | libc::CLONE_NEWNS) } != 0 {
        return Err(Error::last_os(
            "make namespaces for the heavy load (it needs root)",
        ));
    }
    keep_mounts_here()?;
    // SAFETY: takes numbers; what it changes is this process' own.
    let (parent, kept) = unsafe { (libc::getppid(), libc::prctl(libc::PR_SET_PDEATHSIG, 0)) };
    if kept != 0 {
        return Err(Error::last_os("outlive a parent"));
    }
    let first = spawn(|| work(counters))?;
    while !first.has_ended() {
        // SAFETY: asks for nothing but a number.
        if unsafe { libc::getppid() } != parent {
            // Nobody is left who could say so; what is the kernel's must be ended all the same.
            counters.ending.store(true, Ordering::Relaxed);
        }
        std::thread::sleep(LOOK);
    }
    // It is only gone when all others of its namespace are.
    first.wait()
}

/// Nobody outside of this process' namespace sees what is mounted in it.
fn keep_mounts_here() -> Result<(), Error> {
    // SAFETY: the path is a string, and nothing else is read with these flags.
    let failed = unsafe {
        libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    } != 0;
    if failed {
        return Err(Error::last_os("keep mounts in a namespace"));
    }
    Ok(())
}

/// The namespace's first process: starts the others, and ends when it is told to, or one of them ends, which none should.
fn work(counters: &'static Counters) -> Result<(), Error> {
    let worked = run_script("starting", SERVICES).and_then(|()| {
        let parts = start_parts(counters)?;
        let watched = watch(counters, &parts);
        for part in &parts {
            // SAFETY: sends a signal to a group that the part makes first of all, and that nobody else is in.
            unsafe { libc::kill(-part.pid, libc::SIGKILL) };
        }
        kill_all(parts);
        watched
    });
    // While the services are there: nothing could be unmounted without them.
    let ended = run_script("ending", END);
    worked.and(ended)
}

fn start_parts(counters: &'static Counters) -> Result<Vec<Child<()>>, Error> {
    Ok(vec![
        start_part(|| parts::compile(parts::ON_DISK, &counters.compiled_on_disk))?,
        start_part(|| parts::compile(parts::OVER_NFS, &counters.compiled_over_nfs))?,
        start_part(|| parts::copy(&counters.copied_bytes))?,
        start_part(|| parts::write(&counters.written_bytes))?,
    ])
}

/// A process that leads a group of its own, for which the disk is the whole file system.
fn start_part(work: impl FnOnce() -> Result<(), Error>) -> Result<Child<()>, Error> {
    spawn(|| {
        // SAFETY: takes numbers; what it changes is this process' own.
        if unsafe { libc::setpgid(0, 0) } != 0 {
            return Err(Error::last_os("make a group of processes"));
        }
        std::os::unix::fs::chroot(DISK)
            .and_then(|()| std::env::set_current_dir("/"))
            .map_err(|source| Error::io(format!("make {DISK} the root"), source))?;
        work()
    })
}

/// Until the load is to end. Orphans of the namespace are this process' children; those that end
/// are gone with it.
fn watch(counters: &Counters, parts: &[Child<()>]) -> Result<(), Error> {
    while !counters.ending.load(Ordering::Relaxed) {
        if parts.iter().any(Child::has_ended) {
            return Err(Error::Usage(
                "a part of the heavy load ended; its message is above".into(),
            ));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn run_script(what: &str, script: &str) -> Result<(), Error> {
    let status = Command::new("sh")
        .args(["-c", script, "sh", DISK])
        .status()
        .map_err(|source| Error::io("start sh", source))?;
    if !status.success() {
        return Err(Error::Usage(format!(
            "{what} the heavy load's services failed ({status}); the message is above"
        )));
    }
    Ok(())
}
