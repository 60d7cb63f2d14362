// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a task weighs: by its nice value, and inside cgroups by what they weigh.
//!
//! Problem  The kernel keeps a queue for each cgroup on each CPU; a model need not.
//! Rule     A cgroup's weight is divided among its active members by theirs, level by level: the product is what a
//!          task weighs in one flat queue.
//! Limits   Weights are shared over all CPUs at once. Between changes of who is active, the long-term shares are
//!          those of the queues; the order inside a slice is not.

use super::fair_queue::WEIGHT_ONE;
use crate::trace::TaskId;
use std::collections::BTreeMap;

/// The kernel's weights of nice -20 to 19 (sched_prio_to_weight).
const OF_NICE: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];
/// cpu.weight of nice 0.
const CGROUP_ONE: u64 = 100;

/// The weight of a nice value; others are taken as the nearest.
pub fn of_nice(nice: i32) -> u64 {
    OF_NICE[(nice + 20).clamp(0, 39) as usize]
}

/// A cgroup: where it is, what it weighs, and the sum of its active members.
#[derive(Debug, Clone)]
struct Group {
    parent: Option<usize>,
    weight: u64,
    active: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Weights {
    groups: Vec<Group>,
    /// Active tasks: their cgroup, and what they weigh inside it.
    tasks: BTreeMap<TaskId, (usize, u64)>,
}

impl Weights {
    /// For cgroups with these parents and cpu.weights; parents come before their children.
    pub fn new(groups: impl IntoIterator<Item = (Option<usize>, u32)>) -> Self {
        let group = |(parent, weight): (Option<usize>, u32)| Group {
            parent,
            weight: u64::from(weight) * WEIGHT_ONE / CGROUP_ONE,
            active: 0,
        };
        Self {
            groups: groups.into_iter().map(group).collect(),
            tasks: BTreeMap::new(),
        }
    }

    /// Whether there is nothing to divide: all tasks are in the root.
    pub fn is_flat(&self) -> bool {
        self.groups.len() <= 1
    }

    /// A task has become active, or weighs something else now, or is in another cgroup.
    pub fn activate(&mut self, task: TaskId, group: usize, weight: u64) {
        self.deactivate(task);
        self.tasks.insert(task, (group, weight));
        self.add(group, weight);
    }

    /// A task is active no more.
    pub fn deactivate(&mut self, task: TaskId) {
        if let Some((group, weight)) = self.tasks.remove(&task) {
            self.remove(group, weight);
        }
    }

    /// A cgroup's cpu.weight changes.
    pub fn set_group(&mut self, group: usize, cpu_weight: u32) {
        let Some(parent) = self.groups.get(group).and_then(|it| it.parent) else {
            return;
        };
        let is_active = self.groups[group].active > 0;
        if is_active {
            self.remove(parent, self.groups[group].weight);
        }
        self.groups[group].weight = u64::from(cpu_weight) * WEIGHT_ONE / CGROUP_ONE;
        if is_active {
            self.add(parent, self.groups[group].weight);
        }
    }

    /// Up the tree, as far as groups become active by it.
    fn add(&mut self, group: usize, weight: u64) {
        let was_active = self.groups[group].active > 0;
        self.groups[group].active += weight;
        if let (false, Some(parent)) = (was_active, self.groups[group].parent) {
            self.add(parent, self.groups[group].weight);
        }
    }

    fn remove(&mut self, group: usize, weight: u64) {
        self.groups[group].active -= weight;
        let is_active = self.groups[group].active > 0;
        if let (false, Some(parent)) = (is_active, self.groups[group].parent) {
            self.remove(parent, self.groups[group].weight);
        }
    }

    /// What each active task weighs in a flat queue.
    pub fn flat(&self) -> Vec<(TaskId, u64)> {
        // The part of a member's weight that counts at the root, for each group.
        let mut factor = vec![1.0; self.groups.len()];
        for (index, group) in self.groups.iter().enumerate() {
            if let Some(parent) = group.parent {
                factor[index] = factor[parent] * group.weight as f64 / group.active.max(1) as f64;
            }
        }
        let flat = |(task, (group, weight)): (&TaskId, &(usize, u64))| {
            (
                *task,
                ((*weight as f64 * factor[*group]).round() as u64).max(1),
            )
        };
        self.tasks.iter().map(flat).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_values_are_the_kernels() {
        assert_eq!(
            (of_nice(0), of_nice(-20), of_nice(19), of_nice(99)),
            (1024, 88761, 15, 15)
        );
    }

    /// The root, /a (weight 300), /a/b and /c.
    fn weights() -> Weights {
        Weights::new([(None, 100), (Some(0), 300), (Some(1), 100), (Some(0), 100)])
    }

    #[test]
    fn a_group_is_divided_among_its_active_members() {
        let mut weights = weights();
        weights.activate(0, 0, 1024);
        weights.activate(1, 1, 1024);
        weights.activate(2, 1, 2048);
        assert_eq!(weights.flat(), [(0, 1024), (1, 1024), (2, 2048)]);
        weights.deactivate(2);
        assert_eq!(weights.flat(), [(0, 1024), (1, 3072)]);
    }

    #[test]
    fn inner_groups_share_with_tasks_beside_them() {
        let mut weights = weights();
        weights.activate(0, 1, 1024);
        weights.activate(1, 2, 1024);
        weights.activate(2, 2, 1024);
        assert_eq!(weights.flat(), [(0, 1536), (1, 768), (2, 768)]);
        weights.set_group(2, 200);
        assert_eq!(weights.flat(), [(0, 1024), (1, 1024), (2, 1024)]);
    }

    #[test]
    fn what_is_taken_away_leaves_nothing() {
        let mut weights = weights();
        for task in 0..8 {
            weights.activate(task, task as usize % 4, 1000 + u64::from(task));
            weights.activate(task, (task as usize + 1) % 4, 77);
        }
        weights.set_group(2, 7);
        for task in 0..8 {
            weights.deactivate(task);
        }
        assert!(weights.groups.iter().all(|group| group.active == 0));
    }
}
