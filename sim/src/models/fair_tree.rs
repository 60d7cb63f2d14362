// SPDX-License-Identifier: MIT OR Apache-2.0
//! One CPU's tree of fair queues: one for each cgroup, in which tasks and the groups below it are entities.
//!
//! Rule     From the root down, the entity that the queue picks, until that is a task. What runs is charged in each queue
//!          above it. A group is queued while anybody in it is, asleep or not; it asks for the shortest slice of those.
//! Source   Linux' group scheduling (CONFIG_FAIR_GROUP_SCHED): for_each_sched_entity, as sched-design-CFS documents it.
//! Limits   What groups weigh is said from outside (weights.rs). No bandwidth limits.

use super::fair_queue::{Entity, FairQueue};
use crate::trace::TaskId;
use std::collections::HashMap;

/// What a queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Who {
    Task(TaskId),
    Group(usize),
}

/// The root's queue.
const ROOT: usize = 0;

/// See the module.
#[derive(Debug)]
pub struct FairTree {
    /// By cgroup.
    queues: Vec<FairQueue<Who>>,
    parents: Vec<Option<usize>>,
    /// The cgroup of each task that is known here.
    group_of: HashMap<TaskId, usize>,
    /// Tasks that want this CPU.
    runnable: usize,
    slice_ns: u64,
}

impl FairTree {
    /// For cgroups with these parents, which come before their children, and these weights.
    pub fn new(groups: &[(Option<usize>, u64)], slice_ns: u64, tick_ns: u64) -> Self {
        let queue = |_: &(Option<usize>, u64)| FairQueue::new(tick_ns);
        let mut queues: Vec<FairQueue<Who>> = groups.iter().map(queue).collect();
        for (group, (parent, weight)) in groups.iter().enumerate() {
            if let Some(parent) = parent {
                let entity = Entity::of_group(*weight, slice_ns);
                queues[*parent].bring(Who::Group(group), entity);
            }
        }
        Self {
            queues,
            parents: groups.iter().map(|(parent, _)| *parent).collect(),
            group_of: HashMap::new(),
            runnable: 0,
            slice_ns,
        }
    }

    fn group(&self, task: TaskId) -> usize {
        self.group_of.get(&task).copied().unwrap_or(ROOT)
    }

    /// The queue of a task's own cgroup.
    fn own(&mut self, task: TaskId) -> &mut FairQueue<Who> {
        let group = self.group(task);
        &mut self.queues[group]
    }

    /// A task comes from elsewhere into a cgroup, and is not queued yet.
    pub fn bring(&mut self, task: TaskId, group: usize, entity: Entity) {
        self.group_of.insert(task, group);
        self.queues[group].bring(Who::Task(task), entity);
    }

    /// A task goes elsewhere. None: it is not known here.
    pub fn fetch(&mut self, task: TaskId) -> Option<Entity> {
        self.dequeue(task, false);
        let entity = self.own(task).fetch(Who::Task(task));
        self.group_of.remove(&task);
        entity
    }

    /// Tasks that want this CPU, the running one included.
    pub fn runnable(&self) -> usize {
        self.runnable
    }

    /// The cgroups from a task's own up to the root.
    pub fn groups_above(&self, task: TaskId) -> Vec<usize> {
        let mut group = self.group(task);
        let mut groups = vec![group];
        while let Some(parent) = self.parents[group] {
            groups.push(parent);
            group = parent;
        }
        groups
    }

    /// What the queues of a cgroup weigh here.
    pub fn weight(&self, group: usize) -> u64 {
        self.queues[group].weight()
    }

    /// The part of this CPU's weight that is a task's.
    pub fn weight_at_root(&self, task: TaskId) -> f64 {
        let mut entity = Who::Task(task);
        let mut weight = 1.0;
        for group in self.groups_above(task) {
            let queue = &self.queues[group];
            weight *= queue.weight_of(entity) as f64;
            if group != ROOT {
                weight /= queue.weight().max(1) as f64;
            }
            entity = Who::Group(group);
        }
        weight
    }

    pub fn set_weight(&mut self, task: TaskId, weight: u64) {
        self.own(task).set_weight(Who::Task(task), weight);
    }

    pub fn set_group_weight(&mut self, group: usize, weight: u64) {
        if let Some(parent) = self.parents[group] {
            self.queues[parent].set_weight(Who::Group(group), weight);
        }
    }

    pub fn set_slice(&mut self, task: TaskId, slice_ns: u64) {
        self.own(task).set_slice(Who::Task(task), slice_ns);
        self.pass_slices_up(self.group(task));
    }

