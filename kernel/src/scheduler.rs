// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler in the kernel: load, attach, talk to, detach.

use std::{mem::MaybeUninit, ptr};

use libbpf_rs::{
    skel::{OpenSkel, SkelBuilder},
    Link, OpenObject,
};
use tracing::info;

use crate::{
    counters, exit,
    kernel::{self, explain_attach},
    log,
    pages::{ClientPage, Pages},
    records,
    skeleton::{
        interface::{
            consort_classes_args, consort_domain_args, consort_init_args, consort_join_args,
            consort_leave_args, consort_reservation_args, CPUS_MAX, SHARDS_MAX,
        },
        types, ConsortSkel, ConsortSkelBuilder, OpenConsortSkel,
    },
    syscall, ClassTable, Counters, DomainOptions, Error, ExitReport, JoinArgs, LeaveArgs, Options,
    ReservationUsage, Tardiness, Terms, Topology, Tunables,
};

/// `SCX_OPS_SWITCH_PARTIAL`: the same in every kernel that has sched_ext.
pub(crate) const SWITCH_PARTIAL: u64 = 1 << 3;

/// The loaded scheduler. Dropping it gives every task back to the stock scheduler.
pub struct Scheduler {
    // Dropped first: the scheduler leaves the kernel before its maps go.
    link: Option<Link>,
    pub(crate) skeleton: ConsortSkel<'static>,
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
        kernel::check()?;
        log::capture();
        let topology = Topology::read()?;
        let open = open(options, &topology)?;
        let skeleton = open
            .load()
            .map_err(|error| kernel::explain_load(&error, &log::take()))?;
        let mut init = consort_init_args::default();
        syscall::call(&skeleton.progs.consort_init_arena, &mut init, "start")?;
        let pages = Pages::new(&skeleton.maps.clients)?;
        let mut scheduler = Scheduler {
            link: None,
            skeleton,
            pages,
            partial: options.partial,
        };
        scheduler.attach()?;
        info!(
            cpus = topology.shard_of_cpu.len(),
            shards = topology.shards,
            partial = options.partial,
            kernel = kernel::kernel_release(),
            "scheduler attached"
        );
        Ok(scheduler)
    }

    fn attach(&mut self) -> Result<(), Error> {
        let attached = self.skeleton.maps.consort_ops.attach_struct_ops();
        let error = match attached {
            Ok(link) => {
                self.link = Some(link);
                return match self.exited() {
                    None => Ok(()),
                    Some(report) => Err(Error::Load {
                        doing: "keep the scheduler",
                        detail: report.to_string(),
                    }),
                };
            }
            Err(error) => error,
        };
        Err(explain_attach(&error, self.exited()))
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
    pub fn create_domain(&mut self, options: DomainOptions) -> Result<u32, Error> {
        self.create_domain_in(options, None)
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
        let program = &self.skeleton.progs.consort_domain_destroy;
        syscall::call(program, &mut args, "remove a domain")
    }

    /// Makes a thread a member of a domain.
    ///
    /// # Errors
    /// ESRCH when the thread is not under this scheduler, EEXIST when it is a member, ENOENT when there is
    /// no such domain.
    pub fn join(&mut self, join: JoinArgs) -> Result<(), Error> {
        let mut args = consort_join_args {
            tid: join.tid,
            domain: join.domain,
            client: join.client,
            slot: join.slot,
            ..Default::default()
        };
        records::begin(&self.skeleton.maps.records, join.client, join.slot);
        let program = &self.skeleton.progs.consort_join;
        let joined = syscall::call(program, &mut args, "let a thread join");
        if joined.is_err() {
            records::end(&self.skeleton.maps.records, join.client, join.slot);
        }
        joined
    }

    /// How late a member was in the last ten seconds; `None`: nothing is recorded of it.
    pub fn tardiness(&self, client: u32, slot: u32) -> Option<Tardiness> {
        let records = &self.skeleton.maps.records;
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
        records::end(&self.skeleton.maps.records, leave.client, leave.slot);
        let program = &self.skeleton.progs.consort_leave;
        syscall::call(program, &mut args, "let a thread leave")
    }

    /// Gives the classes their capacities: all of them, or none when there is an error.
    ///
    /// # Errors
    /// EBUSY when a class that shall go, or change its order, has reservations, EINVAL when nothing is left for
    /// everybody else.
    pub fn set_classes(&mut self, table: &ClassTable) -> Result<(), Error> {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.class_table.capacity = table.capacity;
            bss.class_table.flexible = table.flexible;
            bss.class_table.order = table.order;
        }
        let mut args = consort_classes_args::default();
        let program = &self.skeleton.progs.consort_classes;
        syscall::call(program, &mut args, "divide the machine into classes")
    }

    /// The shortest period of all reservations, by which slices beside them are cut; 0 when there are none.
    pub fn set_shortest_period(&mut self, period_ns: u64) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.class_table.shortest_period_ns = period_ns;
        }
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
        let program = &self.skeleton.progs.consort_reservation_create;
        syscall::call(program, &mut args, "make a reservation")?;
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
        let program = &self.skeleton.progs.consort_reservation_change;
        syscall::call(program, &mut args, "change a reservation")
    }

    /// Lets a thread, and what it will start, use a reservation.
    ///
    /// # Errors
    /// ESRCH when the thread is not under this scheduler, EEXIST when it has a reservation, EBUSY when it is a
    /// member of a domain, ENOENT when there is no such reservation.
    pub fn add_to_reservation(&mut self, reservation: u32, tid: i32) -> Result<(), Error> {
        let mut args = consort_reservation_args {
            reservation,
            tid,
            ..Default::default()
        };
        let program = &self.skeleton.progs.consort_reservation_add;
        syscall::call(program, &mut args, "reserve for a thread")
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
        let program = &self.skeleton.progs.consort_reservation_adopt;
        syscall::call(program, &mut args, "reserve for a cgroup")
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
        let program = &self.skeleton.progs.consort_reservation_end;
        syscall::call(program, &mut args, "end a reservation")
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
        let program = &self.skeleton.progs.consort_reservation_usage;
        syscall::call(program, &mut args, "tell a reservation's use")?;
        Ok(ReservationUsage {
            tasks: args.tasks,
            ran_ns: args.ran_ns,
        })
    }

    /// CPUs that the classes divide.
    pub fn cpus(&self) -> u32 {
        let rodata = self.skeleton.maps.rodata_data.as_ref();
        rodata.map_or(1, |rodata| rodata.topology.nr_cpus)
    }

    pub fn tunables(&self) -> Tunables {
        self.data()
            .map_or_else(Tunables::default, |data| from_kernel(&data.tunables))
    }

    /// Replaces the tunables; see [`crate::TunablesChange::apply`] for what is sensible.
    ///
    /// # Errors
    /// None at present.
    pub fn set_tunables(&mut self, new: Tunables) -> Result<(), Error> {
        if let Some(data) = self.skeleton.maps.data_data.as_deref_mut() {
            write_tunables(&mut data.tunables, new);
        }
        Ok(())
    }

    /// The counters since the scheduler was loaded.
    ///
    /// # Errors
    /// None at present.
    pub fn counters(&self) -> Result<Counters, Error> {
        let bss = self.skeleton.maps.bss_data.as_deref();
        Ok(counters::sum(bss.map_or(&[], |bss| &bss.counters)))
    }

    /// The counter `ends` alone: cheap enough to be asked all the time.
    pub fn member_ends(&self) -> u64 {
        let bss = self.skeleton.maps.bss_data.as_deref();
        counters::ends(bss.map_or(&[], |bss| &bss.counters))
    }

    pub fn partial(&self) -> bool {
        self.partial
    }

    /// Why the scheduler is no longer in charge; `None` while it is.
    pub fn exited(&self) -> Option<ExitReport> {
        let info = &self.skeleton.maps.bss_data.as_deref()?.exit_info;
        // SAFETY: the same C struct, mapped for as long as the skeleton lives.
        unsafe { exit::report(ptr::from_ref(info).cast()) }
    }

    fn data(&self) -> Option<&types::data> {
        self.skeleton.maps.data_data.as_deref()
    }
}

