// SPDX-License-Identifier: MIT OR Apache-2.0
//! Group files through the service: all of one or nothing, whoever asks, whichever comes first, and wherever the daemon is
//! killed.

mod accounts;
mod apply;
#[path = "../common/mod.rs"]
mod common;
mod functions;
mod heavy;
mod hostile;
mod log;
mod names;
mod plans;
mod programs;
mod restart;
mod succession;
mod world;
