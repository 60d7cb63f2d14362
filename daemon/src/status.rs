// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `consort status --json` shows. Fields are only ever added; `version` rises when one changes meaning.
//!
//! The command puts the three parts together: the fields of [`Status`], and the lists `domains` and `clients`.

use std::collections::HashMap;

use consort_abi::{
    CONSORT_JOIN_PREEMPT, CONSORT_MAPPING_BYTES, CONSORT_PAGE_BYTES, CONSORT_WHY_POLLED_LATE,
    CONSORT_WHY_SLEPT,
};
use consort_kernel::{Counters, Tardiness, Tunables};
use serde::Serialize;

use crate::{
    clients::{Client, ConnectionId, Member},
    domains::{order_name, Domain},
    ejection::{Ejection, Mode},
    pages::first_page,
    service::{Service, Totals},
    users::Told,
    Refusal,
};

const STATUS_VERSION: u32 = 1;

#[derive(Debug, Serialize)]
pub struct Status {
    /// Of this layout.
    pub version: u32,
    pub scheduler: SchedulerStatus,
    pub tunables: Tunables,
    /// The scheduler's counters since it was loaded, summed over CPUs.
    pub counters: Counters,
    pub daemon: DaemonStatus,
    pub ejections: EjectionsStatus,
    /// The asking user, or all for root: at most a hundred, the busiest first.
    pub users: Vec<UserStatus>,
    /// What the disk said when the journal could not be used, or written the last time; `null` while it can be: what is
    /// reserved outlasts the daemon.
    pub journal_error: Option<String>,
}

/// What a user holds, and has made the daemon do. Subordinate numbers are their owner's.
#[derive(Debug, Serialize)]
pub struct UserStatus {
    pub uid: u32,
    pub programs: usize,
    pub members: usize,
    pub domains: usize,
    pub reservations: usize,
    pub reserved: f64,
    /// Open in the daemon: a program's connection, and its process.
    pub descriptors: usize,
    /// Of memory that the kernel keeps for its programs.
    pub pages: usize,
    #[serde(flatten)]
    pub told: Told,
}

/// Of a program's mapping.
const PAGES: usize = (CONSORT_MAPPING_BYTES / CONSORT_PAGE_BYTES) as usize;

/// Users told of in one answer.
const USERS_MAX: usize = 100;

impl UserStatus {
    fn all(service: &Service, shown_uid: Option<u32>) -> Vec<Self> {
        let shown = |uid: u32| shown_uid.is_none_or(|shown| service.users.account(shown) == uid);
        let mut open: HashMap<u32, [usize; 2]> = HashMap::new();
        for (_, client) in service.clients.iter() {
            let account = service.users.account(client.peer.uid);
            let [descriptors, pages] = open.entry(account).or_default();
            *descriptors += 1 + usize::from(client.peer.descriptor.is_some());
            *pages += client.number.map_or(0, |_| PAGES);
        }
        let users = service.users.iter().filter(|(uid, _)| shown(*uid));
        let mut users: Vec<_> = users
            .map(|(uid, user)| {
                let (reserved, reservations) = service.reservations.ledger.held_by(uid);
                let [descriptors, pages] = open.get(&uid).copied().unwrap_or_default();
                UserStatus {
                    uid,
                    programs: user.clients,
                    members: user.members,
                    domains: user.domains,
                    reservations,
                    reserved: reserved.value(),
                    descriptors,
                    pages,
                    told: user.told,
                }
            })
            .collect();
        users.sort_by_key(|user| std::cmp::Reverse(user.told.cpu_us));
        users.truncate(USERS_MAX);
        users
    }
}

/// Some of the asking user's domains, or of everybody's for root, by number.
#[derive(Debug, Serialize)]
pub struct DomainPage {
    pub domains: Vec<DomainStatus>,
    /// Ask again with `after` set to the last one's `id`.
    pub more: bool,
}

/// Some of the asking user's programs, or of everybody's for root, oldest connection first.
#[derive(Debug, Serialize)]
pub struct ClientPage {
    pub clients: Vec<ClientStatus>,
    /// Ask again with `after` set to the last one's `connection`.
    pub more: bool,
}

#[derive(Debug, Serialize)]
pub struct SchedulerStatus {
    /// "running", or "exited" in the moment before it is loaded again or the daemon ends.
    pub state: &'static str,
    pub mode: Mode,
    pub partial: bool,
    /// The release of the kernel that it runs in.
    pub kernel: String,
    /// Names its build and how it was loaded: a daemon with the same one takes it over without a gap. Empty: none can.
    pub identity: String,
}

/// What the kernel has ejected since the daemon started.
#[derive(Debug, Serialize)]
pub struct EjectionsStatus {
    pub count: u64,
    /// `null`: none.
    pub last: Option<Ejection>,
}

#[derive(Debug, Serialize)]
pub struct DaemonStatus {
    /// Of the package.
    pub version: &'static str,
    pub pid: u32,
    pub uptime_s: u64,
    /// Everybody's programs, now; who only asks for the status is none.
    pub clients: usize,
    pub domains: usize,
    pub members: usize,
    /// Since the daemon started.
    #[serde(flatten)]
    pub totals: Totals,
}

#[derive(Debug, Serialize)]
pub struct DomainStatus {
    pub id: u32,
    /// `null`: a private domain.
    pub name: Option<String>,
    pub uid: u32,
    /// "program", "progress" or "service".
    pub order: &'static str,
    pub preempt: bool,
    pub event_ns: u64,
    /// Thread numbers in the initial pid namespace.
    pub members: Vec<i32>,
}

