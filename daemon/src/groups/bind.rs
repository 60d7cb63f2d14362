// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads get names and lose them, and are bound to the members that are called so: whichever of thread and group comes
//! first waits for the other (003 section 3.1.3, rendezvous).

use std::time::Instant;

use consort_groups::function::Function;
use consort_kernel::{Error, Membership};
use nix::errno::Errno;
use tracing::debug;

use super::{
    host::Bind,
    names::{Known, Source},
    FileKey, GroupId, Made,
};
use crate::{
    audit,
    clients::ConnectionId,
    peer::{Peer, Thread},
    requests::check_slot,
    service::Service,
    Refusal,
};

/// Threads with names that are looked at in each tick: bounds what it costs.
const SWEEP_NAMES: usize = 256;

impl Service {
    /// A thread of a program says its name.
    ///
    /// # Errors
    /// Those of a join, but for what concerns domains.
    pub(crate) fn announce(
        &mut self,
        (id, peer): (ConnectionId, &Peer),
        (named, slot): (i32, u32),
        name: &[u8],
        now: Instant,
    ) -> Result<u32, Refusal> {
        let client = self.number_of(id)?;
        check_slot(slot)?;
        let name = check_name(name)?;
        let (cost, thread) = self.processes.thread(peer, named);
        // The first look-up is part of the request.
        self.users.charge(peer.uid, cost.saturating_sub(1));
        let thread = thread?;
        let partial = self.host.partial();
        self.processes.check_scheduled(peer.pid, thread, partial)?;
        self.check_vacant(id, slot, thread, now)?;
        self.check_nameless(thread)?;
        self.users.check_members(peer.uid, now)?;
        let details = format!("thread {} is {name}", thread.tid);
        self.learn(
            Known {
                uid: peer.uid,
                pid: peer.pid,
                thread,
                name,
                source: Source::Announced {
                    connection: id,
                    client,
                    slot,
                    named,
                },
                bound: None,
                refused: None,
            },
            now,
        );
        self.note_announced(thread.tid);
        audit::done(self, peer, "announce", &details);
        Ok(client)
    }

    /// Checks that a thread may say what it is, or join: it has said nothing else. What was found by rule gives way.
    pub(crate) fn check_nameless(&mut self, thread: Thread) -> Result<(), Refusal> {
        match self.groups.names.get(thread.tid) {
            None => Ok(()),
            Some(known) if known.thread == thread && is_announced(known) => {
                let text = format!(
                    "thread {} is called {} already: leave before it is called otherwise, or joins",
                    thread.tid, known.name
                );
                Err(Refusal::new(Errno::EEXIST, text))
            }
            Some(_) => {
                self.forget_name(thread.tid);
                Ok(())
            }
        }
    }

    /// Ends what a slot's thread has announced; `None`: it has not.
    pub(crate) fn leave_name(&mut self, id: ConnectionId, slot: u32) -> Option<()> {
        let tid = self.groups.names.at(id, slot)?;
        self.forget_name(tid);
        Some(())
    }

    /// Takes back all names that came through a connection.
    pub(crate) fn forget_names_of(&mut self, id: ConnectionId) {
        for slot in self.groups.names.slots_of(id) {
            self.leave_name(id, slot);
        }
    }

    /// A thread has a name from now on, and is bound if a member is called so and has room.
    pub(super) fn learn(&mut self, known: Known, now: Instant) {
        self.users.entry(known.uid, now).members += 1;
        let member = self.groups.member(known.uid, &known.name);
        let tid = known.thread.tid;
        self.groups.names.insert(known);
        if let Some((id, index)) = member {
            self.bind_if_free(tid, (id, index));
        }
    }

    /// A thread has its name no longer; the one that waits for its place gets it.
    pub(super) fn forget_name(&mut self, tid: i32) {
        let place = self.groups.names.get(tid).and_then(|known| known.bound);
        self.unbind(tid);
        if let Some(known) = self.groups.names.remove(tid) {
            self.users.entry(known.uid, Instant::now()).members -= 1;
            if is_announced(&known) {
                self.drop_announced(tid);
            }
        }
        if let Some((id, index)) = place {
            self.settle_member(id, index);
        }
    }

