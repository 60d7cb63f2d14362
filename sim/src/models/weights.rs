// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tasks and groups weigh: tasks by their nice values, a group on each CPU by its part of what its tasks weigh.
//!
//! Problem  A group weighs what its cpu.weight says, wherever its tasks run; each CPU has a queue of its own.
//! Rule     On each CPU a group's entity has that part of the group's weight that its queue there has of the weights in
//!          all of the group's queues.
//! Source   Linux' calc_group_shares, as the comment there derives it.
//! Limits   The kernel takes averages over tens of ms for what queues weigh; here it is what they weigh now.

use super::fair_queue::WEIGHT_ONE;
use crate::setup::Cpu;

/// The kernel's weights of nice -20 to 19 (sched_prio_to_weight).
const OF_NICE: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];
/// cpu.weight of nice 0.
const CGROUP_ONE: u64 = 100;
/// The least that a group's entity weighs.
const SHARE_MIN: u64 = 2;

/// The weight of a nice value; others are taken as the nearest.
pub fn of_nice(nice: i32) -> u64 {
    OF_NICE[(nice + 20).clamp(0, 39) as usize]
}

/// The weight of a cpu.weight, rounded to the nearest.
pub fn of_cgroup(cpu_weight: u32) -> u64 {
    (u64::from(cpu_weight) * WEIGHT_ONE + CGROUP_ONE / 2) / CGROUP_ONE
}

/// A group's weight, and what its queues weigh.
#[derive(Debug, Clone)]
struct Group {
    weight: u64,
    of_queues: Vec<u64>,
    sum: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Shares {
    groups: Vec<Group>,
}

impl Shares {
    /// For groups with these cpu.weights on a machine with so many CPUs; nobody is there yet.
    pub fn new(cpu_weights: impl IntoIterator<Item = u32>, cpus: Cpu) -> Self {
        let group = |cpu_weight| Group {
            weight: of_cgroup(cpu_weight),
            of_queues: vec![0; cpus as usize],
            sum: 0,
        };
        Self {
            groups: cpu_weights.into_iter().map(group).collect(),
        }
    }

    /// A group's cpu.weight changes.
    pub fn set_group(&mut self, group: usize, cpu_weight: u32) {
        self.groups[group].weight = of_cgroup(cpu_weight);
    }

    /// What the group's queue on a CPU weighs now.
    pub fn set_queue(&mut self, group: usize, cpu: Cpu, weight: u64) {
        let group = &mut self.groups[group];
        let before = std::mem::replace(&mut group.of_queues[cpu as usize], weight);
        group.sum = group.sum - before + weight;
    }

    /// What the group's entity weighs on a CPU.
    pub fn share(&self, group: usize, cpu: Cpu) -> u64 {
        let Group {
            weight,
            of_queues,
            sum,
        } = &self.groups[group];
        let part = weight * of_queues[cpu as usize] / (*sum).max(1);
        part.clamp(SHARE_MIN.min(*weight), *weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_values_and_cgroup_weights_are_the_kernels() {
        assert_eq!(
            (of_nice(0), of_nice(-20), of_nice(19), of_nice(99)),
            (1024, 88761, 15, 15)
        );
        // DIV_ROUND_CLOSEST of weight * 1024 and 100.
        assert_eq!(
            [1, 99, 100, 300, 10_000].map(of_cgroup),
            [10, 1014, 1024, 3072, 102_400]
        );
    }

    #[test]
    fn a_group_is_divided_over_cpus_by_what_its_tasks_weigh_there() {
        let mut shares = Shares::new([100, 100, 300], 2);
        // Two tasks of nice 0 on CPU 0, one of nice 5 on CPU 1: 2048 and 335 of 2383.
        shares.set_queue(1, 0, 2048);
        shares.set_queue(1, 1, 335);
        assert_eq!((shares.share(1, 0), shares.share(1, 1)), (880, 143));
        // All of it is on CPU 1.
        shares.set_queue(2, 1, 15);
        assert_eq!((shares.share(2, 0), shares.share(2, 1)), (2, 3072));
        shares.set_queue(1, 0, 0);
        assert_eq!((shares.share(1, 0), shares.share(1, 1)), (2, 1024));
        shares.set_group(1, 50);
        assert_eq!(shares.share(1, 1), 512);
    }

    #[test]
    fn a_part_is_never_nothing() {
        let mut shares = Shares::new([100, 1], 2);
        shares.set_queue(1, 0, 88_761);
        shares.set_queue(1, 1, 15);
        assert_eq!((shares.share(1, 0), shares.share(1, 1)), (9, 2));
    }
}
