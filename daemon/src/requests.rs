// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers requests: HELLO, JOIN, LEAVE. Each is refused with an errno and a text, or done completely.

use std::{os::fd::OwnedFd, time::Instant};

use crate::{
    audit,
    clients::{ConnectionId, Member},
    control,
    domains::{self, Domain},
    ejection::Mode,
    lending::Back,
    peer::{Peer, Thread},
    safe,
    service::Service,
    targets::Named,
    wire::{self, Join, Malformed, Message, Reply, Request},
    Refusal,
};
use consort_abi::{
    CONSORT_ANNOUNCE, CONSORT_CONTROL, CONSORT_HELLO, CONSORT_JOIN, CONSORT_LEAVE, CONSORT_LEND,
    CONSORT_RECOLLECT, CONSORT_RELEASE, CONSORT_RESERVE, CONSORT_SLOTS, CONSORT_USAGE,
};
use consort_kernel::{DomainLabel, DomainOptions, JoinArgs};
use nix::errno::Errno;

/// What the connection does after a message was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Listen,
    /// The user asks too fast: leave the connection unread for a while.
    Pause,
    Close,
    /// Another daemon takes over: nobody is answered any more.
    HandOver,
}

/// A CONTROL request counts as this many others: it looks at everything.
const CONTROL_COST: u32 = 10;

/// A page costs the kernel some time, and is never given out twice.
const HELLO_COST: u32 = 5;

/// What a granted request adds to the reply.
#[derive(Default)]
struct Granted {
    client: u32,
    page: Option<OwnedFd>,
    rest: Vec<u8>,
}

impl Granted {
    fn reservation(number: u32) -> Self {
        Granted {
            client: number,
            ..Granted::default()
        }
    }
}

impl Service {
    /// Answers one message. `length` is its true length, which exceeds `bytes` when it was too long.
    pub fn handle(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        length: usize,
        now: Instant,
    ) -> (Reply, Next) {
        let parsed = wire::parse(bytes, length);
        let version = match &parsed {
            Ok(message) => message.version,
            Err(malformed) => malformed.version,
        };
        let (mut reply, next) = self.answer(id, parsed, length, now);
        reply.version = version;
        (reply, next)
    }

    fn answer(
        &mut self,
        id: ConnectionId,
        parsed: Result<Message, Malformed>,
        length: usize,
        now: Instant,
    ) -> (Reply, Next) {
        self.totals.requests += 1;
        let Some(peer) = self.clients.get(id).map(|client| client.peer.clone()) else {
            let refusal = Refusal::new(Errno::EPROTO, "this connection was closed: connect again");
            self.totals.refusals += 1;
            return (Reply::refused(0, &refusal), Next::Close);
        };
        let told = &mut self.users.entry(peer.uid, now).told;
        told.messages += 1;
        told.bytes += length as u64;
        let parsed = parsed.map(|message| message.request);
        // What is no request is one more all the same.
        let (kind, admitted) = match &parsed {
            Ok(request @ Request::Control { .. }) => {
                (kind_of(request), self.users.admit_command(peer.uid, now))
            }
            Ok(request) => (kind_of(request), self.users.admit_request(peer.uid, now)),
            Err(malformed) => (malformed.kind, self.users.admit_request(peer.uid, now)),
        };
        if let Err(refusal) = admitted {
            return (self.refused(peer.uid, kind, &refusal, now), Next::Pause);
        }
        let request = match parsed {
            Ok(request) => request,
            Err(malformed) => {
                let next = match malformed.close {
                    true => Next::Close,
                    false => Next::Listen,
                };
                audit::refused(self, &peer, kind, &malformed.refusal, now);
                return (self.refused(peer.uid, kind, &malformed.refusal, now), next);
            }
        };
        let outcome = self.check_mode(&request).and_then(|()| match request {
            Request::Hello => {
                self.users.charge(peer.uid, HELLO_COST - 1);
                self.users.charge_page(peer.uid, now);
                self.hello(id)
            }
            Request::Join(join) => self.join(id, &peer, &join, now),
            Request::Leave { tid, slot } => self.leave(id, &peer, tid, slot, now),
            Request::Announce { tid, slot, name } => self
                .announce((id, &peer), (tid, slot), &name, now)
                .map(|client| Granted {
                    client,
                    ..Granted::default()
                }),
            Request::Reserve(ask) => self.reserve(&peer, &ask).map(Granted::reservation),
            Request::Release { number, scope } => self
                .release(&peer, &Named::Number { number, scope })
                .map(Granted::reservation),
            Request::Lend { to, rate } => {
                self.lend(&peer, 0, to, rate).map(|()| Granted::default())
            }
            Request::Recollect { to, rate } => self
                .take_back(&peer, Back { from: 0, to, rate })
                .map(|()| Granted::default()),
            Request::Usage { number, scope } => self
                .usage_of(&peer, &Named::Number { number, scope })
                .map(|usage| Granted {
                    rest: wire::usage_rest(&usage),
                    ..Granted::default()
                }),
            Request::Control { text } => {
                if peer.uid != 0 {
                    self.users.charge(peer.uid, CONTROL_COST - 1);
                }
                control::answer(self, &peer, &text).map(|rest| Granted {
                    rest,
                    ..Granted::default()
                })
            }
        });
        let reply = match outcome {
            Ok(granted) => Reply {
                kind,
                client: granted.client,
                page: granted.page,
                rest: granted.rest,
                ..Reply::default()
            },
            Err(refusal) => {
                audit::refused(self, &peer, kind, &refusal, now);
                self.refused(peer.uid, kind, &refusal, now)
            }
        };
        let next = match std::mem::take(&mut self.hands_over) {
            true => Next::HandOver,
            false => Next::Listen,
        };
        (reply, next)
    }

