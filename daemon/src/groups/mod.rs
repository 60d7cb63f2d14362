// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups that users describe in files (003: Groupmaker and Task Mapper): what is in force, and which threads have the
//! names of its members.
//!
//! A file is applied in this order: it is read and checked, each step is done in ledger and scheduler, the store keeps the
//! file, its owner is told. What fails on the way is undone. Killed at any point, the daemon comes back with the files that
//! the store has, and the scheduler, which went with it, is told those and nothing else.
//!
//! Files, groups and names belong to users: nobody names a stranger's thread but root, by rule.

mod apply;
mod bind;
pub mod control;
pub mod host;
mod launched;
mod look;
pub mod names;
pub mod plan;
mod promise;
mod restore;
mod scan;
mod scheduler;
pub mod show;
mod store;
mod succession;

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use consort_groups::{difference::Placed, Description, Group};

pub use self::store::Store;
use self::{names::Names, plan::Plan, restore::Unrestored, scan::Scan};

/// A user's file, by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    pub uid: u32,
    pub name: String,
}

/// Names a group in force for as long as the daemon runs.
pub type GroupId = u64;

/// A file in force.
#[derive(Debug)]
pub(crate) struct File {
    pub description: Description,
    /// Of its text.
    pub bytes: usize,
    pub groups: HashMap<String, GroupId>,
}

/// A group in force.
#[derive(Debug)]
pub(crate) struct Made {
    pub file: FileKey,
    pub group: Group,
    /// The scheduler's number; `None` for one without members, which is only whose rate others share.
    pub id: Option<u32>,
    /// By member: room for each thread that may have its name.
    pub seats: Vec<Vec<Option<i32>>>,
    /// A member has a plan.
    pub has_plans: bool,
    /// Where its plans stand still, after their beginning.
    pub paused_at_ns: Option<u64>,
}

impl Made {
    fn new(file: &FileKey, placed: &Placed, id: Option<u32>) -> Made {
        let members = placed.group.members.iter();
        Made {
            file: file.clone(),
            group: placed.group.clone(),
            id,
            has_plans: false,
            paused_at_ns: None,
            seats: members
                .map(|member| vec![None; member.count as usize])
                .collect(),
        }
    }

    /// The first seat of a member that nobody has.
    fn free(&self, index: usize) -> Option<usize> {
        self.seats[index].iter().position(Option::is_none)
    }

    fn seat_of(&self, index: usize, tid: i32) -> Option<usize> {
        self.seats[index].iter().position(|seat| *seat == Some(tid))
    }

    /// All threads that are bound.
    fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.seats.iter().flatten().flatten().copied()
    }

    /// The numbers by which the scheduler knows the threads of a member; `None`: it does not tell them apart.
    fn roles(&self, index: usize) -> Option<Range<u32>> {
        self.group.roles(index)
    }
}

#[derive(Debug, Default)]
pub struct Groups {
    pub(crate) files: BTreeMap<FileKey, File>,
    /// What the store has besides.
    unrestored: BTreeMap<FileKey, Unrestored>,
    pub(crate) made: BTreeMap<GroupId, Made>,
    /// The member that has a name: of a user's.
    members: HashMap<(u32, String), (GroupId, usize)>,
    pub(crate) names: Names,
    /// By user and member.
    plans: BTreeMap<(u32, String), Plan>,
    scan: Scan,
    store: Option<Store>,
    /// When plans began that a daemon before had; taken up when the groups are made.
    begun: HashMap<(FileKey, String), u64>,
    /// Groups of the scheduler's that it could not remove yet.
    doomed: Vec<u32>,
    next: GroupId,
}

impl Groups {
    /// What survives the daemon.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// The member of user `uid` that is called `name`.
    fn member(&self, uid: u32, name: &str) -> Option<(GroupId, usize)> {
        self.members.get(&(uid, name.to_owned())).copied()
    }

    fn insert(&mut self, made: Made) -> GroupId {
        self.next += 1;
        let id = self.next;
        for (index, member) in made.group.members.iter().enumerate() {
            let key = (made.file.uid, member.name.clone());
            self.members.insert(key, (id, index));
        }
        self.made.insert(id, made);
        id
    }

    /// A file says something else from now on, which is in force.
    fn describe(&mut self, key: &FileKey, description: Description, bytes: usize) {
        let Some(file) = self.files.get_mut(key) else {
            return;
        };
        for group in &description.groups {
            let made = file.groups.get(&group.name);
            if let Some(made) = made.and_then(|id| self.made.get_mut(id)) {
                made.group = group.clone();
            }
        }
        file.description = description;
        file.bytes = bytes;
    }

    fn remove(&mut self, id: GroupId) -> Option<Made> {
        let made = self.made.remove(&id)?;
        for member in &made.group.members {
            let key = (made.file.uid, member.name.clone());
            if self.members.get(&key).is_some_and(|(of, _)| *of == id) {
                self.members.remove(&key);
            }
        }
        Some(made)
    }
}
