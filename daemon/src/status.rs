// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `consort status --json` shows. Fields are only ever added; `version` rises when one changes meaning.
//!
//! The command puts the three parts together: the fields of [`Status`], and the lists `domains` and `clients`.

use std::collections::HashMap;

use consort_abi::CONSORT_JOIN_PREEMPT;
use consort_kernel::{Counters, Tunables};
use serde::Serialize;

use crate::{
    clients::{Client, ConnectionId, Member},
    domains::{order_name, Domain},
    ejection::{Ejection, Mode},
    service::{Service, Totals},
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
    /// Everybody's, now.
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
}

/// Members, domains and clients listed in a page: keeps an answer below [`crate::wire::ANSWER_BYTES_MAX`].
const PAGE_ITEMS: usize = 200;

impl Status {
    /// Describes `service`.
    ///
    /// # Errors
    /// When the scheduler's counters cannot be read.
    pub fn of(service: &Service) -> Result<Self, Refusal> {
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
            },
            tunables: service.host.tunables(),
            counters: service.host.counters()?,
            daemon: DaemonStatus {
                version: env!("CARGO_PKG_VERSION"),
                pid: std::process::id(),
                uptime_s: service.started.elapsed().as_secs(),
                clients: service.clients.len(),
                domains: service.domains.len(),
                members: service.clients.members(),
                totals: service.totals,
            },
            ejections: EjectionsStatus {
                count: service.ejections.count,
                last: service.ejections.last.clone(),
            },
        })
    }
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

        let (taken, more) = first_page(found, |(_, domain)| domain.members);
        let mut members = members_by_domain(service);
        let domains = taken.into_iter().map(|(id, domain)| DomainStatus {
            id,
            name: domain.name.clone(),
            uid: domain.uid,
            order: order_name(domain.options.order).unwrap_or("unknown"),
            preempt: domain.options.flags & CONSORT_JOIN_PREEMPT != 0,
            event_ns: domain.options.event_ns,
            members: members.remove(&id).unwrap_or_default(),
        });
        DomainPage {
            domains: domains.collect(),
            more,
        }
    }
}

impl ClientPage {
    /// The programs after connection `after` that user `shown_uid` has, or everybody.
    pub fn of(service: &Service, shown_uid: Option<u32>, after: Option<ConnectionId>) -> Self {
        let shown = |client: &Client| shown_uid.is_none_or(|uid| uid == client.peer.uid);
        let found = service
            .clients
            .iter()
            .filter(|(id, client)| shown(client) && after.is_none_or(|after| *id > after))
            .collect();
        let (taken, more) = first_page(found, |(_, client)| client.members.len());
        let clients = taken.into_iter().map(|(connection, client)| ClientStatus {
            connection,
            client: client.number,
            pid: client.peer.pid,
            uid: client.peer.uid,
            command: client.peer.command.clone(),
            members: client.members.iter().map(member_status).collect(),
        });
        ClientPage {
            clients: clients.collect(),
            more,
        }
    }
}

fn member_status((slot, member): (&u32, &Member)) -> MemberStatus {
    MemberStatus {
        tid: member.thread.tid,
        slot: *slot,
        domain: member.domain,
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

/// The first of `entries` that fit into a page, at least one, and whether there are more. An entry counts for
/// itself and its members.
fn first_page<T>(mut entries: Vec<T>, members: impl Fn(&T) -> usize) -> (Vec<T>, bool) {
    let mut items = 0;
    let mut fits = |entry: &T| {
        items += 1 + members(entry);
        items <= PAGE_ITEMS
    };
    let fitting = entries.iter().take_while(|entry| fits(entry)).count();
    let taken = fitting.max(1).min(entries.len());
    let more = taken < entries.len();
    entries.truncate(taken);
    (entries, more)
}
