// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same scheduler, deterministic, on any machine: Consort's own BPF program, compiled for the host, against
//! a model of the kernel's sched_ext core. One process, virtual time, one seed: the same [`setup::Setup`] gives the
//! same run to the nanosecond.

pub mod models;
pub mod random;
pub mod report;
pub mod scenario;
pub mod setup;
pub mod trace;
