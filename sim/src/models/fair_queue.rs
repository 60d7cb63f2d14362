// SPDX-License-Identifier: MIT OR Apache-2.0
//! One CPU's run queue under EEVDF, the kernel's stock scheduling class.
//!
//! Problem  To compare Consort with what it replaces, without a kernel.
//! Rule     Of the entities that are not ahead of the average virtual time (*eligible*), the one whose virtual
//!          deadline is first. An entity that is picked is protected until its slice ends, or the shortest slice of
//!          those that are queued; from one that wakes with a shorter slice than its own it is not.
//! Source   Stoica, Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995; the features PLACE_LAG,
//!          PLACE_DEADLINE_INITIAL, RUN_TO_PARITY, PREEMPT_SHORT, DELAY_DEQUEUE and DELAY_ZERO as Linux documents them.
//! Limits   Picking looks through entities by deadline until one is eligible.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::Hash,
};

/// Weight of nice 0.
pub const WEIGHT_ONE: u64 = 1024;

/// What a queue knows of a task or a group, whether it is on it or not, and what goes with it to another CPU's queue.
#[derive(Debug, Clone, Copy)]
pub struct Entity {
    weight: u64,
    /// CPU time that it asks for at once.
    slice_ns: u64,
    /// Virtual times: ns of CPU time at `WEIGHT_ONE`.
    vruntime: i64,
    deadline: i64,
    /// Up to where the running task is not preempted: the end of the slice that it was picked for.
    protected_until: i64,
    /// Average virtual time less own, when the task left.
    lag: i64,
    place: Place,
    /// It never was on a queue.
    fresh: bool,
}

impl Entity {
    /// Of a new task.
    pub fn new(weight: u64, slice_ns: u64) -> Self {
        Self {
            weight: weight.max(1),
            slice_ns,
            vruntime: 0,
            deadline: 0,
            protected_until: 0,
            lag: 0,
            place: Place::Off,
            fresh: true,
        }
    }

