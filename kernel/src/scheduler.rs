// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler in the kernel: load, attach, talk to, detach.

use std::{
    collections::BTreeSet,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use tracing::info;

use crate::{
    counters,
    descriptors::{above, duplicate, link_name, Kept, Maps, Programs},
    exit,
    globals::{read, write, Globals},
    handover::{forget_domain, note_domain, DomainLabel},
    kernel,
    pages::{ClientPage, Pages},
    prepared::Prepared,
    records,
    skeleton::{
        interface::{
            consort_bill_args, consort_classes_args, consort_counters, consort_domain_args,
            consort_join_args, consort_leave_args, consort_reservation_args, CONSORT_CALL_BILL,
            CONSORT_CALL_CLASSES, CONSORT_CALL_DOMAIN_DESTROY, CONSORT_CALL_JOIN,
            CONSORT_CALL_LEAVE, CONSORT_CALL_RESERVATION_ADD, CONSORT_CALL_RESERVATION_ADOPT,
            CONSORT_CALL_RESERVATION_CHANGE, CONSORT_CALL_RESERVATION_CREATE,
            CONSORT_CALL_RESERVATION_END, CONSORT_CALL_RESERVATION_USAGE,
        },
        types,
    },
    ClassTable, Counters, Error, ExitReport, JoinArgs, LeaveArgs, Options, ReservationUsage,
    Tardiness, Terms, Thread, Tunables,
};

/// The loaded scheduler. Dropping it gives every task back to the stock scheduler, unless somebody else has its
/// descriptors, too.
pub struct Scheduler {
    // Dropped first: the scheduler leaves the kernel before its maps go.
    link: OwnedFd,
    identity: String,
    pub(crate) programs: Programs,
    pub(crate) maps: Maps,
    pub(crate) bss: Globals<types::bss>,
    counters: Globals<consort_counters>,
    data: Globals<types::data>,
    rodata: Globals<types::rodata>,
    pages: Pages,
    partial: bool,
}

impl Scheduler {
    /// Loads the scheduler and puts it in charge of all tasks, or with `partial` of those that opt in.
    ///
    /// A process loads it a few times at most: a little memory of libbpf's is not returned when the scheduler goes.
    ///
    /// # Errors
    /// See [`Error`]: no sched_ext, too old, not root, another scheduler attached.
    pub fn load(options: Options) -> Result<Self, Error> {
        kernel::check_free()?;
        let prepared = Prepared::load(options)?;
        let pages = Pages::new(prepared.maps()?.clients)?;
        prepared.attach(pages)
    }

    /// Takes over a scheduler that is in charge and [is](Kept::is) what would be loaded. Programs have the pages
    /// `clients`; `predecessor` is the process that had it, if that may be alive.
    ///
    /// # Errors
    /// A descriptor is missing, or the scheduler has left the kernel.
    pub fn adopt(
        kept: &Kept,
        options: Options,
        clients: &BTreeSet<u32>,
        predecessor: Option<OwnedFd>,
    ) -> Result<Self, Error> {
        let pages = Pages::beside(Maps::take(kept)?.clients, clients, predecessor);
        let link = duplicate(&kept.link)?;
        let (programs, maps) = (Programs::take(kept)?, Maps::take(kept)?);
        let mut scheduler = Scheduler::of(link, programs, maps, pages, &options)?;
        if let Some(report) = scheduler.exited() {
            return Err(Error::Load {
                doing: "take the scheduler over",
                detail: report.to_string(),
            });
        }
        let tunables = options.tunables.apply(scheduler.tunables())?;
        scheduler.set_tunables(tunables)?;
        info!(identity = scheduler.identity, "scheduler taken over");
        Ok(scheduler)
    }

    /// The scheduler of these descriptors, which was loaded with these options.
    pub(crate) fn of(
        link: OwnedFd,
        programs: Programs,
        maps: Maps,
        pages: Pages,
        options: &Options,
    ) -> Result<Self, Error> {
        let link = above(&link, maps.named().iter().map(|(_, map)| *map))?;
        Ok(Scheduler {
            link,
            identity: identity(options),
            programs,
            bss: Globals::map(&maps.bss, false)?,
            counters: Globals::map(&maps.counters, false)?,
            data: Globals::map(&maps.data, false)?,
            rodata: Globals::map(&maps.rodata, true)?,
            maps,
            pages,
            partial: options.partial,
        })
    }

    /// Which build it is, with which options.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// All that another daemon needs to take it over, by name.
    pub fn descriptors(&self) -> Vec<(String, BorrowedFd<'_>)> {
        let mut named = self.programs.named();
        named.extend(self.maps.named());
        // Last: the service manager closes the newest first.
        named.push((link_name(&self.identity), self.link.as_fd()));
        named
    }

    /// Begins to make pages for programs, with what this process may do now.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.pages.begin()
    }

    /// A fresh page for a program. [`Scheduler::release_client`] gives its number back.
    ///
    /// # Errors
    /// ENOSPC when every number is taken, or those of making maps.
    pub fn client_page(&mut self) -> Result<ClientPage, Error> {
        self.pages.take()
    }

    /// Gives the number of a program's page back; its threads must have left their domains.
    pub fn release_client(&mut self, client: u32) {
        self.pages.give_back(client);
    }

    /// Makes a domain and returns its number.
    ///
    /// # Errors
    /// ENOSPC when the scheduler has no room for more.
    pub fn create_domain(&mut self, label: &DomainLabel) -> Result<u32, Error> {
        let domain = self.create_domain_in(label.options, None)?;
        match note_domain(&self.maps, domain, label) {
            Ok(()) => Ok(domain),
            Err(error) => {
                self.destroy_domain(domain)?;
                Err(error)
            }
        }
    }

    /// Removes a domain.
    ///
    /// # Errors
    /// EBUSY while it has members, ENOENT when there is none of that number.
    pub fn destroy_domain(&mut self, domain: u32) -> Result<(), Error> {
        let mut args = consort_domain_args {
            domain,
            ..Default::default()
        };
        self.call(CONSORT_CALL_DOMAIN_DESTROY, &mut args, "remove a domain")?;
        forget_domain(&self.maps, domain);
        Ok(())
    }

    /// Makes a thread a member of a domain.
    ///
    /// # Errors
    /// ESRCH when the thread is not under this scheduler, EEXIST when it is a member, ENOENT when there is
    /// no such domain.
    pub fn join(&mut self, join: JoinArgs) -> Result<(), Error> {
        let mut args = consort_join_args {
            tid: join.thread.tid,
            start_ticks: join.thread.start,
            domain: join.domain,
            client: join.client,
            slot: join.slot,
            ..Default::default()
        };
        records::begin(&self.maps.records, join.client, join.slot);
        let joined = self.call(CONSORT_CALL_JOIN, &mut args, "let a thread join");
        if joined.is_err() {
            records::end(&self.maps.records, join.client, join.slot);
        }
        joined
    }

    /// How late a member was in the last ten seconds; `None`: nothing is recorded of it.
    pub fn tardiness(&self, client: u32, slot: u32) -> Option<Tardiness> {
        let records = &self.maps.records;
        records::read(records, client, slot, kernel::monotonic_ns(), 10)
    }

    /// Ends a thread's membership.
    ///
    /// # Errors
    /// ESRCH when there is no such thread, ENOENT when it is not a member through that client's page.
    pub fn leave(&mut self, leave: LeaveArgs) -> Result<(), Error> {
        let mut args = consort_leave_args {
            tid: leave.tid,
            client: leave.client,
            ..Default::default()
        };
        records::end(&self.maps.records, leave.client, leave.slot);
        self.call(CONSORT_CALL_LEAVE, &mut args, "let a thread leave")
    }

    /// Charges a thread, and the accounts above it, for what the caller has done on its behalf: a second of CPU time at most.
    ///
    /// # Errors
    /// ESRCH when the thread is not under this scheduler, EINVAL for more than a second.
    pub fn bill(&mut self, thread: Thread, spent: Duration) -> Result<(), Error> {
        let mut args = consort_bill_args {
            tid: thread.tid,
            start_ticks: thread.start,
            ns: spent.as_nanos().try_into().unwrap_or(u64::MAX),
            ..Default::default()
        };
        self.call(CONSORT_CALL_BILL, &mut args, "bill a thread")
    }

    /// Gives the classes their capacities: all of them, or none when there is an error.
    ///
    /// # Errors
    /// EBUSY when a class that shall go, or change its order, has reservations, EINVAL when nothing is left for
    /// everybody else.
    pub fn set_classes(&mut self, table: &ClassTable) -> Result<(), Error> {
        write!(self.bss, table.capacity, class_table.capacity);
        write!(self.bss, table.flexible, class_table.flexible);
        write!(self.bss, table.order, class_table.order);
        let mut args = consort_classes_args::default();
        self.call(
            CONSORT_CALL_CLASSES,
            &mut args,
            "divide the machine into classes",
        )
    }

    /// The shortest period of all reservations, by which slices beside them are cut; 0 when there are none.
    pub fn set_shortest_period(&mut self, period_ns: u64) {
        write!(self.bss, period_ns, class_table.shortest_period_ns);
    }

    /// Makes a reservation that no thread has yet, and returns its number.
    ///
    /// # Errors
    /// ENOSPC when the scheduler has no room for more, ENOENT for an unknown class, EINVAL for a rate or period out of
    /// range.
    pub fn create_reservation(&mut self, terms: Terms) -> Result<u32, Error> {
        let mut args = consort_reservation_args {
            class: terms.class,
            rate: terms.rate,
            period_ns: terms.period_ns,
            ..Default::default()
        };
        self.call(
            CONSORT_CALL_RESERVATION_CREATE,
            &mut args,
            "make a reservation",
        )?;
        Ok(args.reservation)
    }

    /// Gives a reservation other terms, maybe in another class.
    ///
    /// # Errors
    /// ENOENT when there is no such reservation or class, EINVAL for a rate or period out of range.
    pub fn change_reservation(&mut self, reservation: u32, terms: Terms) -> Result<(), Error> {
        let mut args = consort_reservation_args {
            reservation,
            class: terms.class,
            rate: terms.rate,
            period_ns: terms.period_ns,
            ..Default::default()
        };
        self.call(
            CONSORT_CALL_RESERVATION_CHANGE,
            &mut args,
            "change a reservation",
        )
    }

    /// Lets a thread, and what it will start, use a reservation.
    ///
    /// # Errors
    /// ESRCH when the thread is not under this scheduler, EEXIST when it has a reservation, EBUSY when it is a
    /// member of a domain, ENOENT when there is no such reservation.
    pub fn add_to_reservation(&mut self, reservation: u32, thread: Thread) -> Result<(), Error> {
        let mut args = consort_reservation_args {
            reservation,
            tid: thread.tid,
            start_ticks: thread.start,
            ..Default::default()
        };
        self.call(
            CONSORT_CALL_RESERVATION_ADD,
            &mut args,
            "reserve for a thread",
        )
    }

    /// Makes a reservation that of a cgroup: of all that is in it, and below it, whoever that is.
    ///
    /// # Errors
    /// ESRCH when there is no such cgroup, EBUSY when it or one that it is in is reserved for already.
    pub fn adopt_cgroup(&mut self, reservation: u32, cgroup: u64) -> Result<(), Error> {
        let mut args = consort_reservation_args {
            reservation,
            cgroup,
            ..Default::default()
        };
        self.call(
            CONSORT_CALL_RESERVATION_ADOPT,
            &mut args,
            "reserve for a cgroup",
        )
    }

    /// Ends a reservation; its threads are as all others again.
    ///
    /// # Errors
    /// EAGAIN when some of them could not be reached yet, ENOENT when there is none of that number.
    pub fn end_reservation(&mut self, reservation: u32) -> Result<(), Error> {
        let mut args = consort_reservation_args {
            reservation,
            ..Default::default()
        };
        self.call(CONSORT_CALL_RESERVATION_END, &mut args, "end a reservation")
    }

    /// What a reservation's threads have had through it.
    ///
    /// # Errors
    /// ENOENT when there is none of that number.
    pub fn reservation_usage(&self, reservation: u32) -> Result<ReservationUsage, Error> {
        let mut args = consort_reservation_args {
            reservation,
            ..Default::default()
        };
        self.call(
            CONSORT_CALL_RESERVATION_USAGE,
            &mut args,
            "tell a reservation's use",
        )?;
        Ok(ReservationUsage {
            tasks: args.tasks,
            ran_ns: args.ran_ns,
        })
    }

    /// CPUs that the classes divide.
    pub fn cpus(&self) -> u32 {
        read!(self.rodata, topology.nr_present)
    }

    pub fn tunables(&self) -> Tunables {
        from_kernel(&read!(self.data, tunables))
    }

    /// Replaces the tunables; see [`crate::TunablesChange::apply`] for what is sensible.
    ///
    /// # Errors
    /// None at present.
    pub fn set_tunables(&mut self, new: Tunables) -> Result<(), Error> {
        // SAFETY: mapped for as long as `self` lives, and written by nobody else.
        write_tunables(unsafe { &mut (*self.data.as_ptr()).tunables }, new);
        Ok(())
    }

    /// The counters since the scheduler was loaded.
    ///
    /// # Errors
    /// None at present.
    pub fn counters(&self) -> Result<Counters, Error> {
        Ok(counters::sum(&self.counters))
    }

    /// The counter `ends` alone: cheap enough to be asked all the time.
    pub fn member_ends(&self) -> u64 {
        counters::ends(&self.counters)
    }

    pub fn partial(&self) -> bool {
        self.partial
    }

    /// Why the scheduler is no longer in charge; `None` while it is.
    pub fn exited(&self) -> Option<ExitReport> {
        // SAFETY: the same C struct, mapped for as long as `self` lives.
        unsafe { exit::report((&raw const (*self.bss.as_ptr()).exit_info).cast()) }
    }
}

/// Names the build of the scheduler, with the options that cannot be changed while it runs.
pub fn identity(options: &Options) -> String {
    let partial = match options.partial {
        true => "partial",
        false => "all",
    };
    let object = env!("CONSORT_OBJECT");
    format!("{object}-{partial}-{}", options.watchdog_ms)
}

pub(crate) fn from_kernel(tunables: &types::consort_tunables) -> Tunables {
    Tunables {
        granularity_ns: tunables.granularity_ns,
        min_slice_ns: tunables.min_slice_ns,
        window_ns: tunables.window_ns,
    }
}

pub(crate) fn write_tunables(to: &mut types::consort_tunables, new: Tunables) {
    let changes = to.changes + 1;
    let fields = [
        (&mut to.granularity_ns, new.granularity_ns),
        (&mut to.min_slice_ns, new.min_slice_ns),
        (&mut to.window_ns, new.window_ns),
        (&mut to.changes, changes),
    ];
    for (field, value) in fields {
        // SAFETY: a field of mapped memory which the scheduler reads at any time; volatile, so that the
        // value is stored whole and now.
        unsafe { std::ptr::write_volatile(field, value) };
    }
}
