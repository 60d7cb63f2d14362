// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a scenario's processes find: cgroups, promises, and each other's numbers.

use super::Promises;
use crate::cgroup::Cgroup;
use crate::clock::sleep_until_ns;
use crate::deadline;
use crate::error::Error;
use consort_sim::setup::{ActionKind, Setup};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the cgroup v2 hierarchy is mounted in guests.
const ROOT: &str = "/sys/fs/cgroup";
const MILLION: f64 = 1e6;

/// The scenario's cgroups; the root is nothing that is made.
pub struct Groups(Vec<Option<Cgroup>>);

impl Groups {
    pub fn make(setup: &Setup) -> Result<Self, Error> {
        let mut made: Vec<Option<Cgroup>> = Vec::new();
        for group in &setup.cgroups {
            let Some(parent) = group.parent else {
                made.push(None);
                continue;
            };
            let folder = made[parent]
                .as_ref()
                .map_or(Path::new(ROOT), |parent| parent.path());
            let last = group.name.rsplit('/').next().unwrap_or(&group.name);
            let cgroup = Cgroup::new(folder, last, group.weight.into())?;
            made.push(Some(cgroup));
        }
        Ok(Self(made))
    }

    /// The calling process goes there.
    pub fn enter(&self, number: usize) -> Result<(), Error> {
        match self.0.get(number) {
            Some(Some(group)) => group.enter(),
            _ => Ok(()),
        }
    }

    /// Does what happens from outside, when it does.
    pub fn act(&self, setup: &Setup, begin_ns: u64) -> Result<(), Error> {
        let mut actions: Vec<_> = setup.actions.iter().collect();
        actions.sort_by_key(|action| action.at_ns);
        for action in actions {
            sleep_until_ns(begin_ns + action.at_ns);
            match &action.what {
                ActionKind::CgroupWeight { cgroup, weight } => {
                    if let Some(Some(group)) = self.0.get(*cgroup) {
                        group.set_weight((*weight).into())?;
                    }
                }
                other => {
                    return Err(Error::Usage(format!(
                        "{other:?} is done to simulated tasks only, expected changes of cgroups' weights"
                    )))
                }
            }
        }
        Ok(())
    }
}

impl Drop for Groups {
    /// Those below others first.
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// The calling process takes what task `index` has reserved.
pub fn keep_promise(promises: Promises, setup: &Setup, index: usize) -> Result<(), Error> {
    let Some(rates) = &setup.rates else {
        return Ok(());
    };
    let Some((_, reserve)) = rates.reserved.iter().find(|(task, _)| *task == index) else {
        return Ok(());
    };
    let rate = reserve.rate as f64 / MILLION;
    match promises {
        Promises::None => Ok(()),
        Promises::Deadline => deadline::become_deadline(rate, reserve.period_ns),
        Promises::Consort => {
            let class = rates.classes.get(reserve.class);
            let name = class.map_or("", |class| class.name.as_str());
            consort::Reservation::in_class(name)
                .rate(rate)
                .period_ns(reserve.period_ns)
                .reserve()
                .map_err(Error::Cooperation)
        }
    }
}

/// The processes' numbers, which all of them see.
pub struct Pids(&'static [AtomicU32]);

impl Pids {
    /// In memory that children share.
    pub fn new(count: usize) -> Result<Self, Error> {
        let bytes = count.max(1) * size_of::<AtomicU32>();
        // SAFETY: makes new memory, of zeroes, which nobody ever gives back.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(Error::last_os("make memory that processes share"));
        }
        // SAFETY: as long as `bytes` says, aligned to a page, and only ever used as atomics.
        Ok(Self(unsafe {
            std::slice::from_raw_parts(memory.cast(), count)
        }))
    }

    pub fn set(&self, task: usize, pid: libc::pid_t) {
        self.0[task].store(pid.unsigned_abs(), Ordering::Relaxed);
    }

    pub fn get(&self, task: usize) -> u32 {
        self.0[task].load(Ordering::Relaxed)
    }
}
