// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks for threads that say nothing themselves: those that rules name, and those of processes that `consort run --name`
//! has started. The kernel tells nobody who begins, so all processes are looked at in turn, a bounded number at a time and
//! only while a member has room.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

use consort_groups::rule::{Candidate, Rule};
use consort_rates::accounts::number_in;

use super::{store::Launched, GroupId};
use crate::{
    config,
    peer::Processes,
    procfs::{self, Status},
    server::cpu_time,
    service::Service,
};

/// Processes looked at in one go.
const SCAN_PROCESSES: usize = 64;
/// CPU time of one go: a program that asks something meanwhile waits for it.
pub(super) const SCAN_TIME: Duration = Duration::from_millis(5);
/// Launched processes that are looked for in one go, whether they still are those.
const LAUNCHED_AT_ONCE: usize = 256;
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
    /// Those that this round has not come to; the last one is next.
    left: Vec<i32>,
    /// The last go began with those.
    old_first: bool,
    /// What is looked for has changed: those that this round has passed come once more.
    again: bool,
    /// By number of the process.
    pub launched: BTreeMap<i32, Launched>,
    /// The one that was looked for last.
    pub looked_for: i32,
    /// By process, the thread after which the last look at it stopped.
    pub stopped: BTreeMap<i32, i32>,
    /// Where the last sweep over threads with names stopped.
    pub swept: i32,
}

/// A process that is looked at now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Next {
    pid: i32,
    is_new: bool,
}

impl Scan {
    /// Takes in a new list of all processes.
    fn list(&mut self, all: BTreeSet<i32>) {
        let new = all.difference(&self.listed);
        self.young.extend(new.map(|pid| (*pid, LOOKS)));
        self.young.retain(|pid, _| all.contains(pid));
        self.stopped.retain(|pid, _| all.contains(pid));
        if std::mem::take(&mut self.again) || self.left.is_empty() {
            self.left_anew(&all);
        }
        self.listed = all;
    }

    /// Puts those that this round has passed behind the rest: everybody has a turn, however often somebody asks for this.
    fn left_anew(&mut self, all: &BTreeSet<i32>) {
        let rest: BTreeSet<i32> = self.left.iter().copied().collect();
        self.left.retain(|pid| all.contains(pid));
        let passed = all.difference(&rest).copied();
        self.left.splice(..0, passed);
    }

    /// Whom to look at now: new ones, and some of the others. Either come first in turn: there may not be time for all, however
    /// many are new.
    fn next(&mut self) -> Vec<Next> {
        let new = self.young.keys().rev().take(SCAN_PROCESSES);
        let mut next: Vec<Next> = new
            .map(|pid| Next {
                pid: *pid,
                is_new: true,
            })
            .collect();
        for Next { pid, .. } in &next {
            match self.young.get_mut(pid) {
                Some(looks) if *looks > 1 => *looks -= 1,
                _ => drop(self.young.remove(pid)),
            }
        }
        let others = SCAN_PROCESSES
            .saturating_sub(next.len())
            .max(SCAN_PROCESSES / 4);
        let at = self.left.len().saturating_sub(others);
        let old = self.left.split_off(at).into_iter().rev();
        let old = old.map(|pid| Next { pid, is_new: false });
        self.old_first = !self.old_first;
        match self.old_first {
            true => next.splice(..0, old).for_each(drop),
            false => next.extend(old),
        }
        next
    }

    /// There was no time for these: new ones are looked at again, or with all others.
    fn put_back(&mut self, rest: impl DoubleEndedIterator<Item = Next>) {
        let old = rest.rev().filter(|one| !one.is_new);
        self.left.extend(old.map(|one| one.pid));
    }

    pub fn launched(&self) -> impl Iterator<Item = &Launched> {
        self.launched.values()
    }

    fn forget(&mut self) {
        self.stopped.clear();
        self.listed.clear();
        self.young.clear();
        self.left.clear();
        self.again = false;
    }
}

