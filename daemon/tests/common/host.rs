// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host that records what it is told.

mod exec;
mod groups;
mod loader;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use consort_abi::{CONSORT_ABI_MAGIC, CONSORT_ABI_VERSION, CONSORT_MAPPING_BYTES};
use consort_daemon::{ejection::Mode, groups::host::Bind, ClassTable, Heir, Host, Loader};
use consort_groups::Group;
use consort_kernel::{
    ClientPage, Counters, DomainLabel, DomainOptions, Error, ExitReport, Interval, JoinArgs, Kept,
    LeaveArgs, Membership, ReservationUsage, Tardiness, Terms, Thread, Tunables, RATE_ONE,
};
use nix::sys::memfd::{memfd_create, MFdFlags};

pub use exec::first_thread;
pub use loader::FakeLoader;
use loader::{link, IDENTITY};

/// What the fake scheduler was told, and what it shall answer.
#[derive(Debug, Default)]
pub struct Record {
    pub domains: BTreeMap<u32, DomainOptions>,
    /// Of domains, by number.
    pub labels: BTreeMap<u32, DomainLabel>,
    /// The journal's numbers, by reservation.
    pub numbers: BTreeMap<u32, u32>,
    pub answering: u32,
    pub members: HashMap<i32, JoinArgs>,
    pub pages: BTreeSet<u32>,
    pub joins: u64,
    /// How often the daemon asked where a thread is a member.
    pub member_lookups: u64,
    /// How often the daemon wanted a thread bound.
    pub binds: u64,
    pub classes: Option<ClassTable>,
    pub reservations: BTreeMap<u32, Promise>,
    pub shortest_period_ns: u64,
    pub groups: BTreeMap<u32, FakeGroup>,
    /// CPU time that each reservation has used.
    pub used_ns: HashMap<u32, u64>,
    /// Fail like a killed process after so many more calls that change something about reservations or groups.
    pub dies_after: Option<u32>,
    pub tunables: Tunables,
    /// What is recorded of every member.
    pub tardiness: Option<Tardiness>,
    pub partial: bool,
    pub member_ends: u64,
    pub exit: Option<ExitReport>,
    /// By thread.
    pub billed: HashMap<i32, Duration>,
    /// Each time that a scheduler was loaded.
    pub loads: Vec<Mode>,
    /// Refuse to load that one.
    pub unloadable: Option<Mode>,
    /// Have executed programs, and are found by these numbers no more.
    pub executed: BTreeSet<i32>,
    /// Refuse to bind these threads.
    pub unbindable: BTreeSet<i32>,
    /// Have no memory for plans of roles of that number.
    pub unplannable: Option<u32>,
    /// Go on verifying users' functions.
    pub verifies_on: bool,
    /// Refuse the next calls of that name with that errno.
    pub refuse: HashMap<&'static str, i32>,
    next: u32,
}

/// Of a scheduler that has just been loaded.
const TUNABLES: Tunables = Tunables {
    granularity_ns: 20_000_000,
    min_slice_ns: 500_000,
    window_ns: 4_000_000,
};

/// A reservation as the scheduler knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    pub class: u32,
    pub rate: u32,
    pub period_ns: u64,
    pub threads: BTreeSet<i32>,
    /// That it is for; tests take it away when the cgroup shall have gone.
    pub cgroup: Option<u64>,
}

/// A group as the scheduler knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeGroup {
    pub group: Group,
    pub reservation: Option<u32>,
    pub threads: BTreeMap<i32, Bind>,
    /// Intervals by role, and when they begin anew.
    pub plans: BTreeMap<u32, (Vec<Interval>, u64)>,
    /// When the plans began, and the level of the last queue from which on they do.
    pub begun: Option<(u64, u32)>,
}

/// Keeps the scheduler's side of the contract: members are in domains that exist, each once.
#[derive(Debug, Clone, Default)]
pub struct FakeHost(Arc<Mutex<Record>>);

impl FakeHost {
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap()
    }

    /// The daemon was killed, maybe while it called the scheduler, which goes on.
    pub fn outlive(&self) {
        self.0.clear_poison();
        self.record().dies_after = None;
    }

    /// The scheduler leaves the kernel, even if a test has failed while it held the record.
    pub fn unload(&self, report: ExitReport) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).exit = Some(report);
    }

    /// A scheduler as it is when it has just been loaded.
    pub fn load(&self, mode: Mode) -> Result<Box<dyn Host>, Error> {
        let mut record = self.record();
        if record.unloadable == Some(mode) {
            return Err(refusal("load", libc::ENOMEM));
        }
        record.loads.push(mode);
        record.tunables = TUNABLES;
        record.exit = None;
        record.domains.clear();
        record.members.clear();
        record.pages.clear();
        record.reservations.clear();
        record.groups.clear();
        record.classes = None;
        Ok(Box::new(self.clone()))
    }

    fn refused(record: &Record, doing: &'static str) -> Result<(), Error> {
        match record.refuse.get(doing) {
            Some(errno) => Err(refusal(doing, *errno)),
            None => Ok(()),
        }
    }
}

