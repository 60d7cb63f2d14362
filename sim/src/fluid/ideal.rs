// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fluid ideal: which part of a CPU each of a set of tasks is entitled to.
//!
//! Rule     Pour into all tasks at once, each at its *rate*: at the root 1 is divided among the open children by weight,
//!          in each cgroup what it gets among its open children, and so on down to tasks. A task is closed when it has
//!          all it can use (one CPU, or what it asks for), or when its CPUs are full: nobody on them can go elsewhere.
//!          A cgroup is closed when all in it are. What a task has when all are closed is its share.
//! Bound    No CPU that an open task may use stays free (work conserving). A closed task can have more only at the cost of
//!          one that has no more than it, by the weights at which both were poured. Without masks this is nested
//!          weighted max-min fairness with water-filling, exactly.
//! Limits   The number of stages is that of different amounts at which tasks close: each costs a look at all tasks.

use super::flow::Network;
use crate::setup::{Cpu, Setup};

/// What is less is nothing: a thousandth of a millionth of a CPU.
const EPSILON: f64 = 1e-9;

/// The kernel's weights of nice -20 to 19 (sched_prio_to_weight), of which 1024 is nice 0.
const OF_NICE: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// Of a nice value; 1 is nice 0. Others are taken as the nearest.
pub fn weight_of_nice(nice: i32) -> f64 {
    f64::from(OF_NICE[(nice + 20).clamp(0, 39) as usize]) / 1024.0
}

/// Of a cpu.weight; 1 is that of 100, as a task's of nice 0.
pub fn weight_of_cgroup(weight: u32) -> f64 {
    f64::from(weight.clamp(1, 10_000)) / 100.0
}

/// A task that wants the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Its cgroup, a number of [`Ideal::new`]'s.
    pub group: usize,
    pub weight: f64,
    /// What it can use, of one CPU: at most 1.
    pub most: f64,
    /// The CPUs that it may use, a number of [`Ideal::set_of`]'s.
    pub set: usize,
}

#[derive(Clone, Debug)]
struct Group {
    parent: Option<usize>,
    weight: f64,
}

/// A machine, and its tree of cgroups.
#[derive(Clone, Debug)]
pub struct Ideal {
    cpus: usize,
    groups: Vec<Group>,
    sets: Vec<Vec<usize>>,
    network: Network,
}

impl Ideal {
    /// Of `cpus` CPUs and cgroups, each with its parent, which comes before it, and its weight; the first is the root.
    pub fn new(cpus: usize, groups: impl IntoIterator<Item = (Option<usize>, f64)>) -> Self {
        let group = |(parent, weight)| Group { parent, weight };
        let sets = vec![(0..cpus).collect()];
        Self {
            cpus,
            groups: groups.into_iter().map(group).collect(),
            network: Network::new(cpus, &sets),
            sets,
        }
    }

    /// Of a run's machine and cgroups.
    pub fn of(setup: &Setup) -> Self {
        let groups = setup.cgroups.iter();
        Self::new(
            setup.machine.cpus() as usize,
            groups.map(|group| (group.parent, weight_of_cgroup(group.weight))),
        )
    }

    /// The number of a set of CPUs; none: all of them.
    pub fn set_of(&mut self, cpus: Option<&[Cpu]>) -> usize {
        let Some(cpus) = cpus else {
            return 0;
        };
        let mut set: Vec<usize> = cpus.iter().map(|cpu| *cpu as usize).collect();
        set.retain(|cpu| *cpu < self.cpus);
        set.sort_unstable();
        set.dedup();
        if let Some(known) = self.sets.iter().position(|known| *known == set) {
            return known;
        }
        self.sets.push(set);
        self.network = Network::new(self.cpus, &self.sets);
        self.sets.len() - 1
    }

    /// How many sets of CPUs there are.
    pub fn nr_sets(&self) -> usize {
        self.sets.len()
    }

    /// The CPUs of a set.
    pub fn cpus_of(&self, set: usize) -> &[usize] {
        &self.sets[set]
    }

    /// What each claim is entitled to, of one CPU.
    pub fn shares(&self, claims: &[Claim]) -> Vec<f64> {
        let mut pouring = Pouring {
            ideal: self,
            claims,
            shares: vec![0.0; claims.len()],
            open: claims.iter().map(|claim| claim.most > EPSILON).collect(),
        };
        while pouring.open.contains(&true) {
            pouring.stage();
        }
        pouring.shares
    }
}

