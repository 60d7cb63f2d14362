// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the service needs from whatever schedules: the kernel's scheduler, or in tests a recording fake.

use std::{
    collections::BTreeSet,
    os::fd::{BorrowedFd, OwnedFd},
    time::Duration,
};

use consort_kernel::{
    ClientPage, Counters, DomainLabel, Error, ExitReport, JoinArgs, Kept, LeaveArgs, Membership,
    ReservationUsage, Scheduler, Tardiness, Terms, Thread, Tunables, TunablesChange,
};
use consort_rates::ClassTable;

use crate::{ejection::Mode, groups::host::GroupHost};

/// Puts schedulers in charge.
pub trait Loader {
    /// Loads one where there is none.
    fn load(&mut self, mode: Mode) -> Result<Box<dyn Host>, Error>;

    /// Whatever takes time, while the scheduler is in charge that is to be taken over.
    fn prepare(&mut self, _running: &Running) -> Result<(), Error> {
        Ok(())
    }

    /// Takes over a scheduler that is in charge, or puts another one in its place.
    fn succeed(&mut self, kept: &Kept, heir: Heir) -> Result<Box<dyn Host>, Error>;
}

/// Only loads.
impl<F: FnMut(Mode) -> Result<Box<dyn Host>, Error>> Loader for F {
    fn load(&mut self, mode: Mode) -> Result<Box<dyn Host>, Error> {
        self(mode)
    }

    fn succeed(&mut self, _kept: &Kept, _heir: Heir) -> Result<Box<dyn Host>, Error> {
        let doing = "take a scheduler over";
        let errno = libc::EOPNOTSUPP;
        Err(Error::Refused { doing, errno })
    }
}

/// What a daemon that is to be replaced says of its scheduler.
#[derive(Debug, Clone, Default)]
pub struct Running {
    pub identity: String,
    /// What is set of it. One that takes it over as it is finds this there.
    pub tunables: TunablesChange,
}

/// What a scheduler that is taken over has to do with.
#[derive(Debug)]
pub struct Heir {
    /// The numbers of programs' pages.
    pub clients: BTreeSet<u32>,
    /// Among these are all members.
    pub threads: Vec<Thread>,
    /// The process that had it until now, if that may be alive.
    pub predecessor: Option<OwnedFd>,
}

pub trait Host: GroupHost {
    /// What it can do.
    fn mode(&self) -> Mode {
        Mode::Full
    }

    /// Names the build, and the options that cannot be changed at run time; empty: it cannot be taken over.
    fn identity(&self) -> &str {
        ""
    }

    /// All that another daemon needs to take it over.
    fn descriptors(&self) -> Vec<(String, BorrowedFd<'_>)> {
        Vec::new()
    }

    /// Called once, before programs are served, when the daemon has given up what it does not need.
    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Where a thread is a member; `None`: nowhere.
    fn member(&self, _thread: Thread) -> Result<Option<Membership>, Error> {
        Ok(None)
    }

    /// All domains, with their labels; one that has none was made by a daemon that ended at once.
    fn domains(&self) -> Result<Vec<(u32, Option<DomainLabel>)>, Error> {
        Ok(Vec::new())
    }

    /// All reservations, with their labels.
    fn reservations(&self) -> Result<Vec<(u32, Option<u32>)>, Error> {
        Ok(Vec::new())
    }

    /// Notes the number by which the journal knows a reservation; `None`: it does not any more.
    fn label_reservation(&mut self, _reservation: u32, _number: Option<u32>) -> Result<(), Error> {
        Ok(())
    }

    /// Ends the memberships through pages whose numbers are not among these.
    fn leave_others(&mut self, _clients: &BTreeSet<u32>) -> Result<(), Error> {
        Ok(())
    }

    /// Notes whose message is taken and maybe not answered, by the number of its page; 0: nobody's.
    fn set_answering(&mut self, _client: u32) {}

    /// What was noted last, be it by another daemon.
    fn answering(&self) -> u32 {
        0
    }

    /// A fresh page for a program, with the number that the scheduler knows it by.
    fn client_page(&mut self) -> Result<ClientPage, Error>;

    /// Gives a page's number back; the program may still have it mapped, and nobody reads it any more.
    fn release_client(&mut self, client: u32);

    /// Makes a domain and returns its number.
    fn create_domain(&mut self, label: &DomainLabel) -> Result<u32, Error>;

    /// Removes a domain that has no members.
    fn destroy_domain(&mut self, domain: u32) -> Result<(), Error>;

    fn join(&mut self, args: JoinArgs) -> Result<(), Error>;

    fn leave(&mut self, args: LeaveArgs) -> Result<(), Error>;

    /// Charges a thread for what the daemon has done on its behalf.
    fn bill(&mut self, _thread: Thread, _spent: Duration) -> Result<(), Error> {
        Ok(())
    }

    /// How late a member was in the last ten seconds; `None`: nothing is recorded of it.
    fn tardiness(&self, _client: u32, _slot: u32) -> Option<Tardiness> {
        None
    }

    /// CPUs that the classes divide.
    fn cpus(&self) -> u32;

    /// Divides the machine; all classes at once, or none.
    fn set_classes(&mut self, table: &ClassTable) -> Result<(), Error>;

    /// The shortest period of all reservations; 0 when there are none.
    fn set_shortest_period(&mut self, period_ns: u64);

    /// Makes a reservation without threads and returns its number.
    fn create_reservation(&mut self, terms: Terms) -> Result<u32, Error>;

    /// Another rate and period, in the same class or another.
    fn change_reservation(&mut self, reservation: u32, terms: Terms) -> Result<(), Error>;