impl Record {
    fn live_or_die(&mut self) {
        if let Some(left) = &mut self.dies_after {
            assert!(*left > 0, "killed");
            *left -= 1;
        }
    }

    /// How a thread is bound to a group.
    fn bind_of(&self, tid: i32) -> Option<Bind> {
        let mut groups = self.groups.values();
        groups.find_map(|group| group.threads.get(&tid).copied())
    }

    fn check(&self, terms: Terms) {
        assert!(self
            .classes
            .is_some_and(|table| table.capacity[terms.class as usize] > 0));
        assert!((1..=RATE_ONE).contains(&terms.rate));
        assert!((1_000_000..=10_000_000_000).contains(&terms.period_ns));
    }
}

fn refusal(doing: &'static str, errno: i32) -> Error {
    Error::Refused { doing, errno }
}

impl Host for FakeHost {
    fn identity(&self) -> &str {
        IDENTITY
    }

    fn begin(&mut self) -> Result<(), Error> {
        Self::refused(&self.record(), "begin")
    }

    fn descriptors(&self) -> Vec<(String, BorrowedFd<'_>)> {
        vec![(format!("link-{IDENTITY}"), link())]
    }

    fn member(&self, thread: Thread) -> Result<Option<Membership>, Error> {
        let mut record = self.record();
        record.member_lookups += 1;
        let found = record.members.get(&thread.tid);
        let joined = found.filter(|join| join.thread == thread);
        let bound = record.bind_of(thread.tid);
        let bound = bound.filter(|bind| bind.thread == thread);
        Ok(joined
            .map(|join| Membership {
                client: join.client,
                slot: join.slot,
                domain: join.domain,
            })
            .or(bound.map(|bind| {
                let (client, slot) = bind.page.filter(|_| bind.polls).unwrap_or_default();
                let domain = bind.group;
                Membership {
                    client,
                    slot,
                    domain,
                }
            })))
    }

    fn domains(&self) -> Result<Vec<(u32, Option<DomainLabel>)>, Error> {
        let record = self.record();
        let domains = record.domains.keys().chain(record.groups.keys());
        Ok(domains
            .map(|id| (*id, record.labels.get(id).cloned()))
            .collect())
    }

    fn reservations(&self) -> Result<Vec<(u32, Option<u32>)>, Error> {
        let record = self.record();
        let ids = record.reservations.keys();
        Ok(ids
            .map(|id| (*id, record.numbers.get(id).copied()))
            .collect())
    }

    fn label_reservation(&mut self, id: u32, number: Option<u32>) -> Result<(), Error> {
        let mut record = self.record();
        record.live_or_die();
        match number {
            Some(number) => record.numbers.insert(id, number),
            None => record.numbers.remove(&id),
        };
        Ok(())
    }

    fn leave_others(&mut self, clients: &BTreeSet<u32>) -> Result<(), Error> {
        let mut record = self.record();
        record
            .members
            .retain(|_, join| clients.contains(&join.client));
        for group in record.groups.values_mut() {
            group.threads.retain(|_, bind| {
                let page = bind.page.filter(|_| bind.polls);
                page.is_some_and(|(client, _)| clients.contains(&client))
            });
        }
        Ok(())
    }

    fn set_answering(&mut self, client: u32) {
        self.record().answering = client;
    }

    fn answering(&self) -> u32 {
        self.record().answering
    }

    fn mode(&self) -> Mode {
        self.record().loads.last().copied().unwrap_or(Mode::Full)
    }

    fn tardiness(&self, _client: u32, _slot: u32) -> Option<Tardiness> {
        self.record().tardiness
    }

    fn client_page(&mut self) -> Result<ClientPage, Error> {
        let mut record = self.record();
        Self::refused(&record, "client_page")?;
        record.next += 1;
        let client = record.next;
        record.pages.insert(client);
        let descriptor = memfd_create("page", MFdFlags::MFD_CLOEXEC).unwrap();
        nix::unistd::ftruncate(&descriptor, CONSORT_MAPPING_BYTES.into()).unwrap();
        // By which a library knows that it is one.
        for word in [CONSORT_ABI_MAGIC, CONSORT_ABI_VERSION] {
            nix::unistd::write(&descriptor, &word.to_ne_bytes()).unwrap();
        }
        Ok(ClientPage { client, descriptor })
    }

    fn release_client(&mut self, client: u32) {
        assert!(
            self.record().pages.remove(&client),
            "released twice: {client}"
        );
    }

    fn create_domain(&mut self, label: &DomainLabel) -> Result<u32, Error> {
        let mut record = self.record();
        Self::refused(&record, "create_domain")?;
        record.next += 1;
        let id = record.next;
        record.domains.insert(id, label.options);
        record.labels.insert(id, label.clone());
        Ok(id)
    }

