// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is admitted, put in force: a reservation is made in the scheduler, with the threads or the cgroup that use it, and
//! ended there.

use nix::errno::Errno;
use tracing::warn;

use crate::{
    admission::Reservation,
    peer::Thread,
    rate::{Rate, RATE_MIN},
    service::Service,
    targets::Target,
    terms::{refuse_thread, terms},
    Refusal,
};

/// A process that makes threads while it gets its reservation is searched for new ones so often.
const SEARCHES_MAX: usize = 8;

impl Service {
    /// Makes a reservation in the scheduler; returns its number there, and how many threads have got it.
    pub(crate) fn put_in_force(
        &mut self,
        number: u32,
        wanted: &Reservation,
        usable: Rate,
        threads: &[Thread],
    ) -> Result<(u32, usize), Refusal> {
        let id = self
            .host
            .create_reservation(terms(wanted, usable.max(RATE_MIN)))?;
        let labelled = self.host.label_reservation(id, Some(number));
        let added = labelled
            .map_err(Refusal::from)
            .and_then(|()| match &wanted.target {
                Target::Cgroup { path, id: cgroup } => {
                    self.adopt_cgroup(id, path, *cgroup).map(|()| 1)
                }
                target => self.add_threads(id, target, threads),
            });
        match added {
            Ok(added) => Ok((id, added)),
            Err(refusal) => {
                self.end(id);
                Err(refusal)
            }
        }
    }

    fn adopt_cgroup(&mut self, id: u32, path: &str, cgroup: u64) -> Result<(), Refusal> {
        self.host.adopt_cgroup(id, cgroup).map_err(|error| {
            let text = match Errno::from_raw(error.errno()) {
                Errno::ESRCH => format!(
                    "cgroup {path} has no queue of its own: it has gone, has no cpu controller, or is too deep"
                ),
                Errno::EBUSY => format!("{path}, or a cgroup that it is in, has a reservation: release that first"),
                _ => error.to_string(),
            };
            Refusal::new(Errno::from_raw(error.errno()), text)
        })
    }

    /// Threads that are made meanwhile share their maker's reservation, or are found by looking again.
    fn add_threads(
        &mut self,
        id: u32,
        target: &Target,
        threads: &[Thread],
    ) -> Result<usize, Refusal> {
        let mut threads = threads.to_vec();
        let mut added = 0;
        for _ in 0..SEARCHES_MAX {
            let before = added;
            for thread in &threads {
                match self.host.add_to_reservation(id, *thread) {
                    Ok(()) => added += 1,
                    Err(error) => refuse_thread(&error)?,
                }
            }
            threads = self.processes.threads_of(target);
            if added == before {
                break;
            }
        }
        Ok(added)
    }

    pub(crate) fn end(&mut self, id: u32) {
        // Its number may be another one's before the scheduler has ended it.
        if let Err(error) = self.host.label_reservation(id, None) {
            warn!(reservation = id, %error, "a reservation that ends keeps its number");
        }
        match self.host.end_reservation(id) {
            Ok(()) => {}
            // Threads are on their way out of it, or a group shares it that could not be removed yet.
            Err(error) if [libc::EAGAIN, libc::EBUSY].contains(&error.errno()) => {
                self.reservations.doomed.push(id);
            }
            Err(error) => warn!(reservation = id, %error, "cannot end a reservation"),
        }
    }
}