    /// Lets a thread, and what it will start, use a reservation.
    fn add_to_reservation(&mut self, reservation: u32, thread: Thread) -> Result<(), Error>;

    /// Makes it that of all that is in a cgroup, by the kernel's number of it.
    fn adopt_cgroup(&mut self, reservation: u32, cgroup: u64) -> Result<(), Error>;

    /// Its threads are as all others again; EAGAIN when some are still on the way.
    fn end_reservation(&mut self, reservation: u32) -> Result<(), Error>;

    fn reservation_usage(&self, reservation: u32) -> Result<ReservationUsage, Error>;

    fn tunables(&self) -> Tunables;

    /// Replaces all tunables at once, or none.
    fn set_tunables(&mut self, tunables: Tunables) -> Result<(), Error>;

    fn counters(&self) -> Result<Counters, Error>;

    /// Members so far whose thread ended, or was given to another scheduling class, without leaving.
    fn member_ends(&self) -> u64;

    /// True when only tasks that opted in are scheduled.
    fn partial(&self) -> bool;

    /// Why the scheduler is no longer in charge; `None` while it is.
    fn exited(&self) -> Option<ExitReport>;
}

impl Host for Scheduler {
    fn identity(&self) -> &str {
        Scheduler::identity(self)
    }

    fn descriptors(&self) -> Vec<(String, BorrowedFd<'_>)> {
        Scheduler::descriptors(self)
    }

    fn begin(&mut self) -> Result<(), Error> {
        Scheduler::begin(self)
    }

    fn member(&self, thread: Thread) -> Result<Option<Membership>, Error> {
        Scheduler::member(self, thread)
    }

    fn domains(&self) -> Result<Vec<(u32, Option<DomainLabel>)>, Error> {
        Scheduler::domains(self)
    }

    fn reservations(&self) -> Result<Vec<(u32, Option<u32>)>, Error> {
        Scheduler::reservations(self)
    }

    fn label_reservation(&mut self, reservation: u32, number: Option<u32>) -> Result<(), Error> {
        Scheduler::label_reservation(self, reservation, number)
    }

    fn leave_others(&mut self, clients: &BTreeSet<u32>) -> Result<(), Error> {
        Scheduler::leave_others(self, clients)
    }

    fn set_answering(&mut self, client: u32) {
        Scheduler::set_answering(self, client);
    }

    fn answering(&self) -> u32 {
        Scheduler::answering(self)
    }

    fn client_page(&mut self) -> Result<ClientPage, Error> {
        Scheduler::client_page(self)
    }

    fn release_client(&mut self, client: u32) {
        Scheduler::release_client(self, client);
    }

    fn create_domain(&mut self, label: &DomainLabel) -> Result<u32, Error> {
        Scheduler::create_domain(self, label)
    }

    fn destroy_domain(&mut self, domain: u32) -> Result<(), Error> {
        Scheduler::destroy_domain(self, domain)
    }

    fn join(&mut self, args: JoinArgs) -> Result<(), Error> {
        Scheduler::join(self, args)
    }

    fn leave(&mut self, args: LeaveArgs) -> Result<(), Error> {
        Scheduler::leave(self, args)
    }

    fn bill(&mut self, thread: Thread, spent: Duration) -> Result<(), Error> {
        Scheduler::bill(self, thread, spent)
    }

    fn tardiness(&self, client: u32, slot: u32) -> Option<Tardiness> {
        Scheduler::tardiness(self, client, slot)
    }

    fn cpus(&self) -> u32 {
        Scheduler::cpus(self)
    }

    fn set_classes(&mut self, table: &ClassTable) -> Result<(), Error> {
        let table = consort_kernel::ClassTable {
            capacity: table.capacity,
            flexible: table.flexible,
            order: table.order.map(|order| order as u8),
        };
        Scheduler::set_classes(self, &table)
    }

    fn set_shortest_period(&mut self, period_ns: u64) {
        Scheduler::set_shortest_period(self, period_ns);
    }

    fn create_reservation(&mut self, terms: Terms) -> Result<u32, Error> {
        Scheduler::create_reservation(self, terms)
    }

    fn change_reservation(&mut self, reservation: u32, terms: Terms) -> Result<(), Error> {
        Scheduler::change_reservation(self, reservation, terms)
    }

    fn add_to_reservation(&mut self, reservation: u32, thread: Thread) -> Result<(), Error> {
        Scheduler::add_to_reservation(self, reservation, thread)
    }

    fn adopt_cgroup(&mut self, reservation: u32, cgroup: u64) -> Result<(), Error> {
        Scheduler::adopt_cgroup(self, reservation, cgroup)
    }

    fn end_reservation(&mut self, reservation: u32) -> Result<(), Error> {
        Scheduler::end_reservation(self, reservation)
    }

    fn reservation_usage(&self, reservation: u32) -> Result<ReservationUsage, Error> {
        Scheduler::reservation_usage(self, reservation)
    }

    fn tunables(&self) -> Tunables {
        Scheduler::tunables(self)
    }

    fn set_tunables(&mut self, tunables: Tunables) -> Result<(), Error> {
        Scheduler::set_tunables(self, tunables)
    }

    fn counters(&self) -> Result<Counters, Error> {
        Scheduler::counters(self)
    }

    fn member_ends(&self) -> u64 {
        Scheduler::member_ends(self)
    }

    fn partial(&self) -> bool {
        Scheduler::partial(self)
    }

    fn exited(&self) -> Option<ExitReport> {
        Scheduler::exited(self)
    }
}