/// A member that has room.
#[derive(Debug)]
pub(super) struct Wanted {
    pub place: (GroupId, usize),
    /// Whose file it is of.
    pub uid: u32,
    /// Whose threads it wants.
    pub of: u32,
    pub name: String,
    pub rule: Rule,
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
        let (parent, _) = procfs::parent_and_start(&folder)?;
        let parent = procfs::read_text(&self.root().join(format!("{parent}/comm")));
        let executable = fs::read_link(folder.join("exe"));
        let cgroups = procfs::read_text(&folder.join("cgroup")).unwrap_or_default();
        let cgroup = cgroups.lines().find_map(|line| line.strip_prefix("0::"));
        Some(Facts {
            executable: executable
                .map_or(String::new(), |path| path.to_string_lossy().into_owned()),
            cgroup: cgroup.unwrap_or_default().to_owned(),
            parent: parent.unwrap_or_default().trim_end_matches('\n').to_owned(),
        })
    }

    pub(super) fn thread_name(&self, pid: i32, tid: i32) -> Option<String> {
        let text = procfs::read_text(&self.root().join(format!("{pid}/task/{tid}/comm")))?;
        Some(text.trim_end_matches('\n').to_owned())
    }

    /// A first, cheap look at whose a process is: its folder is its effective user's, or root's if nobody may look into it.
    /// Where that is another one than expected, [`Processes::owner`] knows.
    pub(super) fn seems_to_be_of(&self, pid: i32) -> Option<u32> {
        let found = fs::metadata(self.root().join(pid.to_string()));
        found.ok().map(|found| found.uid())
    }

    /// Whose a process is: the user that it is in every respect; `None` for a privileged one that a user has started.
    pub(super) fn owner(&self, pid: i32) -> Option<u32> {
        let owners = Status::read(&self.root().join(pid.to_string()))?.numbers("Uid:")?;
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
            || self.processes.seems_to_be_of(pid) == Some(uid)
            || self.processes.owner(pid).map(account) == Some(account(uid))
    }

    /// All processes are looked at again, some of them at once.
    pub(super) fn scan_anew(&mut self) {
        self.groups.scan.again = true;
        self.scan_some();
    }

    /// Goes on looking, if there is anything to look for. The owners of rules and of launched processes pay for it, and no
    /// message of theirs waits.
    pub(super) fn scan_some(&mut self) {
        let (now, began) = (Instant::now(), cpu_time());
        let launched = self.groups.scan.launched().map(|one| one.uid);
        let launched: Vec<u32> = launched.collect();
        if launched.is_empty() && !self.rules_have_room() {
            self.groups.scan.forget();
            return;
        }
        let wanted = self.wanted(now);
        self.forget_ended(LAUNCHED_AT_ONCE);
        let may_look = launched
            .iter()
            .filter(|uid| self.users.may_look(**uid, now));
        let mut payers: Vec<u32> = may_look.copied().collect();
        payers.extend(wanted.iter().map(|one| one.uid));
        match payers.is_empty() {
            true => payers = launched,
            false => self.look_around(&wanted),
        }
        let spent = cpu_time().saturating_sub(began);
        self.charge_parts(spent, &payers, now);
    }

    fn look_around(&mut self, wanted: &[Wanted]) {
        let scan = &self.groups.scan;
        let is_due = scan.left.is_empty() || scan.again;
        if is_due || scan.listed.len() <= LISTED_FREELY {
            let all = self.processes.all();
            self.groups.scan.list(all);
        }
        let mut next = self.groups.scan.next().into_iter();
        let until = cpu_time() + SCAN_TIME;
        for one in next.by_ref() {
            self.look_at(one.pid, wanted, until);
            if cpu_time() > until {
                break;
            }
        }
        self.groups.scan.put_back(next);
    }

    /// Divides what was spent among users: each is in `payers` as often as it has something that it was spent for.
    fn charge_parts(&mut self, spent: Duration, payers: &[u32], now: Instant) {
        let mut parts: BTreeMap<u32, u32> = BTreeMap::new();
        for uid in payers {
            *parts.entry(*uid).or_default() += 1;
        }
        for (uid, part) in parts {
            let spent = spent.mul_f64(f64::from(part) / payers.len() as f64);
            self.users.charge_looks(uid, spent, now);
        }
    }

    fn rules_have_room(&self) -> bool {
        self.groups.made.values().any(|made| {
            let members = made.group.members.iter().enumerate();
            let mut with_rules = members.filter(|(_, member)| member.rule.is_some());
            with_rules.any(|(index, _)| made.free(index).is_some())
        })
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
            if !self.users.may_look(made.file.uid, now) {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A go that has time for `count` processes: those that it has looked at.
    fn go(scan: &mut Scan, count: usize) -> Vec<i32> {
        let mut next = scan.next().into_iter();
        let looked_at: Vec<Next> = next.by_ref().take(count).collect();
        scan.put_back(next);
        looked_at.iter().map(|one| one.pid).collect()
    }

    /// New processes are looked at in each go, several times, old ones in turn.
    #[test]
    fn everybody_has_a_turn_and_the_new_ones_at_once() {
        const ALL: usize = usize::MAX;
        let mut scan = Scan::default();
        let all: BTreeSet<i32> = (1..=200).collect();
        scan.list(all.clone());
        scan.young.clear();
        let mut seen = BTreeSet::new();
        while !scan.left.is_empty() {
            let next = go(&mut scan, ALL);
            assert!(next.len() <= SCAN_PROCESSES);
            seen.extend(next);
        }
        assert_eq!(seen, all);
        let mut more = all.clone();
        more.insert(500);
        for _ in 0..LOOKS {
            scan.list(more.clone());
            let next = go(&mut scan, ALL);
            assert!(next.contains(&500));
            assert!(next.len() <= SCAN_PROCESSES + SCAN_PROCESSES / 4);
        }
        assert!(scan.young.is_empty());
        // So many new ones leave time for the others.
        scan.list((1..=10_000).collect());
        let rest = scan.left.len();
        go(&mut scan, ALL);
        assert!(scan.left.len() < rest);
    }

    /// A look at a process with many threads may take all the time of a go.
    #[test]
    fn old_ones_have_a_turn_beside_ever_new_ones_in_goes_that_have_time_for_one() {
        const OLD: i32 = 100;
        let mut scan = Scan::default();
        scan.list((1..=OLD).collect());
        scan.young.clear();
        let mut seen = BTreeSet::new();
        for round in 1..=2 * OLD {
            scan.list((1..=OLD).chain([1000 + round]).collect());
            seen.extend(go(&mut scan, 1));
        }
        assert!((1..=OLD).all(|pid| seen.contains(&pid)), "{seen:?}");
        assert!(seen.iter().filter(|pid| **pid > OLD).count() >= OLD as usize / 2);
        let left: BTreeSet<i32> = scan.left.iter().copied().collect();
        assert_eq!(left.len(), scan.left.len(), "{:?}", scan.left);
    }

    /// With so many processes, too, that they are listed once a round.
    #[test]
    fn everybody_has_a_turn_however_often_all_are_looked_at_anew() {
        let mut scan = Scan::default();
        let mut seen = BTreeSet::new();
        scan.list((1..=1000).collect());
        scan.young.clear();
        // In each go one that is new, and the rest are others.
        let goes = 1000_usize.div_ceil(SCAN_PROCESSES - 1) as i32;
        for round in 0..goes {
            let more = 2000 + round;
            scan.again = true;
            scan.list((1..=1000).chain([more]).collect());
            let next = go(&mut scan, usize::MAX);
            assert!(next.contains(&more));
            seen.extend(next);
        }
        let missed: Vec<i32> = (1..=1000).filter(|pid| !seen.contains(pid)).collect();
        assert!(missed.is_empty(), "{missed:?}");
        let is_there = |pid: &i32| scan.listed.contains(pid);
        assert!(scan.left.iter().all(is_there), "{:?}", scan.left);
    }
}