    /// Of a group, whose first slice is no other than the next.
    pub fn of_group(weight: u64, slice_ns: u64) -> Self {
        Self {
            fresh: false,
            ..Self::new(weight, slice_ns)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Off,
    Queued,
    /// Asleep, but still queued, until what it took too much of is made up for.
    Delayed,
    Current,
}

/// See the module. `K` is what entities are known by.
#[derive(Debug)]
pub struct FairQueue<K> {
    /// How far lags are remembered at least.
    tick_ns: u64,
    entities: HashMap<K, Entity>,
    by_deadline: BTreeSet<(i64, K)>,
    current: Option<K>,
    /// How many of those that are queued or current have which slice.
    slices_ns: BTreeMap<u64, usize>,
    /// Over all entities that are queued or current.
    weight_sum: i128,
    weighted_vruntime_sum: i128,
    runnable: usize,
    /// The average where nobody is left.
    last_average: i64,
}

impl<K: Copy + Ord + Hash> FairQueue<K> {
    /// On a kernel with ticks of `tick_ns`.
    pub fn new(tick_ns: u64) -> Self {
        Self {
            tick_ns,
            entities: HashMap::new(),
            by_deadline: BTreeSet::new(),
            current: None,
            slices_ns: BTreeMap::new(),
            weight_sum: 0,
            weighted_vruntime_sum: 0,
            runnable: 0,
            last_average: 0,
        }
    }

    /// A task comes from elsewhere, and is not on the queue yet.
    pub fn bring(&mut self, task: K, entity: Entity) {
        self.entities.insert(task, entity);
    }

    /// A task goes elsewhere; it neither waits nor runs any more. None: it is not known here.
    pub fn fetch(&mut self, task: K) -> Option<Entity> {
        self.dequeue(task, false);
        self.entities.remove(&task)
    }

    /// Of a task that is known here, as the caller knows: nobody else has its number.
    fn entity(&self, task: K) -> Entity {
        self.entities
            .get(&task)
            .copied()
            .unwrap_or_else(|| Entity::new(WEIGHT_ONE, self.tick_ns))
    }

    fn update(&mut self, task: K, change: impl FnOnce(&mut Entity)) {
        if let Some(entity) = self.entities.get_mut(&task) {
            change(entity);
        }
    }

    pub fn is_runnable(&self, task: K) -> bool {
        matches!(self.entity(task).place, Place::Queued | Place::Current)
    }

    /// Nobody is queued or current, not even asleep.
    pub fn is_empty(&self) -> bool {
        self.weight_sum == 0
    }

    /// Of all that are queued or current.
    pub fn weight(&self) -> u64 {
        self.weight_sum as u64
    }

    pub fn weight_of(&self, task: K) -> u64 {
        self.entity(task).weight
    }

    /// The shortest slice of those that are queued or current.
    pub fn slice_min_ns(&self) -> Option<u64> {
        self.slices_ns.keys().next().copied()
    }

    /// The running task.
    pub fn current(&self) -> Option<K> {
        self.current
    }

    /// Tasks that wait, by deadline.
    pub fn waiting(&self) -> impl Iterator<Item = K> + '_ {
        let awake = |task: &K| self.entity(*task).place == Place::Queued;
        self.by_deadline.iter().map(|(_, task)| *task).filter(awake)
    }

    fn average(&self) -> i64 {
        if self.weight_sum == 0 {
            return self.last_average;
        }
        self.weighted_vruntime_sum.div_euclid(self.weight_sum) as i64
    }

    fn is_eligible(&self, entity: &Entity) -> bool {
        self.weighted_vruntime_sum >= i128::from(entity.vruntime) * self.weight_sum
    }

    fn count_in(&mut self, entity: Entity) {
        *self.slices_ns.entry(entity.slice_ns).or_insert(0) += 1;
        self.weight_sum += i128::from(entity.weight);
        self.weighted_vruntime_sum += i128::from(entity.weight) * i128::from(entity.vruntime);
    }

    fn count_out(&mut self, entity: Entity) {
        self.last_average = self.average();
        if let Some(count) = self.slices_ns.get_mut(&entity.slice_ns) {
            *count -= 1;
            if *count == 0 {
                self.slices_ns.remove(&entity.slice_ns);
            }
        }
        self.weight_sum -= i128::from(entity.weight);
        self.weighted_vruntime_sum -= i128::from(entity.weight) * i128::from(entity.vruntime);
    }

    fn virtual_ns(&self, cpu_ns: u64, weight: u64) -> i64 {
        (u128::from(cpu_ns) * u128::from(WEIGHT_ONE) / u128::from(weight.max(1))) as i64
    }

    /// How far behind or ahead of the average the task is; bounded, so that no sleep is saved up.
    fn lag_of(&self, entity: &Entity) -> i64 {
        let bound = self.virtual_ns(self.tick_ns.max(2 * entity.slice_ns), entity.weight);
        (self.average() - entity.vruntime).clamp(-bound, bound)
    }

    /// Puts the entity where its lag says (PLACE_LAG).
    fn place(&mut self, task: K) {
        let mut entity = self.entity(task);
        let weight = i128::from(entity.weight);
        // Joining moves the average by part of the lag: what is asked for is what the lag is afterwards.
        let lag = match self.weight_sum {
            0 => 0,
            sum => i128::from(entity.lag) * (sum + weight) / sum,
        };
        let mut slice = self.virtual_ns(entity.slice_ns, entity.weight);
        if entity.fresh {
            slice /= 2;
        }
        entity.fresh = false;
        entity.vruntime = self.average() - lag as i64;
        entity.deadline = entity.vruntime + slice;
        self.entities.insert(task, entity);
    }

    /// A task that is neither waiting nor running waits now.
    pub fn enqueue(&mut self, task: K) {
        match self.entity(task).place {
            Place::Off => self.insert(task),
            Place::Delayed => self.requeue(task),
            Place::Queued | Place::Current => {}
        }
    }

    fn insert(&mut self, task: K) {
        self.place(task);
        self.update(task, |entity| entity.place = Place::Queued);
        let entity = self.entity(task);
        self.count_in(entity);
        self.by_deadline.insert((entity.deadline, task));
        self.runnable += 1;
    }

    /// A sleeper that was still queued wakes up.
    fn requeue(&mut self, task: K) {
        let lag = self.lag_of(&self.entity(task));
        if lag > 0 {
            self.remove_delayed(task);
            self.insert(task);
            return;
        }
        self.update(task, |entity| entity.place = Place::Queued);
        self.runnable += 1;
    }

    /// Takes a delayed sleeper out. It has nothing coming for having been asleep (DELAY_ZERO).
    fn remove_delayed(&mut self, task: K) {
        let entity = self.entity(task);
        self.by_deadline.remove(&(entity.deadline, task));
        let lag = self.lag_of(&entity).min(0);
        self.count_out(entity);
        self.update(task, |entity| entity.place = Place::Off);
        self.update(task, |entity| entity.lag = lag);
    }

    /// A task that waits or runs does so no longer; `sleeps`: it blocks, else it ends or goes elsewhere.
    pub fn dequeue(&mut self, task: K, sleeps: bool) {
        let entity = self.entity(task);
        match entity.place {
            Place::Off => return,
            Place::Delayed if sleeps => return,
            Place::Delayed => return self.remove_delayed(task),
            Place::Queued => {
                self.by_deadline.remove(&(entity.deadline, task));
            }
            Place::Current => self.current = None,
        }
        self.runnable -= 1;
        if sleeps && !self.is_eligible(&entity) && self.runnable > 0 {
            self.update(task, |entity| entity.place = Place::Delayed);
            self.by_deadline.insert((entity.deadline, task));
            return;
        }
        let lag = self.lag_of(&entity);
        self.update(task, |entity| entity.lag = lag);
        self.count_out(entity);
        self.update(task, |entity| entity.place = Place::Off);
    }

    /// Charges the running task. Returns whether its slice has ended.
    pub fn charge(&mut self, ran_ns: u64) -> bool {
        let Some(task) = self.current else {
            return false;
        };
        let mut entity = self.entity(task);
        let ran = self.virtual_ns(ran_ns, entity.weight);
        self.weighted_vruntime_sum += i128::from(entity.weight) * i128::from(ran);
        entity.vruntime += ran;
        let ended = entity.vruntime >= entity.deadline;
        if ended {
            entity.deadline = entity.vruntime + self.virtual_ns(entity.slice_ns, entity.weight);
        }
        self.entities.insert(task, entity);
        ended
    }

    /// CPU time that is left of the running task's slice.
    pub fn slice_left_ns(&self) -> u64 {
        let Some(task) = self.current else {
            return 0;
        };
        let entity = self.entity(task);
        let left = (entity.deadline - entity.vruntime).max(0) as u128;
        // Rounded up, so that the slice has ended when the time has passed.
        (left * u128::from(entity.weight)).div_ceil(u128::from(WEIGHT_ONE)) as u64
    }

    /// The running task waits again.
    pub fn put_back(&mut self) {
        if let Some(task) = self.current.take() {
            self.update(task, |entity| entity.place = Place::Queued);
            self.by_deadline.insert((self.entity(task).deadline, task));
        }
    }

    /// Chooses who runs next and makes it the running one; that may be the one that runs already.
    pub fn pick(&mut self) -> Option<K> {
        loop {
            let best = self.best()?;
            if self.current == Some(best) {
                return Some(best);
            }
            let deadline = self.entity(best).deadline;
            if self.entity(best).place == Place::Delayed {
                self.remove_delayed(best);
                continue;
            }
            self.put_back();
            self.by_deadline.remove(&(deadline, best));
            let protected_until = self.protection(&self.entity(best));
            self.update(best, |entity| {
                entity.place = Place::Current;
                entity.protected_until = protected_until;
            });
            self.current = Some(best);
            return Some(best);
        }
    }

    /// Up to where an entity that is picked now is protected: a shorter slice of another one is as good as its own.
    fn protection(&self, entity: &Entity) -> i64 {
        match self.slice_min_ns() {
            Some(slice_ns) if slice_ns < entity.slice_ns => {
                let until = entity.vruntime + self.virtual_ns(slice_ns, entity.weight);
                until.min(entity.deadline)
            }
            _ => entity.deadline,
        }
    }

    /// The running task while it is protected, else the first by deadline of those that are eligible.
    fn best(&self) -> Option<K> {
        self.best_where(true)
    }

    fn best_where(&self, is_protected: bool) -> Option<K> {
        let first = self.first_eligible();
        let Some(current) = self.current else {
            return first;
        };
        let entity = self.entity(current);
        if !self.is_eligible(&entity) {
            return first.or(Some(current));
        }
        if is_protected && entity.vruntime < entity.protected_until {
            return Some(current);
        }
        // The running one loses a tie.
        let earlier = first.filter(|task| self.entity(*task).deadline <= entity.deadline);
        earlier.or(Some(current))
    }

    /// Of those that are queued. Not all can be ahead of their average: where it is none of these, it is the
    /// running one.
    fn first_eligible(&self) -> Option<K> {
        let eligible = |(_, task): &&(i64, K)| self.is_eligible(&self.entity(*task));
        self.by_deadline
            .iter()
            .find(eligible)
            .map(|(_, task)| *task)
    }

    /// Whether somebody waits and the running task's slice, for which it was picked, is over.
    pub fn is_unprotected(&self) -> bool {
        let entity = self.current.map(|task| self.entity(task));
        self.runnable > 1 && entity.is_some_and(|it| it.vruntime >= it.protected_until)
    }

    /// Whether `task`, which has just begun to wait, takes the CPU from the running one at once.
    pub fn preempts(&self, task: K) -> bool {
        let slice_ns = self.entity(task).slice_ns;
        let is_shorter = |current: K| slice_ns < self.entity(current).slice_ns;
        self.best_where(!self.current.is_some_and(is_shorter)) == Some(task)
    }

    /// The running task gives up the rest of its slice.
    pub fn yield_current(&mut self) {
        let Some(task) = self.current else {
            return;
        };
        let mut entity = self.entity(task);
        let slice = self.virtual_ns(entity.slice_ns, entity.weight);
        if self.is_eligible(&entity) {
            let given_up = (entity.deadline - entity.vruntime).max(0);
            self.weighted_vruntime_sum += i128::from(entity.weight) * i128::from(given_up);
            entity.vruntime += given_up;
        }
        entity.deadline += slice;
        self.entities.insert(task, entity);
    }

    /// Changes a task's slice; its deadline stays until the next one.
    pub fn set_slice(&mut self, task: K, slice_ns: u64) {
        let entity = self.entity(task);
        if entity.slice_ns == slice_ns {
            return;
        }
        let is_counted = entity.place != Place::Off;
        if is_counted {
            self.count_out(entity);
        }
        self.update(task, |entity| entity.slice_ns = slice_ns);
        if is_counted {
            self.count_in(self.entity(task));
        }
    }

    /// Changes a task's weight; what it is ahead or behind stays the same CPU time.
    pub fn set_weight(&mut self, task: K, weight: u64) {
        let weight = weight.max(1);
        let mut entity = self.entity(task);
        if entity.weight == weight {
            return;
        }
        let scale = |value: i64| {
            (i128::from(value) * i128::from(entity.weight) / i128::from(weight)) as i64
        };
        if entity.place == Place::Off {
            entity.lag = scale(entity.lag);
            entity.weight = weight;
            self.entities.insert(task, entity);
            return;
        }
        let average = self.average();
        let (lag, left) = (average - entity.vruntime, entity.deadline - entity.vruntime);
        if entity.place != Place::Current {
            self.by_deadline.remove(&(entity.deadline, task));
        }
        self.count_out(entity);
        let (lag, left) = (scale(lag), scale(left));
        entity.weight = weight;
        entity.vruntime = average - lag;
        entity.deadline = entity.vruntime + left;
        self.entities.insert(task, entity);
        self.count_in(entity);
        if entity.place != Place::Current {
            self.by_deadline.insert((entity.deadline, task));
        }
    }
}

#[cfg(test)]
mod tests;
