// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks for threads that say nothing themselves: those that rules name, and those of processes that `consort run --name`
//! has started. The kernel tells nobody who begins, so all processes are looked at in turn, a bounded number at a time and
//! only while a member has room.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

use consort_groups::rule::{Candidate, Rule};
use consort_rates::accounts::number_in;
use tracing::debug;

use super::{
    names::{Known, Source},
    store::Launched,
    GroupId,
};
use crate::{
    config,
    peer::{self, Processes, Thread},
    server::cpu_time,
    service::Service,
};

/// Processes looked at in one go.
const SCAN_PROCESSES: usize = 64;
/// Threads of one process that are looked at.
const SCAN_THREADS: usize = 512;
/// CPU time of one go: a program that asks something meanwhile waits for it.
const SCAN_TIME: Duration = Duration::from_millis(5);
/// A new process is looked at so often in a row: it becomes its program, and names its threads, a little later.
const LOOKS: u8 = 4;
/// With more processes than these they are listed once a round, else each time.
const LISTED_FREELY: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// All processes as they were listed the last time.
    listed: BTreeSet<i32>,
    /// Those that were new, and how often they will be looked at.
    young: BTreeMap<i32, u8>,
    /// Those that this round has not come to.
    left: Vec<i32>,
    /// By number of the process.
    pub launched: BTreeMap<i32, Launched>,
    /// Where the last sweep over threads with names stopped.
    pub swept: i32,
}

impl Scan {
    /// Takes in a new list of all processes.
    fn list(&mut self, all: BTreeSet<i32>) {
        let new = all.difference(&self.listed);
        self.young.extend(new.map(|pid| (*pid, LOOKS)));
        self.young.retain(|pid, _| all.contains(pid));
        if self.left.is_empty() {
            self.left = all.iter().copied().collect();
        }
        self.listed = all;
    }

    /// Whom to look at now: the new ones, then some of the others.
    fn next(&mut self) -> Vec<i32> {
        let mut next: Vec<i32> = self
            .young
            .keys()
            .rev()
            .take(SCAN_PROCESSES)
            .copied()
            .collect();
        for pid in &next {
            match self.young.get_mut(pid) {
                Some(looks) if *looks > 1 => *looks -= 1,
                _ => drop(self.young.remove(pid)),
            }
        }
        // The old ones get on, however many are new.
        let others = SCAN_PROCESSES
            .saturating_sub(next.len())
            .max(SCAN_PROCESSES / 4);
        let at = self.left.len().saturating_sub(others);
        next.extend(self.left.split_off(at));
        next
    }

    pub fn launched(&self) -> impl Iterator<Item = &Launched> {
        self.launched.values()
    }

    fn forget(&mut self) {
        self.listed.clear();
        self.young.clear();
        self.left.clear();
    }
}

/// A member that has room.
#[derive(Debug)]
pub(super) struct Wanted {
    place: (GroupId, usize),
    /// Whose file it is of.
    uid: u32,
    /// Whose threads it wants.
    of: u32,
    name: String,
    rule: Rule,
}

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

/// What rules ask of a process.
#[derive(Debug)]
pub(super) struct Facts {
    executable: String,
    cgroup: String,
    parent: String,
}

impl Facts {
    pub fn candidate<'a>(&'a self, thread: &'a str) -> Candidate<'a> {
        Candidate {
            executable: &self.executable,
            thread,
            cgroup: &self.cgroup,
            parent: &self.parent,
        }
    }
}

impl Processes {
    /// `None`: it has ended.
    pub(super) fn facts(&self, pid: i32) -> Option<Facts> {
        let folder = self.root().join(pid.to_string());
        let (parent, _) = peer::parent_and_start(&folder)?;
        let parent = peer::read_text(&self.root().join(format!("{parent}/comm")));
        let executable = fs::read_link(folder.join("exe"));
        let cgroups = peer::read_text(&folder.join("cgroup")).unwrap_or_default();
        let cgroup = cgroups.lines().find_map(|line| line.strip_prefix("0::"));
        Some(Facts {
            executable: executable
                .map_or(String::new(), |path| path.to_string_lossy().into_owned()),
            cgroup: cgroup.unwrap_or_default().to_owned(),
            parent: parent.unwrap_or_default().trim_end_matches('\n').to_owned(),
        })
    }

