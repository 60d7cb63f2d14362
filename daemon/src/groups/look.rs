// SPDX-License-Identifier: MIT OR Apache-2.0
//! One look at a process: threads that a member has room for get that member's name. Whatever a process is like, a look reads
//! no more than there is room, and ends in time; the next one goes on where it stopped.

use std::{collections::HashMap, time::Duration, time::Instant};

use consort_groups::rule::Rule;
use tracing::debug;

use super::{
    names::{Known, Source},
    scan::Wanted,
    store::Launched,
    GroupId,
};
use crate::{peer::Thread, procfs, server::cpu_time, service::Service};

/// Threads of one process that are looked at in one go, and how many of them however little time there is: to list them may
/// take all of it.
const LOOK_THREADS: usize = 512;
const LOOK_FREELY: usize = 32;

/// Rules that a process fits, by what they ask of its threads: a user may have thousands of both.
struct ByThread<'a> {
    /// With their places in the order of the files.
    named: HashMap<&'a str, Vec<(usize, &'a Wanted)>>,
    any: Vec<(usize, &'a Wanted)>,
}

impl<'a> ByThread<'a> {
    fn of(wanted: &[&'a Wanted]) -> Self {
        let mut rules = ByThread {
            named: HashMap::new(),
            any: Vec::new(),
        };
        for (order, one) in wanted.iter().enumerate() {
            match &one.rule.thread {
                Some(thread) => rules.named.entry(thread).or_default().push((order, one)),
                None => rules.any.push((order, one)),
            }
        }
        rules
    }

    /// The first rule that a thread of that name fits and whose member has room.
    fn first(&self, thread: &str, has_room: impl Fn(&Wanted) -> bool) -> Option<&'a Wanted> {
        let free =
            |rules: &[(usize, &'a Wanted)]| rules.iter().find(|(_, one)| has_room(one)).copied();
        let named = self.named.get(thread).and_then(|rules| free(rules));
        let both = [named, free(&self.any)];
        let first = both.into_iter().flatten().min_by_key(|(order, _)| *order);
        first.map(|(_, one)| one)
    }
}

/// Seats that nobody has, of members that have any.
struct Room(HashMap<(GroupId, usize), usize>);

impl Room {
    fn has(&self, one: &Wanted) -> bool {
        self.0.contains_key(&one.place)
    }

    fn take(&mut self, one: &Wanted) {
        match self.0.get_mut(&one.place) {
            Some(free) if *free > 1 => *free -= 1,
            _ => drop(self.0.remove(&one.place)),
        }
    }
}

impl Service {
    /// Names threads of one process; stops when this thread's CPU time is `until`.
    pub(super) fn look_at(&mut self, pid: i32, wanted: &[Wanted], until: Duration) {
        let launched = self.groups.scan.launched.get(&pid);
        match launched.filter(|one| self.processes.is_process(pid, one.start)) {
            Some(launched) => self.look_at_launched(launched.clone(), until),
            None => self.look_by_rules(pid, wanted, until),
        }
    }

    fn look_at_launched(&mut self, launched: Launched, until: Duration) {
        let Launched {
            pid,
            start,
            uid,
            name,
        } = launched;
        let Some(place) = self.groups.member(uid, &name) else {
            return;
        };
        let all = Wanted {
            place,
            uid,
            of: uid,
            name,
            rule: Rule::default(),
        };
        let has_room = self.room(&[&all]).has(&all);
        if !has_room || !self.users.may_look(uid, Instant::now()) {
            return;
        }
        if self.is_still_of(pid, uid) {
            self.name_threads((pid, start), &[&all], Source::Launched, until);
        }
    }

    fn look_by_rules(&mut self, pid: i32, wanted: &[Wanted], until: Duration) {
        if wanted.is_empty() {
            return;
        }
        // One look at a stranger's process is all that it takes of anybody's time.
        let folder_is_of = self.processes.seems_to_be_of(pid);
        let may_be_of = |one: &Wanted| {
            let account = |uid: u32| self.users.account(uid);
            folder_is_of.is_some_and(|uid| uid == 0 || account(uid) == account(one.of))
        };
        if !wanted.iter().any(may_be_of) {
            return;
        }
        let folder = self.processes.root().join(pid.to_string());
        let Some(start) = procfs::start_time(&folder) else {
            return;
        };
        let owner = self.processes.owner(pid);
        let wanted = wanted.iter().filter(|one| owner == Some(one.of));
        let wanted: Vec<&Wanted> = wanted.collect();
        if wanted.is_empty() || procfs::is_kernel_thread(&folder) {
            return;
        }
        let Some(facts) = self.processes.facts(pid) else {
            return;
        };
        let may_fit = |one: &&&Wanted| {
            let thread = one.rule.thread.as_deref().unwrap_or_default();
            one.rule.fits(&facts.candidate(thread))
        };
        let wanted: Vec<&Wanted> = wanted.iter().filter(may_fit).copied().collect();
        self.name_threads((pid, start), &wanted, Source::Rule, until);
    }

    fn room(&self, wanted: &[&Wanted]) -> Room {
        let free = |place: (GroupId, usize)| {
            let seats = self.groups.made.get(&place.0)?.seats.get(place.1)?;
            Some(seats.iter().filter(|seat| seat.is_none()).count())
        };
        let rooms = wanted.iter().filter_map(|one| {
            let free = free(one.place).filter(|free| *free > 0)?;
            Some((one.place, free))
        });
        Room(rooms.collect())
    }

    /// Names as many threads of a process as the members that want them have room for.
    fn name_threads(
        &mut self,
        (pid, began): (i32, u64),
        wanted: &[&Wanted],
        source: Source,
        until: Duration,
    ) {
        let (rules, mut room) = (ByThread::of(wanted), self.room(wanted));
        let mut last = self.groups.scan.stopped.remove(&pid).unwrap_or_default();
        if room.0.is_empty() {
            return;
        }
        let mut found: Vec<(Thread, &Wanted)> = Vec::new();
        for (looked, tid) in self.nameless(pid, last).into_iter().enumerate() {
            if room.0.is_empty() {
                break;
            }
            let is_late = looked >= LOOK_FREELY && cpu_time() > until;
            if looked == LOOK_THREADS || is_late {
                self.groups.scan.stopped.insert(pid, last);
                break;
            }
            last = tid;
            let name = match rules.named.is_empty() {
                true => String::new(),
                false => self.processes.thread_name(pid, tid).unwrap_or_default(),
            };
            let Some(one) = rules.first(&name, |one| room.has(one)) else {
                continue;
            };
            if let Some(thread) = self.processes.living_thread(pid, tid) {
                room.take(one);
                found.push((thread, one));
            }
        }
        // Their numbers may have become others' since they were looked at.
        if self.processes.is_process(pid, began) {
            for (thread, one) in found {
                self.name_thread(pid, thread, one, source);
            }
        }
    }

    /// Threads of a process, from the one after `last` on, that have no name, and are members of no domain: each once. The
    /// kernel lists the newest last, so that a number is there twice when its thread ends meanwhile and a new one gets it.
    fn nameless(&self, pid: i32, last: i32) -> Vec<i32> {
        let mut threads = self.processes.all_threads(pid);
        threads.retain(|tid| {
            *tid > last
                && self.groups.names.get(*tid).is_none()
                && self.clients.place_of(*tid).is_none()
        });
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// A thread gets a member's name if its user may have one more.
    fn name_thread(&mut self, pid: i32, thread: Thread, one: &Wanted, source: Source) {
        let now = Instant::now();
        if self.users.check_members(one.uid, now).is_err() {
            return;
        }
        let (tid, name) = (thread.tid, one.name.clone());
        debug!(tid, name, "a thread has been found");
        self.learn(
            Known {
                uid: one.uid,
                pid,
                thread,
                name,
                source,
                bound: None,
                refused: None,
            },
            now,
        );
    }
}
