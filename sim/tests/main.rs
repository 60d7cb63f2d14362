// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the simulator promises, and what the scheduler does in it.
//! One program: what they share is built once, and tests of several files run side by side.

mod cgroups;
mod common;
mod divided;
mod effects;
mod endings;
mod explore;
mod forks;
mod full_classes;
mod groups;
mod history;
mod inherit;
mod intervals;
mod limits;
mod locks;
mod many_cpus;
mod masked_rates;
mod masks;
mod messages;
mod migrations;
mod mixes;
mod mutations;
mod one_cpu;
mod overload;
mod own_functions;
mod papers;
mod places;
mod progress;
mod rates;
mod sequences;
mod sleepers;
mod userlevel;
mod validation;
mod wakeups;
