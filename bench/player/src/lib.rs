// SPDX-License-Identifier: MIT OR Apache-2.0
//! What workloads that measure a scheduler are made of; `bench/rates` uses it too.

pub mod cgroup;
pub mod clock;
mod cooperative;
pub mod counters;
pub mod deadline;
pub mod error;
pub mod films;
pub mod fleet;
pub mod micro;
mod monolithic;
pub mod moves;
pub mod native;
mod plain;
mod player;
pub mod processes;
pub mod report;
pub mod scenario;
pub mod statistics;
pub mod work;

// The simulator has the same players.
pub use consort_sim::profile;
