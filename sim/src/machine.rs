// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine that a run is on: its CPUs, how they share caches, cores and memory, and its kernel.

use crate::setup::Cpu;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kernel {
    #[serde(rename = "6.18")]
    V6_18,
    #[serde(rename = "7.2")]
    V7_2,
}

/// Possible CPUs are numbered from 0. The vectors have an entry for each CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Last-level cache of each CPU; caches are numbered from 0 without gaps.
    pub llc_of: Vec<u32>,
    /// Physical core of each CPU.
    pub core_of: Vec<u32>,
    /// NUMA node of each CPU.
    pub node_of: Vec<u32>,
    /// Possible CPUs that are not online when the run begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offline: Vec<Cpu>,
    /// A hypervisor runs it: the scheduler's locks are not served in order.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_virtual: bool,
    pub kernel: Kernel,
}

fn is_false(is: &bool) -> bool {
    !is
}

impl Machine {
    /// One node and one cache for each `cpus_per_llc` CPUs, no SMT.
    pub fn simple(cpus: u32, cpus_per_llc: u32, kernel: Kernel) -> Self {
        Self {
            llc_of: (0..cpus).map(|cpu| cpu / cpus_per_llc).collect(),
            core_of: (0..cpus).collect(),
            node_of: vec![0; cpus as usize],
            offline: Vec::new(),
            is_virtual: false,
            kernel,
        }
    }

    /// How many are possible.
    pub fn cpus(&self) -> u32 {
        self.llc_of.len() as u32
    }

    /// Those that are online when the run begins.
    pub fn online(&self) -> impl Iterator<Item = Cpu> + '_ {
        (0..self.cpus()).filter(|cpu| !self.offline.contains(cpu))
    }
}