    /// A group asks for the shortest slice of those in it.
    fn pass_slices_up(&mut self, from: usize) {
        let mut group = from;
        while let Some(parent) = self.parents[group] {
            let slice_ns = self.queues[group].slice_min_ns().unwrap_or(self.slice_ns);
            self.queues[parent].set_slice(Who::Group(group), slice_ns);
            group = parent;
        }
    }

    /// A task that is neither waiting nor running waits now, and the groups that it is in with it.
    pub fn enqueue(&mut self, task: TaskId) {
        let mut group = self.group(task);
        self.runnable += usize::from(!self.own(task).is_runnable(Who::Task(task)));
        self.queues[group].enqueue(Who::Task(task));
        self.pass_slices_up(group);
        while let Some(parent) = self.parents[group] {
            self.queues[parent].enqueue(Who::Group(group));
            group = parent;
        }
    }

    /// A task that waits or runs does so no longer; `sleeps`: it blocks, else it ends or goes elsewhere.
    pub fn dequeue(&mut self, task: TaskId, sleeps: bool) {
        let group = self.group(task);
        self.runnable -= usize::from(self.own(task).is_runnable(Who::Task(task)));
        self.queues[group].dequeue(Who::Task(task), sleeps);
        self.leave_if_empty(group, sleeps);
        self.pass_slices_up(group);
    }

    /// Groups in which nobody is left leave their queues.
    fn leave_if_empty(&mut self, from: usize, sleeps: bool) {
        let mut group = from;
        while let (true, Some(parent)) = (self.queues[group].is_empty(), self.parents[group]) {
            self.queues[parent].dequeue(Who::Group(group), sleeps);
            group = parent;
        }
    }

    /// From the root down, the cgroups whose queues have a current entity.
    fn path(&self) -> Vec<usize> {
        let mut path = Vec::new();
        let mut next = Some(Who::Group(ROOT));
        while let Some(Who::Group(group)) = next {
            path.push(group);
            next = self.queues[group].current();
        }
        path
    }

    /// The running task.
    pub fn current(&self) -> Option<TaskId> {
        let leaf = self.path().pop()?;
        match self.queues[leaf].current()? {
            Who::Task(task) => Some(task),
            Who::Group(_) => None,
        }
    }

    /// Charges the running task, and the groups that it is in. Returns whether a slice has ended.
    pub fn charge(&mut self, ran_ns: u64) -> bool {
        let mut ended = false;
        for group in self.path() {
            ended |= self.queues[group].charge(ran_ns);
        }
        ended
    }

    /// CPU time that is left of the running task's slice; groups that it is in may end theirs before, and are not looked at.
    pub fn slice_left_ns(&self) -> u64 {
        match self.path().pop() {
            Some(leaf) => self.queues[leaf].slice_left_ns(),
            None => self.slice_ns,
        }
    }

    /// The running task waits again.
    pub fn put_back(&mut self) {
        for group in self.path() {
            self.queues[group].put_back();
        }
    }

    /// Chooses who runs next and makes it the running one; that may be the one that runs already.
    pub fn pick(&mut self) -> Option<TaskId> {
        let before = self.path();
        let picked = loop {
            match self.descend() {
                Ok(picked) => break picked,
                // Its sleepers have had what was coming to them.
                Err(group) => self.leave_if_empty(group, true),
            }
        };
        let now = self.path();
        for group in before {
            if !now.contains(&group) {
                self.queues[group].put_back();
            }
        }
        picked
    }

    /// The group in which nobody was left is an error.
    fn descend(&mut self) -> Result<Option<TaskId>, usize> {
        let mut group = ROOT;
        loop {
            match self.queues[group].pick() {
                Some(Who::Task(task)) => return Ok(Some(task)),
                Some(Who::Group(inner)) => group = inner,
                None if group == ROOT => return Ok(None),
                None => return Err(group),
            }
        }
    }

    /// Whether somebody waits beside an entity that runs, and whose protection is over.
    pub fn is_unprotected(&self) -> bool {
        let path = self.path();
        path.iter()
            .any(|group| self.queues[*group].is_unprotected())
    }

    /// Whether `task`, which has just begun to wait, takes the CPU from the running one at once: it is decided where the two
    /// part.
    pub fn preempts(&self, task: TaskId) -> bool {
        let mut entity = Who::Task(task);
        let mut chain = Vec::new();
        for group in self.groups_above(task) {
            chain.push((group, entity));
            entity = Who::Group(group);
        }
        let parts =
            |(group, entity): &&(usize, Who)| self.queues[*group].current() != Some(*entity);
        let parting = chain.iter().rev().find(parts);
        parting.is_some_and(|(group, entity)| self.queues[*group].preempts(*entity))
    }

    /// The running task gives up the rest of its slice.
    pub fn yield_current(&mut self) {
        if let Some(leaf) = self.path().pop() {
            self.queues[leaf].yield_current();
        }
    }