    /// Binds whom a file's members have room for, and unbinds whom they have not any more.
    pub(super) fn settle_file(&mut self, key: &FileKey) {
        let groups = self.groups.files.get(key).map(|file| &file.groups);
        let mut numbers: Vec<GroupId> = groups.into_iter().flatten().map(|(_, id)| *id).collect();
        numbers.sort_unstable();
        for id in numbers {
            let members = self.groups.made.get(&id).map_or(0, |made| made.seats.len());
            for index in 0..members {
                self.refit(id, index);
                self.forgive(id, index);
                self.settle_member(id, index);
            }
        }
        self.forget_unwanted(key.uid);
        self.scan_anew();
    }

    /// What the scheduler had against a member's threads was about its group as it was.
    fn forgive(&mut self, id: GroupId, index: usize) {
        let Some(made) = self.groups.made.get(&id) else {
            return;
        };
        let names = &mut self.groups.names;
        let named = names.of(made.file.uid, &made.group.members[index].name);
        let all: Vec<i32> = named.map(|(tid, _)| tid).collect();
        for tid in all {
            if let Some(known) = names.get_mut(tid) {
                known.refused = None;
            }
        }
    }

    /// Those that the scheduler refused are tried again one by one, whichever threads come and go meanwhile.
    fn settle_member(&mut self, id: GroupId, index: usize) {
        let Some(made) = self.groups.made.get(&id) else {
            return;
        };
        let named = self
            .groups
            .names
            .of(made.file.uid, &made.group.members[index].name);
        let waits = named.filter(|(_, known)| known.bound.is_none() && known.refused.is_none());
        let waiting: Vec<i32> = waits.map(|(tid, _)| tid).collect();
        for tid in waiting {
            if !self.bind_if_free(tid, (id, index)) {
                break;
            }
        }
    }

    /// Forgets threads that only a rule named whose member has gone.
    fn forget_unwanted(&mut self, uid: u32) {
        let all = self.groups.names.after(i32::MIN);
        let unwanted = all.filter(|(_, known)| {
            known.uid == uid
                && !is_announced(known)
                && self.groups.member(uid, &known.name).is_none()
        });
        let unwanted: Vec<i32> = unwanted.map(|(tid, _)| tid).collect();
        for tid in unwanted {
            self.forget_name(tid);
        }
    }

    /// Forgets threads of a member that were found by a rule which says something else now.
    fn refit(&mut self, id: GroupId, index: usize) {
        let Some(made) = self.groups.made.get(&id) else {
            return;
        };
        let named = self
            .groups
            .names
            .of(made.file.uid, &made.group.members[index].name);
        let found = named.filter(|(_, known)| known.source == Source::Rule);
        let found: Vec<i32> = found.map(|(tid, _)| tid).collect();
        for tid in found {
            if !self.still_fits(tid) {
                self.forget_name(tid);
            }
        }
    }

    fn still_fits(&self, tid: i32) -> bool {
        let Some(known) = self.groups.names.get(tid) else {
            return false;
        };
        let member = self.groups.member(known.uid, &known.name);
        let member =
            member.and_then(|(id, index)| self.groups.made.get(&id)?.group.members.get(index));
        let rule = member.and_then(|member| member.rule.as_ref());
        let facts = self.processes.facts(known.pid);
        let thread = self.processes.thread_name(known.pid, tid);
        match (rule, facts, thread) {
            (Some(rule), Some(facts), Some(thread)) => rule.fits(&facts.candidate(&thread)),
            _ => false,
        }
    }

    /// False when the member has no room.
    fn bind_if_free(&mut self, tid: i32, (id, index): (GroupId, usize)) -> bool {
        let made = self.groups.made.get(&id);
        let known = self.groups.names.get(tid);
        let Some((made, known)) = made.zip(known) else {
            return false;
        };
        let Some(seat) = made.free(index) else {
            return false;
        };
        let Some(args) = args(made, (index, seat), known) else {
            return false;
        };
        let is_member = self.clients.place_of(tid).is_some();
        let bound = match is_member {
            true => Err("it has joined a domain: it leaves that first".to_owned()),
            false => self.host.bind(args).map_err(|error| explain(&error)),
        };
        let groups = &mut self.groups;
        let (Some(made), Some(known)) = (groups.made.get_mut(&id), groups.names.get_mut(tid))
        else {
            return false;
        };
        match bound {
            Ok(()) => {
                debug!(tid, name = known.name, "bound");
                known.bound = Some((id, index));
                known.refused = None;
                made.seats[index][seat] = Some(tid);
            }
            Err(why) => known.refused = Some(why),
        }
        true
    }