/// The state between two closings.
struct Pouring<'i> {
    ideal: &'i Ideal,
    claims: &'i [Claim],
    shares: Vec<f64>,
    open: Vec<bool>,
}

impl Pouring<'_> {
    /// Pours until somebody is closed.
    fn stage(&mut self) {
        let rates = self.rates();
        let time = self.time_to_close(&rates);
        for (share, rate) in self.shares.iter_mut().zip(&rates) {
            *share += time * rate;
        }
        let sums = self.sums(&self.shares);
        let flow = self.ideal.network.flow(&sums);
        let has_room: Vec<bool> = (0..sums.len()).map(|set| flow.has_room(set)).collect();
        let before = self.count_open();
        for (at, claim) in self.claims.iter().enumerate() {
            if self.shares[at] >= claim.most - EPSILON || !has_room[claim.set] {
                self.open[at] = false;
            }
        }
        if self.count_open() == before {
            self.close_nearest(&rates);
        }
    }

    fn count_open(&self) -> usize {
        self.open.iter().filter(|open| **open).count()
    }

    /// Rounding has left the claim that was to close just open.
    fn close_nearest(&mut self, rates: &[f64]) {
        let left = |at: &usize| (self.claims[*at].most - self.shares[*at]) / rates[*at];
        let open = (0..self.open.len()).filter(|at| self.open[*at]);
        if let Some(at) = open.min_by(|one, other| left(one).total_cmp(&left(other))) {
            self.open[at] = false;
        }
    }

    /// How fast each is poured; all together 1.
    fn rates(&self) -> Vec<f64> {
        let groups = &self.ideal.groups;
        let mut weights = vec![0.0; groups.len()];
        for (claim, _) in self.claims.iter().zip(&self.open).filter(|it| *it.1) {
            weights[claim.group] += claim.weight;
        }
        // A cgroup is in its parent's sum if anybody in it is open.
        for at in (1..groups.len()).rev() {
            if weights[at] > 0.0 {
                weights[groups[at].parent.unwrap_or(0)] += groups[at].weight;
            }
        }
        let mut parts = vec![1.0; groups.len()];
        for at in 1..groups.len() {
            let parent = groups[at].parent.unwrap_or(0);
            parts[at] = parts[parent] * groups[at].weight / weights[parent];
        }
        let rate = |(claim, open): (&Claim, &bool)| match open {
            true => parts[claim.group] * claim.weight / weights[claim.group],
            false => 0.0,
        };
        self.claims.iter().zip(&self.open).map(rate).collect()
    }

    /// Sums by set.
    fn sums(&self, of: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.ideal.sets.len()];
        for (claim, share) in self.claims.iter().zip(of) {
            sums[claim.set] += share;
        }
        sums
    }

    /// Until the first has all it can use, or a crowd fills its CPUs: the crowd that is too big at some time says when it
    /// was just not, again and again, until none is (Newton's method on a piecewise linear function: finite).
    fn time_to_close(&self, rates: &[f64]) -> f64 {
        let open = (0..self.open.len()).filter(|at| self.open[*at]);
        let left = |at: usize| (self.claims[at].most - self.shares[at]) / rates[at];
        let mut time = open.map(left).fold(f64::INFINITY, f64::min).max(0.0);
        let (shares, rates) = (self.sums(&self.shares), self.sums(rates));
        loop {
            let asked: Vec<f64> = shares
                .iter()
                .zip(&rates)
                .map(|(share, rate)| share + time * rate)
                .collect();
            let Some(crowd) = self.ideal.network.flow(&asked).crowd() else {
                return time;
            };
            let of = |sums: &[f64]| -> f64 {
                let inside = sums.iter().zip(&crowd.sets).filter(|(_, is)| **is);
                inside.map(|(sum, _)| sum).sum()
            };
            let earlier = ((crowd.capacity - of(&shares)) / of(&rates)).max(0.0);
            if earlier.is_nan() || earlier >= time {
                return time;
            }
            time = earlier;
        }
    }
}

#[cfg(test)]
mod tests;