    /// In safe mode programs are on their own, and only the command is answered.
    fn check_mode(&self, request: &Request) -> Result<(), Refusal> {
        let doing = match request {
            Request::Control { .. } => return Ok(()),
            _ if self.host.mode() == Mode::Full => return Ok(()),
            Request::Hello | Request::Join(_) | Request::Leave { .. } => "join a domain",
            Request::Announce { .. } => "use groups",
            _ => "use reservations",
        };
        Err(safe::refusal(doing))
    }

    fn refused(&mut self, uid: u32, kind: u16, refusal: &Refusal, now: Instant) -> Reply {
        self.totals.refusals += 1;
        self.users.entry(uid, now).told.refusals += 1;
        Reply::refused(kind, refusal)
    }

    fn hello(&mut self, id: ConnectionId) -> Result<Granted, Refusal> {
        if let Some(number) = self.clients.get(id).and_then(|client| client.number) {
            let text =
                format!("this connection already has page {number}: say HELLO once per connection");
            return Err(Refusal::new(Errno::EISCONN, text));
        }
        let page = self.host.client_page()?;
        self.host.set_answering(page.client);
        self.clients.set_number(id, page.client);
        Ok(Granted {
            client: page.client,
            page: Some(page.descriptor),
            ..Granted::default()
        })
    }

    fn join(
        &mut self,
        id: ConnectionId,
        peer: &Peer,
        join: &Join,
        now: Instant,
    ) -> Result<Granted, Refusal> {
        let client = self.number_of(id)?;
        check_slot(join.slot)?;
        let name = domains::parse_name(&join.domain)?;
        let options = DomainOptions {
            event_ns: join.event_ns,
            order: join.order,
            flags: join.flags,
        };
        domains::check_options(options)?;
        let (cost, thread) = self.processes.thread(peer, join.tid);
        // The first look-up is part of the request.
        self.users.charge(peer.uid, cost.saturating_sub(1));
        let thread = thread?;
        let partial = self.host.partial();
        self.processes.check_scheduled(peer.pid, thread, partial)?;
        self.check_vacant(id, join.slot, thread, now)?;
        self.check_nameless(thread)?;
        self.users.check_members(peer.uid, now)?;

        let domain = self.domain_for(peer.uid, name, options, now)?;
        let args = JoinArgs {
            thread,
            client,
            slot: join.slot,
            domain,
        };
        if let Err(error) = self.host.join(args) {
            self.remove_domain_if_empty(domain, now);
            return Err(explain_join(error, thread.tid));
        }
        let details = format!(
            "thread {} in domain {}",
            thread.tid,
            String::from_utf8_lossy(&join.domain)
        );
        audit::done(self, peer, "join", &details);
        self.admit_member(
            id,
            peer.uid,
            join,
            Member {
                thread,
                named: join.tid,
                domain,
            },
            now,
        );
        Ok(Granted {
            client,
            ..Granted::default()
        })
    }

    fn admit_member(
        &mut self,
        id: ConnectionId,
        uid: u32,
        join: &Join,
        member: Member,
        now: Instant,
    ) {
        self.totals.joins += 1;
        self.users.entry(uid, now).members += 1;
        if let Some(domain) = self.domains.get_mut(member.domain) {
            domain.members += 1;
        }
        self.clients.add_member(id, join.slot, member);
    }