    fn destroy_domain(&mut self, domain: u32) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "destroy_domain")?;
        let has_members = record
            .members
            .values()
            .any(|member| member.domain == domain);
        assert!(!has_members, "domain {domain} has members");
        let existed = record.domains.remove(&domain).is_some();
        assert!(existed, "no domain {domain}");
        Ok(())
    }

    fn join(&mut self, args: JoinArgs) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "join")?;
        assert!(record.domains.contains_key(&args.domain));
        assert!(record.pages.contains(&args.client));
        if record.members.contains_key(&args.thread.tid) {
            return Err(refusal("join", libc::EEXIST));
        }
        record.members.insert(args.thread.tid, args);
        record.joins += 1;
        Ok(())
    }

    fn bill(&mut self, thread: Thread, spent: Duration) -> Result<(), Error> {
        *self.record().billed.entry(thread.tid).or_default() += spent;
        Ok(())
    }

    fn leave(&mut self, args: LeaveArgs) -> Result<(), Error> {
        let mut record = self.record();
        if let Some(member) = record.members.remove(&args.tid) {
            assert_eq!((member.client, member.slot), (args.client, args.slot));
            return Ok(());
        }
        let mut groups = record.groups.values_mut();
        match groups.find_map(|group| group.threads.remove(&args.tid)) {
            Some(bind) => {
                let place = bind.page.filter(|_| bind.polls).unwrap_or_default();
                assert_eq!(place, (args.client, args.slot));
                Ok(())
            }
            None => Err(refusal("leave", libc::ESRCH)),
        }
    }

    fn cpus(&self) -> u32 {
        1
    }

    fn set_classes(&mut self, table: &ClassTable) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "set_classes")?;
        record.live_or_die();
        let sum: u32 = table.capacity.iter().sum();
        assert_eq!(sum + table.flexible, RATE_ONE);
        assert!(table.flexible > 0);
        let mut promises = record.reservations.values();
        if promises.any(|promise| table.capacity[promise.class as usize] == 0) {
            return Err(refusal("set_classes", libc::EBUSY));
        }
        record.classes = Some(*table);
        Ok(())
    }

    fn set_shortest_period(&mut self, period_ns: u64) {
        self.record().shortest_period_ns = period_ns;
    }

    fn create_reservation(&mut self, terms: Terms) -> Result<u32, Error> {
        let mut record = self.record();
        Self::refused(&record, "create_reservation")?;
        record.live_or_die();
        record.check(terms);
        record.next += 1;
        let id = record.next;
        let threads = BTreeSet::new();
        let promise = Promise {
            class: terms.class,
            rate: terms.rate,
            period_ns: terms.period_ns,
            threads,
            cgroup: None,
        };
        record.reservations.insert(id, promise);
        Ok(id)
    }

    fn change_reservation(&mut self, id: u32, terms: Terms) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "change_reservation")?;
        record.live_or_die();
        record.check(terms);
        let promise = record.reservations.get_mut(&id).unwrap();
        (promise.class, promise.rate, promise.period_ns) =
            (terms.class, terms.rate, terms.period_ns);
        Ok(())
    }

    fn add_to_reservation(&mut self, id: u32, thread: Thread) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "add_to_reservation")?;
        record.live_or_die();
        let has_one = |promise: &Promise| promise.threads.contains(&thread.tid);
        if record.reservations.values().any(has_one) {
            return Err(refusal("add_to_reservation", libc::EEXIST));
        }
        let promise = record.reservations.get_mut(&id).unwrap();
        promise.threads.insert(thread.tid);
        Ok(())
    }

    fn adopt_cgroup(&mut self, id: u32, cgroup: u64) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "adopt_cgroup")?;
        record.live_or_die();
        if record
            .reservations
            .values()
            .any(|one| one.cgroup == Some(cgroup))
        {
            return Err(refusal("adopt_cgroup", libc::EBUSY));
        }
        record.reservations.get_mut(&id).unwrap().cgroup = Some(cgroup);
        Ok(())
    }

    fn end_reservation(&mut self, id: u32) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "end_reservation")?;
        record.live_or_die();
        let uses = |group: &FakeGroup| group.reservation == Some(id);
        assert!(
            !record.groups.values().any(uses),
            "reservation {id} is used by a group"
        );
        let existed = record.reservations.remove(&id).is_some();
        assert!(existed, "no reservation {id}");
        Ok(())
    }

    fn reservation_usage(&self, id: u32) -> Result<ReservationUsage, Error> {
        let record = self.record();
        match record.reservations.get(&id) {
            Some(promise) => Ok(ReservationUsage {
                tasks: promise.threads.len() as u32 + u32::from(promise.cgroup.is_some()),
                ran_ns: record.used_ns.get(&id).copied().unwrap_or_default(),
            }),
            None => Err(refusal("reservation_usage", libc::ENOENT)),
        }
    }

    fn tunables(&self) -> Tunables {
        self.record().tunables
    }

    fn set_tunables(&mut self, tunables: Tunables) -> Result<(), Error> {
        self.record().tunables = tunables;
        Ok(())
    }

    fn counters(&self) -> Result<Counters, Error> {
        Ok(Counters::from([("polls", 42), ("switches", 7)]))
    }

    fn member_ends(&self) -> u64 {
        self.record().member_ends
    }

    fn partial(&self) -> bool {
        self.record().partial
    }

    fn exited(&self) -> Option<ExitReport> {
        self.record().exit.clone()
    }
}
