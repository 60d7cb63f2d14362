// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that have names (003 section 3.1.3: Task Mapper), whether a group wants them yet or not.
//!
//! A name belongs to a user. Several threads may have one: the first that came are bound, as many as the member's count
//! allows; the others wait in the order in which they came. A thread has one name: one that it announces is its, and one by
//! rule gives way to that.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use super::GroupId;
use crate::{clients::ConnectionId, peer::Thread};

/// How a thread came to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It said so itself, and shares a slot of its program's page.
    Announced {
        connection: ConnectionId,
        client: u32,
        slot: u32,
        /// The thread as its program calls it.
        named: i32,
    },
    /// Its process was started by `consort run --name`.
    Launched,
    /// The member's rule fits.
    Rule,
}

/// A thread with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Whose files may name it.
    pub uid: u32,
    pub pid: i32,
    pub thread: Thread,
    pub name: String,
    pub source: Source,
    /// The member that it is.
    pub bound: Option<(GroupId, usize)>,
    /// Why the scheduler would not have it.
    pub refused: Option<String>,
}

#[derive(Debug, Default)]
pub struct Names {
    by_tid: BTreeMap<i32, (u64, Known)>,
    /// Threads by user and name, in the order in which they came.
    by_name: HashMap<(u32, String), BTreeSet<(u64, i32)>>,
    by_slot: HashMap<(ConnectionId, u32), i32>,
    next: u64,
}

impl Names {
    /// Adds a thread that has no name yet.
    pub fn insert(&mut self, known: Known) {
        let tid = known.thread.tid;
        assert!(!self.by_tid.contains_key(&tid), "a thread has one name");
        self.next += 1;
        let key = (known.uid, known.name.clone());
        self.by_name
            .entry(key)
            .or_default()
            .insert((self.next, tid));
        if let Source::Announced {
            connection, slot, ..
        } = known.source
        {
            self.by_slot.insert((connection, slot), tid);
        }
        self.by_tid.insert(tid, (self.next, known));
    }

    pub fn remove(&mut self, tid: i32) -> Option<Known> {
        let (order, known) = self.by_tid.remove(&tid)?;
        let key = (known.uid, known.name.clone());
        if let Some(threads) = self.by_name.get_mut(&key) {
            threads.remove(&(order, tid));
            if threads.is_empty() {
                self.by_name.remove(&key);
            }
        }
        if let Source::Announced {
            connection, slot, ..
        } = known.source
        {
            self.by_slot.remove(&(connection, slot));
        }
        Some(known)
    }

    pub fn get(&self, tid: i32) -> Option<&Known> {
        self.by_tid.get(&tid).map(|(_, known)| known)
    }

    /// A thread, and when it came: before others with higher numbers.
    pub fn entry(&self, tid: i32) -> Option<(u64, &Known)> {
        self.by_tid.get(&tid).map(|(order, known)| (*order, known))
    }

    pub fn get_mut(&mut self, tid: i32) -> Option<&mut Known> {
        self.by_tid.get_mut(&tid).map(|(_, known)| known)
    }

    /// The thread that announced itself from a slot.
    pub fn at(&self, connection: ConnectionId, slot: u32) -> Option<i32> {
        self.by_slot.get(&(connection, slot)).copied()
    }

    /// All slots of a connection from which threads have announced themselves.
    pub fn slots_of(&self, connection: ConnectionId) -> Vec<u32> {
        let all = self.by_slot.keys();
        all.filter(|(of, _)| *of == connection)
            .map(|(_, slot)| *slot)
            .collect()
    }

    /// Threads of that name, in the order in which they came.
    pub fn of(&self, uid: u32, name: &str) -> impl Iterator<Item = (i32, &Known)> {
        let threads = self.by_name.get(&(uid, name.to_owned()));
        let threads = threads.into_iter().flatten();
        threads.filter_map(|(_, tid)| Some((*tid, self.get(*tid)?)))
    }

    /// All threads from the one after `tid` on, by number.
    pub fn after(&self, tid: i32) -> impl Iterator<Item = (i32, &Known)> {
        let all = self.by_tid.range((Bound::Excluded(tid), Bound::Unbounded));
        all.map(|(tid, (_, known))| (*tid, known))
    }

    pub fn len(&self) -> usize {
        self.by_tid.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_tid.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(tid: i32, name: &str, slot: Option<u32>) -> Known {
        let source = slot.map_or(Source::Rule, |slot| Source::Announced {
            connection: 7,
            client: 1,
            slot,
            named: tid,
        });
        Known {
            uid: 1000,
            pid: 5,
            thread: Thread { tid, start: 9 },
            name: name.to_owned(),
            source,
            bound: None,
            refused: None,
        }
    }

    #[test]
    fn threads_are_found_by_name_in_the_order_in_which_they_came() {
        let mut names = Names::default();
        names.insert(known(30, "show", Some(0)));
        names.insert(known(10, "show", None));
        names.insert(known(20, "read", Some(2)));
        let of = |names: &Names, uid, name| -> Vec<i32> {
            names.of(uid, name).map(|(tid, _)| tid).collect()
        };
        assert_eq!(of(&names, 1000, "show"), [30, 10]);
        assert_eq!(of(&names, 1001, "show"), [0; 0]);
        assert_eq!(names.at(7, 2), Some(20));
        let mut slots = names.slots_of(7);
        slots.sort_unstable();
        assert_eq!((slots, names.slots_of(8)), (vec![0, 2], vec![]));
        assert_eq!(
            names.remove(30).map(|known| known.name),
            Some("show".to_owned())
        );
        assert_eq!(names.remove(30), None);
        assert_eq!(of(&names, 1000, "show"), [10]);
        assert_eq!(names.at(7, 0), None);
        // A thread that comes back comes last.
        names.insert(known(30, "show", Some(0)));
        assert_eq!(of(&names, 1000, "show"), [10, 30]);
        assert_eq!(names.len(), 3);
    }
}