    fn leave(
        &mut self,
        id: ConnectionId,
        peer: &Peer,
        tid: i32,
        slot: u32,
        now: Instant,
    ) -> Result<Granted, Refusal> {
        let client = self.number_of(id)?;
        check_slot(slot)?;
        if self.leave_name(id, slot).is_some() {
            return Ok(Granted {
                client,
                ..Granted::default()
            });
        }
        let Some((_, member)) = self.clients.member((id, slot)) else {
            let text = format!("slot {slot} has no member: join before leaving");
            return Err(Refusal::new(Errno::ENOENT, text));
        };
        let member = *member;
        // The number that was used to join is accepted without a look-up: the thread may have ended.
        if member.named != tid {
            let (cost, thread) = self.processes.thread(peer, tid);
            self.users.charge(peer.uid, cost.saturating_sub(1));
            if thread? != member.thread {
                let text = format!(
                    "slot {slot} belongs to thread {}, not {tid}: leave with the slot that the thread joined with",
                    member.named
                );
                return Err(Refusal::new(Errno::EINVAL, text));
            }
        }
        self.totals.leaves += 1;
        self.remove_member(id, slot, now);
        Ok(Granted {
            client,
            ..Granted::default()
        })
    }

    pub(crate) fn number_of(&self, id: ConnectionId) -> Result<u32, Refusal> {
        self.number_at(id).ok_or_else(|| {
            Refusal::new(
                Errno::ENOTCONN,
                "this connection has no page: say HELLO first and map the page",
            )
        })
    }

    /// Checks that neither the slot nor the thread is in use by a living member.
    pub(crate) fn check_vacant(
        &mut self,
        id: ConnectionId,
        slot: u32,
        thread: Thread,
        now: Instant,
    ) -> Result<(), Refusal> {
        if let Some(place) = self.clients.place_of(thread.tid) {
            if !self.remove_if_dead(place, now) {
                let text = format!(
                    "thread {} is already a member, in slot {}: leave before joining again",
                    thread.tid, place.1
                );
                return Err(Refusal::new(Errno::EEXIST, text));
            }
        }
        let announced = self.groups.names.at(id, slot);
        if announced.is_none() && self.remove_if_dead((id, slot), now) {
            return Ok(());
        }
        let text = format!("slot {slot} has another member: take a free slot of the page");
        Err(Refusal::new(Errno::EBUSY, text))
    }

    /// The domain to join: the named one when it exists, else a new one.
    fn domain_for(
        &mut self,
        uid: u32,
        name: Option<String>,
        options: DomainOptions,
        now: Instant,
    ) -> Result<u32, Refusal> {
        let existing = name
            .as_deref()
            .and_then(|name| self.domains.find(uid, name));
        if let Some((id, domain)) = existing.and_then(|id| Some((id, self.domains.get(id)?))) {
            domain.check_same(options)?;
            return Ok(id);
        }
        self.users.check_domains(uid, now)?;
        let options = domains::complete(options);
        let label = DomainLabel {
            uid,
            name: name.clone().unwrap_or_default(),
            options,
        };
        let id = self.host.create_domain(&label)?;
        let domain = Domain {
            uid,
            name,
            options,
            members: 0,
        };
        self.domains.insert(id, domain);
        self.users.add_domain(uid, now);
        Ok(id)
    }

    fn remove_domain_if_empty(&mut self, id: u32, now: Instant) {
        if self
            .domains
            .get(id)
            .is_some_and(|domain| domain.members == 0)
        {
            self.remove_domain(id, now);
        }
    }
}

fn kind_of(request: &Request) -> u16 {
    let kind = match request {
        Request::Hello => CONSORT_HELLO,
        Request::Join(_) => CONSORT_JOIN,
        Request::Announce { .. } => CONSORT_ANNOUNCE,
        Request::Leave { .. } => CONSORT_LEAVE,
        Request::Control { .. } => CONSORT_CONTROL,
        Request::Reserve(_) => CONSORT_RESERVE,
        Request::Release { .. } => CONSORT_RELEASE,
        Request::Lend { .. } => CONSORT_LEND,
        Request::Recollect { .. } => CONSORT_RECOLLECT,
        Request::Usage { .. } => CONSORT_USAGE,
    };
    kind as u16
}

pub(crate) fn check_slot(slot: u32) -> Result<(), Refusal> {
    if slot < CONSORT_SLOTS {
        return Ok(());
    }
    let text = format!(
        "slot {slot} is not in the page: expected 0 to {}",
        CONSORT_SLOTS - 1
    );
    Err(Refusal::new(Errno::EINVAL, text))
}

/// The scheduler's own refusals of a join, in words for a program's author.
fn explain_join(error: consort_kernel::Error, tid: i32) -> Refusal {
    match Errno::from_raw(error.errno()) {
        Errno::ESRCH => Refusal::new(
            Errno::ESRCH,
            format!("thread {tid} is not under the scheduler: it may be ending"),
        ),
        Errno::EEXIST => Refusal::new(
            Errno::EEXIST,
            format!("thread {tid} is already a member: leave before joining again"),
        ),
        _ => error.into(),
    }
}