/// Opens the program and sets what the verifier takes for constant.
fn open(options: Options, topology: &Topology) -> Result<OpenConsortSkel<'static>, Error> {
    // The skeleton borrows this for as long as the scheduler lives, which is as long as the process does.
    let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = ConsortSkelBuilder::default()
        .open(object)
        .map_err(|error| kernel::explain_load(&error, &log::take()))?;
    let missing = || Error::Load {
        doing: "open the scheduler",
        detail: "its constants are missing: kernel/bpf and kernel/src do not fit together"
            .to_owned(),
    };
    let rodata = open.maps.rodata_data.as_deref_mut().ok_or_else(missing)?;
    set_topology(&mut rodata.topology, topology)?;
    rodata.one_cpu = topology.shard_of_cpu.len() == 1;
    rodata.is_virtual = kernel::is_virtual();
    rodata.use_timers = !kernel::is_realtime();
    let data = open.maps.data_data.as_deref_mut().ok_or_else(missing)?;
    let tunables = options.tunables.apply(from_kernel(&data.tunables))?;
    write_tunables(&mut data.tunables, tunables);
    let ops = open.struct_ops.consort_ops_mut();
    ops.timeout_ms = options.watchdog_ms;
    if options.partial {
        ops.flags |= SWITCH_PARTIAL;
    }
    if kernel::is_realtime() {
        info!("this kernel (PREEMPT_RT) refuses BPF timers: slices end with the tick, so at most every 1 to 10 ms");
    }
    Ok(open)
}

fn set_topology(to: &mut types::consort_topology, from: &Topology) -> Result<(), Error> {
    let cpus = from.shard_of_cpu.len();
    if cpus > CPUS_MAX as usize {
        return Err(Error::TooManyCpus {
            cpus,
            cpus_max: CPUS_MAX,
        });
    }
    to.nr_cpus = cpus as u32;
    to.nr_shards = from.shards.min(SHARDS_MAX);
    for (place, shard) in to.shard_of.iter_mut().zip(&from.shard_of_cpu) {
        // More caches than shards: some shards hold several.
        *place = shard % SHARDS_MAX;
    }
    Ok(())
}

fn from_kernel(tunables: &types::consort_tunables) -> Tunables {
    Tunables {
        granularity_ns: tunables.granularity_ns,
        min_slice_ns: tunables.min_slice_ns,
        window_ns: tunables.window_ns,
    }
}

fn write_tunables(to: &mut types::consort_tunables, new: Tunables) {
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
        unsafe { ptr::write_volatile(field, value) };
    }
}
