// SPDX-License-Identifier: MIT OR Apache-2.0
//! Safe mode, as the service sees it: a scheduler of which nothing can be asked. The service refuses what programs ask
//! before it comes here.

use consort_kernel::{
    ClientPage, Counters, DomainLabel, Error, ExitReport, JoinArgs, LeaveArgs, ReservationUsage,
    SafeScheduler, Terms, Thread, Tunables,
};
use consort_rates::ClassTable;

use crate::{ejection::Mode, groups::host::GroupHost, Host, Refusal};

/// The answer to whoever wants more than a fair share.
pub fn refusal(doing: &'static str) -> Refusal {
    Error::SafeMode { doing }.into()
}

fn refuse<T>(doing: &'static str) -> Result<T, Error> {
    Err(Error::SafeMode { doing })
}

impl GroupHost for SafeScheduler {}

impl Host for SafeScheduler {
    fn mode(&self) -> Mode {
        Mode::Safe
    }

    fn client_page(&mut self) -> Result<ClientPage, Error> {
        refuse("give a program its page")
    }

    fn release_client(&mut self, _client: u32) {}

    fn create_domain(&mut self, _label: &DomainLabel) -> Result<u32, Error> {
        refuse("make a domain")
    }

    fn destroy_domain(&mut self, _domain: u32) -> Result<(), Error> {
        refuse("remove a domain")
    }

    fn join(&mut self, _args: JoinArgs) -> Result<(), Error> {
        refuse("let a thread join")
    }

    fn leave(&mut self, _args: LeaveArgs) -> Result<(), Error> {
        refuse("let a thread leave")
    }

    fn cpus(&self) -> u32 {
        SafeScheduler::cpus(self)
    }

    fn set_classes(&mut self, _table: &ClassTable) -> Result<(), Error> {
        refuse("divide the machine into classes")
    }

    fn set_shortest_period(&mut self, _period_ns: u64) {}

    fn create_reservation(&mut self, _terms: Terms) -> Result<u32, Error> {
        refuse("make a reservation")
    }

    fn change_reservation(&mut self, _reservation: u32, _terms: Terms) -> Result<(), Error> {
        refuse("change a reservation")
    }

    fn add_to_reservation(&mut self, _reservation: u32, _thread: Thread) -> Result<(), Error> {
        refuse("reserve for a thread")
    }

    fn adopt_cgroup(&mut self, _reservation: u32, _cgroup: u64) -> Result<(), Error> {
        refuse("reserve for a cgroup")
    }

    fn end_reservation(&mut self, _reservation: u32) -> Result<(), Error> {
        refuse("end a reservation")
    }

    fn reservation_usage(&self, _reservation: u32) -> Result<ReservationUsage, Error> {
        refuse("tell a reservation's use")
    }

    fn tunables(&self) -> Tunables {
        Tunables::default()
    }

    fn set_tunables(&mut self, _tunables: Tunables) -> Result<(), Error> {
        refuse("set tunables")
    }

    fn counters(&self) -> Result<Counters, Error> {
        Ok(Counters::new())
    }

    fn member_ends(&self) -> u64 {
        0
    }

    fn partial(&self) -> bool {
        SafeScheduler::partial(self)
    }

    fn exited(&self) -> Option<ExitReport> {
        SafeScheduler::exited(self)
    }
}
