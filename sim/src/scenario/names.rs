// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of what tasks share, and their numbers: without gaps, in order of appearance.

use std::collections::{BTreeMap, BTreeSet};

use super::{error::BadScenario, json::Node};
use crate::setup::{Cgroup, CgroupIndex, Domain, DomainIndex};

/// Numbers for names.
#[derive(Debug, Default)]
pub struct Names {
    numbers: BTreeMap<String, u32>,
}

impl Names {
    pub fn number(&mut self, name: &str) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(name.to_owned()).or_insert(next)
    }

    pub fn known(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.numbers.values().copied()
    }
}

/// What tasks share and refer to by name.
#[derive(Debug)]
pub struct Shared {
    pub timers: Names,
    pub locks: Names,
    pub barriers: Names,
    conditions: Names,
    /// Conditions that somebody waits for.
    waited_for: BTreeSet<u32>,
    /// Conditions that somebody wakes, and what is wrong if nobody waits.
    woken: BTreeMap<u32, BadScenario>,
    pub cgroups: Vec<Cgroup>,
    pub domains: Vec<Domain>,
    /// Names of the queues that the scenario has, in the order of their numbers.
    pub queues: Vec<String>,
    /// The scenario says which domains there are: others are slips.
    pub domains_are_listed: bool,
}

/// A cgroup's or a task's weight where nothing else is said.
pub const WEIGHT_DEFAULT: u32 = 100;

impl Default for Shared {
    fn default() -> Self {
        let root = Cgroup {
            name: "/".into(),
            parent: None,
            weight: WEIGHT_DEFAULT,
            max: None,
        };
        Self {
            timers: Names::default(),
            locks: Names::default(),
            barriers: Names::default(),
            conditions: Names::default(),
            waited_for: BTreeSet::new(),
            woken: BTreeMap::new(),
            cgroups: vec![root],
            domains: Vec::new(),
            queues: Vec::new(),
            domains_are_listed: false,
        }
    }
}

impl Shared {
    /// The number of the queue that `node` names.
    pub fn queue(&self, node: &Node<'_>) -> Result<u32, BadScenario> {
        let name = node.text()?;
        let found = self.queues.iter().position(|queue| queue == name);
        found.map(|queue| queue as u32).ok_or_else(|| {
            let names = self.queues.join(", ");
            node.error(format!("is {name:?}, expected one of \"queues\": {names}"))
        })
    }

    /// The condition of this name, for a task that waits for it.
    pub fn waits(&mut self, name: &str) -> u32 {
        let condition = self.conditions.number(name);
        self.waited_for.insert(condition);
        condition
    }

    /// The condition of this name, for a task that wakes who waits for it; `error` is what is wrong if nobody does.
    pub fn wakes(&mut self, name: &str, error: impl FnOnce() -> BadScenario) -> u32 {
        let condition = self.conditions.number(name);
        self.woken.entry(condition).or_insert_with(error);
        condition
    }

    /// To be called when all tasks are known.
    ///
    /// # Errors
    /// Somebody wakes what nobody waits for: a slip in the name.
    pub fn check_conditions(&self) -> Result<(), BadScenario> {
        let mut unheard = self
            .woken
            .iter()
            .filter(|(it, _)| !self.waited_for.contains(it));
        match unheard.next() {
            Some((_, error)) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// The cgroup of a path such as `/films/loud`; it and those above it come to be when they are first named.
    pub fn cgroup(&mut self, path: &str) -> CgroupIndex {
        let mut group = 0;
        let mut name = String::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            name = format!("{name}/{part}");
            let found = self.cgroups.iter().position(|cgroup| cgroup.name == name);
            group = found.unwrap_or_else(|| {
                self.cgroups.push(Cgroup {
                    name: name.clone(),
                    parent: Some(group),
                    weight: WEIGHT_DEFAULT,
                    max: None,
                });
                self.cgroups.len() - 1
            });
        }
        group
    }

    /// The domain that somebody joins.
    ///
    /// # Errors
    /// The scenario lists its domains, and this is none of them.
    pub fn joined(&mut self, node: &Node<'_>) -> Result<DomainIndex, BadScenario> {
        let name = node.text()?;
        let mut names: Vec<&str> = self.domains.iter().map(|it| it.name.as_str()).collect();
        if self.domains_are_listed && !names.contains(&name) {
            names.sort_unstable();
            return Err(node.error(format!(
                "is {name:?}, expected the name of a domain: {}",
                names.join(", ")
            )));
        }
        Ok(self.domain(name))
    }

    /// The domain of this name; it comes to be when it is first named, as a domain does when it is first joined.
    pub fn domain(&mut self, name: &str) -> DomainIndex {
        let found = self.domains.iter().position(|domain| domain.name == name);
        found.unwrap_or_else(|| {
            self.domains.push(Domain {
                name: name.to_owned(),
                event_ns: 0,
                order: 0,
                preempt: false,
            });
            self.domains.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_gaps() {
        let mut names = Names::default();
        let numbers = ["b", "a", "b", "c"].map(|name| names.number(name));
        assert_eq!(numbers, [0, 1, 0, 2]);
    }

    #[test]
    fn groups_above_come_to_be_too() {
        let mut shared = Shared::default();
        let inner = shared.cgroup("/a/b");
        assert_eq!(shared.cgroup("a//b/"), inner);
        let outer = shared.cgroup("/a");
        assert_eq!(shared.cgroups[inner].parent, Some(outer));
        assert_eq!(shared.cgroups[outer].parent, Some(0));
        assert_eq!(
            (shared.cgroup(""), shared.cgroup("/"), shared.cgroups.len()),
            (0, 0, 3)
        );
    }
}