    /// A thread is nobody's member any more, and keeps its name.
    pub(super) fn unbind(&mut self, tid: i32) {
        let groups = &mut self.groups;
        let Some(known) = groups.names.get_mut(tid) else {
            return;
        };
        let Some((id, index)) = known.bound.take() else {
            return;
        };
        let Some(made) = groups.made.get_mut(&id) else {
            return;
        };
        let Some(seat) = made.seat_of(index, tid) else {
            return;
        };
        made.seats[index][seat] = None;
        let Some(bind) = args(made, (index, seat), known) else {
            return;
        };
        let (client, slot) = bind.page.filter(|_| bind.polls).unwrap_or_default();
        let place = Membership {
            client,
            slot,
            domain: bind.group,
        };
        let whose = (known.pid, bind.thread);
        self.take_out(whose, place, |host, thread| {
            host.unbind(Bind { thread, ..bind })
        });
    }

    /// Called a few times a second: forgets threads that ended, binds those that were refused if they can be now, and looks
    /// for those that rules name.
    pub(crate) fn tick_groups(&mut self) {
        for id in std::mem::take(&mut self.groups.doomed) {
            self.destroy_group_or_doom(id);
        }
        let swept = self.groups.scan.swept;
        let some = self.groups.names.after(swept).take(SWEEP_NAMES);
        let some: Vec<i32> = some.map(|(tid, _)| tid).collect();
        self.groups.scan.swept = match some.last() {
            Some(last) if some.len() == SWEEP_NAMES => *last,
            _ => i32::MIN,
        };
        for tid in some {
            self.look_after(tid);
        }
        self.scan_some();
    }

    fn look_after(&mut self, tid: i32) {
        let Some(known) = self.groups.names.get(tid) else {
            return;
        };
        if !self.processes.lives(known.pid, known.thread) {
            debug!(tid, "a thread with a name has ended");
            self.forget_name(tid);
        } else if !is_announced(known) && !self.is_still_of(known.pid, known.uid) {
            debug!(tid, "a thread with a name has other rights now");
            self.forget_name(tid);
        } else if known.refused.is_some() {
            self.try_again(tid);
        }
    }

    fn try_again(&mut self, tid: i32) {
        let known = self.groups.names.get(tid);
        let place = known.and_then(|known| self.groups.member(known.uid, &known.name));
        if let Some(place) = place {
            self.bind_if_free(tid, place);
        }
    }
}

fn is_announced(known: &Known) -> bool {
    matches!(known.source, Source::Announced { .. })
}

/// What the scheduler is told of a thread in a seat; `None`: the group has no members there.
fn args(made: &Made, (index, seat): (usize, usize), known: &Known) -> Option<Bind> {
    let first = made.roles(index).map(|roles| roles.start);
    Some(Bind {
        group: made.id?,
        role: first.map(|first| first + seat as u32),
        thread: known.thread,
        page: match known.source {
            Source::Announced { client, slot, .. } => Some((client, slot)),
            Source::Launched | Source::Rule => None,
        },
        polls: matches!(made.group.function, Function::Coop(_)),
    })
}

/// Why the scheduler would not bind a thread, for `consort show`.
fn explain(error: &Error) -> String {
    match Errno::from_raw(error.errno()) {
        Errno::ESRCH => "it is not under the scheduler".to_owned(),
        Errno::EEXIST | Errno::EBUSY => "it is a member of something else".to_owned(),
        Errno::ENXIO => {
            "members of a coop group poll: it has to announce itself through libconsort".to_owned()
        }
        _ => error.to_string(),
    }
}

/// The names that members of group files can have.
pub(super) fn check_name(name: &[u8]) -> Result<String, Refusal> {
    let max = consort_groups::NAME_BYTES_MAX;
    let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    if (1..=max).contains(&name.len()) && name.iter().all(is_good) {
        return Ok(name.iter().map(|byte| char::from(*byte)).collect());
    }
    let text = format!(
        "{:?} cannot be the name of a thread: expected 1 to {max} of a-z, A-Z, 0-9, '-' and '_'",
        String::from_utf8_lossy(name)
    );
    Err(Refusal::new(Errno::EINVAL, text))
}