    /// Tasks that wait.
    pub fn waiting(&self) -> impl Iterator<Item = TaskId> + '_ {
        let all = self.queues.iter().flat_map(FairQueue::waiting);
        all.filter_map(|entity| match entity {
            Who::Task(task) => Some(task),
            Who::Group(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::fair_queue::WEIGHT_ONE;

    const SLICE_NS: u64 = 700_000;
    const TICK_NS: u64 = 4_000_000;

    /// The root; /a with two tasks (0, 1), /a/b with one (2); a task (3) beside them.
    fn tree() -> FairTree {
        let groups = [(None, 1024), (Some(0), 1024), (Some(1), 1024)];
        let mut tree = FairTree::new(&groups, SLICE_NS, TICK_NS);
        for (task, group) in [(0, 1), (1, 1), (2, 2), (3, 0)] {
            tree.bring(task, group, Entity::new(WEIGHT_ONE, SLICE_NS));
            tree.enqueue(task);
        }
        tree
    }

    /// CPU time of each task after so many slices.
    fn run(tree: &mut FairTree, slices: usize) -> [u64; 4] {
        let mut ran_ns = [0; 4];
        for _ in 0..slices {
            let task = tree.pick().expect("somebody waits");
            assert_eq!(tree.current(), Some(task));
            let slice_ns = tree.slice_left_ns();
            tree.charge(slice_ns);
            ran_ns[task as usize] += slice_ns;
        }
        ran_ns
    }

    fn percent(ran_ns: [u64; 4]) -> [u64; 4] {
        let all: u64 = ran_ns.iter().sum();
        ran_ns.map(|ns| (ns * 1000 / all + 5) / 10)
    }

    #[test]
    fn each_level_is_divided_by_its_weights() {
        let mut tree = tree();
        // Half is for task 3; a third of the other half for each of 0, 1 and the group with 2.
        assert_eq!(percent(run(&mut tree, 9000)), [17, 17, 17, 50]);
        tree.set_group_weight(1, 3 * 1024);
        tree.set_weight(0, 3 * 1024);
        // 3 of 4 for the group: three fifths of it for 0, one each for 1 and the group with 2.
        assert_eq!(percent(run(&mut tree, 9000)), [45, 15, 15, 25]);
    }

    #[test]
    fn what_a_task_weighs_at_the_root_is_its_part_of_each_group() {
        let tree = tree();
        let third = 1024.0 / 3.0;
        for (task, weight) in [(0, third), (2, third), (3, 1024.0)] {
            let found = tree.weight_at_root(task);
            assert!((found - weight).abs() < 1e-6, "{task}: {found}");
        }
        assert_eq!((tree.weight(1), tree.weight(0)), (3 * 1024, 2 * 1024));
    }

    #[test]
    fn a_group_leaves_with_its_last_task_and_keeps_what_it_owes() {
        let mut tree = tree();
        run(&mut tree, 10);
        for task in [0, 1, 2] {
            tree.dequeue(task, true);
        }
        assert_eq!((tree.runnable(), tree.waiting().count() <= 1), (1, true));
        let ran_ns = run(&mut tree, 100);
        assert_eq!(ran_ns[..3], [0, 0, 0], "they sleep");
        assert!(tree.queues[1].is_empty() && tree.queues[2].is_empty());
        assert!(!tree.queues[0].is_runnable(Who::Group(1)));
        tree.enqueue(2);
        assert_eq!(percent(run(&mut tree, 4000)), [0, 0, 50, 50]);
        for task in 0..4 {
            tree.dequeue(task, false);
        }
        assert_eq!((tree.runnable(), tree.pick()), (0, None));
        assert!(tree.queues.iter().all(FairQueue::is_empty));
    }

    #[test]
    fn preemption_is_decided_where_the_two_part() {
        let mut tree = tree();
        tree.dequeue(0, false);
        run(&mut tree, 50);
        while tree.pick() != Some(1) {
            run(&mut tree, 1);
        }
        // Beside 1 in its group, with a short slice.
        tree.set_slice(0, 100_000);
        tree.enqueue(0);
        assert!(tree.preempts(0), "it has a shorter slice");
        // Beside its group, with a slice that is no shorter.
        assert!(!tree.preempts(3), "the group has just been picked");
    }

    #[test]
    fn a_group_asks_for_the_shortest_slice_in_it() {
        let mut tree = tree();
        tree.set_slice(2, 100_000);
        assert_eq!(tree.queues[0].slice_min_ns(), Some(100_000));
        assert_eq!(tree.queues[1].slice_min_ns(), Some(100_000));
        tree.dequeue(2, false);
        assert_eq!(tree.queues[0].slice_min_ns(), Some(SLICE_NS));
    }
}
