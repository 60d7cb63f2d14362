// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is admitted, put in force: a reservation is made in the scheduler, with the threads or the cgroup that use it, and
//! ended there.

use nix::errno::Errno;
use tracing::warn;

use crate::{
    admission::Reservation,
    rate::{Rate, RATE_MIN},
    search::Search,
    service::Service,
    targets::Target,
    terms::terms,
    Refusal,
};

impl Service {
    /// Makes a reservation in the scheduler, for those that the search finds among `left` threads; returns its number there.
    pub(crate) fn put_in_force(
        &mut self,
        number: u32,
        (wanted, usable): (&Reservation, Rate),
        search: &mut Search,
        left: &mut usize,
    ) -> Result<u32, Refusal> {
        let id = self
            .host
            .create_reservation(terms(wanted, usable.max(RATE_MIN)))?;
        let labelled = self.host.label_reservation(id, Some(number));
        let added = labelled
            .map_err(Refusal::from)
            .and_then(|()| match &wanted.target {
                Target::Cgroup { path, id: cgroup } => {
                    search.added += 1;
                    self.adopt_cgroup(id, path, *cgroup)
                }
                _ => self.search(id, search, left),
            });
        match added {
            Ok(()) => Ok(id),
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