    pub(super) fn thread_name(&self, pid: i32, tid: i32) -> Option<String> {
        let text = peer::read_text(&self.root().join(format!("{pid}/task/{tid}/comm")))?;
        Some(text.trim_end_matches('\n').to_owned())
    }

    /// A first, cheap look at whose a process is: its folder is its effective user's. Where that is another one,
    /// [`Processes::owner`] knows.
    fn seems_of(&self, pid: i32, uid: u32) -> bool {
        let found = fs::metadata(self.root().join(pid.to_string()));
        found.is_ok_and(|found| found.uid() == uid)
    }

    /// Whose a process is: the user that it is in every respect; `None` for a privileged one that a user has started.
    fn owner(&self, pid: i32) -> Option<u32> {
        let owners = peer::status_numbers(&self.root().join(pid.to_string()), "Uid:")?;
        let (first, rest) = owners.split_first()?;
        let is_one = rest.iter().all(|owner| owner == first);
        is_one.then(|| u32::try_from(*first).ok()).flatten()
    }
}

impl Service {
    /// Whether what a user said of a process still is about one of that user's: it may have become a program with other
    /// rights, which is not for that user to direct. Root directs all.
    pub(super) fn is_still_of(&self, pid: i32, uid: u32) -> bool {
        let account = |uid: u32| self.users.account(uid);
        uid == 0
            || self.processes.seems_of(pid, uid)
            || self.processes.owner(pid).map(account) == Some(account(uid))
    }

    /// All processes are looked at again, some of them at once.
    pub(super) fn scan_anew(&mut self) {
        self.groups.scan.forget();
        self.scan_some();
    }

    /// Goes on looking, if there is anything to look for. The owner of the rules pays for it.
    pub(super) fn scan_some(&mut self) {
        let (now, began) = (Instant::now(), cpu_time());
        let wanted = self.wanted(now);
        if self.groups.scan.launched.is_empty() && wanted.is_empty() {
            self.groups.scan.forget();
            return;
        }
        let scan = &self.groups.scan;
        if scan.left.is_empty() || scan.listed.len() <= LISTED_FREELY {
            let all = self.processes.all();
            self.groups.scan.list(all);
            self.forget_ended();
        }
        let (mut next, looks_from) = (self.groups.scan.next().into_iter(), cpu_time());
        for pid in next.by_ref() {
            self.look_at(pid, &wanted);
            if cpu_time().saturating_sub(looks_from) > SCAN_TIME {
                break;
            }
        }
        self.groups.scan.left.extend(next.rev());
        let spent = cpu_time().saturating_sub(began);
        let launched = self.groups.scan.launched().map(|one| one.uid);
        let payers: Vec<u32> = wanted.iter().map(|one| one.uid).chain(launched).collect();
        self.charge_parts(spent, &payers, now);
    }

    /// Divides what was spent among users: each is in `payers` as often as it has something that it was spent for.
    fn charge_parts(&mut self, spent: Duration, payers: &[u32], now: Instant) {
        let mut parts: BTreeMap<u32, u32> = BTreeMap::new();
        for uid in payers {
            *parts.entry(*uid).or_default() += 1;
        }
        for (uid, part) in parts {
            let spent = spent.mul_f64(f64::from(part) / payers.len() as f64);
            self.users.charge_cpu(uid, spent, now);
        }
    }

    /// Members with rules that have room, in the order of their files; not of users whose time is used up.
    fn wanted(&mut self, now: Instant) -> Vec<Wanted> {
        let users = std::cell::OnceCell::new();
        let number = |user: &str| {
            let users = users.get_or_init(config::users);
            number_in(users, user)
        };
        let mut wanted = Vec::new();
        for (id, made) in &self.groups.made {
            if self.users.waits_for(made.file.uid, now).is_some() {
                continue;
            }
            for (index, member) in made.group.members.iter().enumerate() {
                let Some(rule) = member.rule.as_ref().filter(|_| made.free(index).is_some()) else {
                    continue;
                };
                let of = match &rule.user {
                    None => Some(made.file.uid),
                    Some(user) => number(user),
                };
                let Some(of) = of else { continue };
                wanted.push(Wanted {
                    place: (*id, index),
                    uid: made.file.uid,
                    of,
                    name: member.name.clone(),
                    rule: rule.clone(),
                });
            }
        }
        wanted
    }