#[derive(Debug, Serialize)]
pub struct ClientStatus {
    /// Names the connection while the daemon runs.
    pub connection: ConnectionId,
    /// `null` until it has said HELLO.
    pub client: Option<u32>,
    pub pid: i32,
    pub uid: u32,
    pub command: String,
    pub members: Vec<MemberStatus>,
}

#[derive(Debug, Serialize)]
pub struct MemberStatus {
    pub tid: i32,
    pub slot: u32,
    pub domain: u32,
    /// Of the last ten seconds; `null`: nothing is recorded of it.
    pub tardiness: Option<Tardiness>,
    /// Why it was demoted the last time, in words; `null`: it never was.
    pub why: Option<String>,
    /// CPU time since the thread started; `null`: it has just ended.
    pub used_ns: Option<u64>,
}

impl Status {
    /// Describes `service`.
    ///
    /// # Errors
    /// When the scheduler's counters cannot be read.
    pub fn of(service: &Service, shown_uid: Option<u32>) -> Result<Self, Refusal> {
        let state = match service.host.exited() {
            None => "running",
            Some(_) => "exited",
        };
        Ok(Status {
            version: STATUS_VERSION,
            scheduler: SchedulerStatus {
                state,
                mode: service.host.mode(),
                partial: service.host.partial(),
                kernel: kernel_release(),
                identity: service.host.identity().to_owned(),
            },
            tunables: service.host.tunables(),
            counters: service.host.counters()?,
            daemon: DaemonStatus {
                version: env!("CARGO_PKG_VERSION"),
                pid: std::process::id(),
                uptime_s: service.started.elapsed().as_secs(),
                clients: programs(service),
                domains: service.domains.len(),
                members: service.clients.members(),
                totals: service.totals,
            },
            ejections: EjectionsStatus {
                count: service.ejections.count,
                last: service.ejections.last.clone(),
            },
            users: UserStatus::all(service, shown_uid),
            journal_error: service.reservations.journal_error.clone(),
        })
    }
}

/// Those that only ask for something, as the command does, are none.
fn programs(service: &Service) -> usize {
    let all = service.clients.iter();
    all.filter(|(_, client)| client.number.is_some()).count()
}

fn kernel_release() -> String {
    nix::sys::utsname::uname()
        .map(|name| name.release().to_string_lossy().into_owned())
        .unwrap_or_default()
}

impl DomainPage {
    /// The domains after number `after` that user `shown_uid` has, or everybody.
    pub fn of(service: &Service, shown_uid: Option<u32>, after: Option<u32>) -> Self {
        let shown = |domain: &Domain| shown_uid.is_none_or(|uid| uid == domain.uid);
        let mut found: Vec<_> = service
            .domains
            .iter()
            .filter(|(id, domain)| shown(domain) && after.is_none_or(|after| *id > after))
            .collect();
        found.sort_by_key(|(id, _)| *id);

        let mut members = members_by_domain(service);
        let domains = found.into_iter().map(|(id, domain)| DomainStatus {
            id,
            name: domain.name.clone(),
            uid: domain.uid,
            order: order_name(domain.options.order).unwrap_or("unknown"),
            preempt: domain.options.flags & CONSORT_JOIN_PREEMPT != 0,
            event_ns: domain.options.event_ns,
            members: members.remove(&id).unwrap_or_default(),
        });
        let (domains, more) = first_page(domains);
        DomainPage { domains, more }
    }
}

impl ClientPage {
    /// The programs after connection `after` that user `shown_uid` has, or everybody.
    pub fn of(service: &Service, shown_uid: Option<u32>, after: Option<ConnectionId>) -> Self {
        let shown = |client: &Client| shown_uid.is_none_or(|uid| uid == client.peer.uid);
        let found = service
            .clients
            .iter()
            .filter(|(id, client)| shown(client) && after.is_none_or(|after| *id > after));
        let clients = found.map(|(connection, client)| ClientStatus {
            connection,
            client: client.number,
            pid: client.peer.pid,
            uid: client.peer.uid,
            command: client.peer.command.clone(),
            members: members_of(service, client),
        });
        let (clients, more) = first_page(clients);
        ClientPage { clients, more }
    }
}

fn members_of(service: &Service, client: &Client) -> Vec<MemberStatus> {
    let number = client.number.unwrap_or_default();
    let status = |(slot, member): (&u32, &Member)| {
        let tardiness = service.host.tardiness(number, *slot);
        let pid = client.peer.pid;
        MemberStatus {
            tid: member.thread.tid,
            slot: *slot,
            domain: member.domain,
            why: tardiness.and_then(why),
            tardiness,
            used_ns: service.processes.used_ns(pid, member.thread.tid),
        }
    };
    client.members.iter().map(status).collect()
}

fn why(told: Tardiness) -> Option<String> {
    match told.why {
        CONSORT_WHY_POLLED_LATE => Some(format!(
            "polled {:.3} ms after its yield-by time",
            told.why_late_ns as f64 / 1e6
        )),
        CONSORT_WHY_SLEPT => Some("slept outside of poll".to_owned()),
        _ => None,
    }
}

fn members_by_domain(service: &Service) -> HashMap<u32, Vec<i32>> {
    let mut members = HashMap::<u32, Vec<i32>>::new();
    for (_, client) in service.clients.iter() {
        for member in client.members.values() {
            let tid = member.thread.tid;
            members.entry(member.domain).or_default().push(tid);
        }
    }
    members
}