    /// Names threads of one process.
    pub(super) fn look_at(&mut self, pid: i32, wanted: &[Wanted]) {
        let folder = self.processes.root().join(pid.to_string());
        let Some(start) = peer::start_time(&folder) else {
            return;
        };
        let launched = self.groups.scan.launched.get(&pid);
        let launched = launched.filter(|one| one.start == start);
        if let Some(launched) = launched {
            let (uid, name) = (launched.uid, launched.name.clone());
            if !self.is_still_of(pid, uid) {
                return;
            }
            let place = self.groups.member(uid, &name);
            for tid in self.nameless(pid) {
                if let Some(place) = place {
                    self.name_thread((pid, start, tid), place, (uid, &name), Source::Launched);
                }
            }
            return;
        }
        let owner = match wanted.is_empty() {
            true => None,
            false => self.processes.owner(pid),
        };
        let wanted = wanted.iter().filter(|one| owner == Some(one.of));
        let wanted: Vec<&Wanted> = wanted.collect();
        if wanted.is_empty() || peer::is_kernel_thread(&folder) {
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
        if wanted.is_empty() {
            return;
        }
        let rules = ByThread::of(&wanted);
        for tid in self.nameless(pid) {
            let Some(thread) = self.processes.thread_name(pid, tid) else {
                continue;
            };
            let has_room = |one: &Wanted| {
                let made = self.groups.made.get(&one.place.0);
                made.is_some_and(|made| made.free(one.place.1).is_some())
            };
            if let Some(one) = rules.first(&thread, has_room) {
                let named = (one.uid, one.name.as_str());
                self.name_thread((pid, start, tid), one.place, named, Source::Rule);
            }
        }
    }

    /// Threads of a process that have no name, and are members of no domain.
    fn nameless(&self, pid: i32) -> Vec<i32> {
        let mut threads = self.processes.all_threads(pid);
        threads.truncate(SCAN_THREADS);
        threads.retain(|tid| {
            self.groups.names.get(*tid).is_none() && self.clients.place_of(*tid).is_none()
        });
        threads
    }

    /// A thread gets a member's name if that has room, and if its process is still the one that began at `began`.
    fn name_thread(
        &mut self,
        (pid, began, tid): (i32, u64, i32),
        (id, index): (GroupId, usize),
        (uid, name): (u32, &str),
        source: Source,
    ) {
        let folder = self.processes.root().join(format!("{pid}/task/{tid}"));
        let Some(start) = peer::thread_start(&folder) else {
            return;
        };
        // Their numbers may have become others' since they were looked at.
        let process = self.processes.root().join(pid.to_string());
        if peer::start_time(&process) != Some(began) || self.groups.names.get(tid).is_some() {
            return;
        }
        let made = self.groups.made.get(&id);
        let now = Instant::now();
        if made.is_none_or(|made| made.free(index).is_none())
            || self.users.check_members(uid, now).is_err()
        {
            return;
        }
        debug!(tid, name, "a thread has been found");
        self.learn(
            Known {
                uid,
                pid,
                thread: Thread { tid, start },
                name: name.to_owned(),
                source,
                bound: None,
                refused: None,
            },
            now,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// New processes are looked at first and several times, old ones in turn.
    #[test]
    fn everybody_has_a_turn_and_the_new_ones_first() {
        let mut scan = Scan::default();
        let all: BTreeSet<i32> = (1..=200).collect();
        scan.list(all.clone());
        scan.young.clear();
        let mut seen = BTreeSet::new();
        while !scan.left.is_empty() {
            let next = scan.next();
            assert!(next.len() <= SCAN_PROCESSES);
            seen.extend(next);
        }
        assert_eq!(seen, all);
        let mut more = all.clone();
        more.insert(500);
        for _ in 0..LOOKS {
            scan.list(more.clone());
            let next = scan.next();
            assert_eq!(next[0], 500);
            assert!(next.len() <= SCAN_PROCESSES + SCAN_PROCESSES / 4);
        }
        assert!(scan.young.is_empty());
        // So many new ones leave time for the others.
        scan.list((1..=10_000).collect());
        let rest = scan.left.len();
        scan.next();
        assert!(scan.left.len() < rest);
    }
}
