// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reservations through the service: what is admitted is what the scheduler was told, whatever is asked, whoever
//! asks, and wherever the daemon is killed.

#[path = "../common/mod.rs"]
mod common;
mod credits;
mod demand;
mod disks;
mod heavy;
mod kills;
mod limits;
mod programs;
mod reload;
mod requests;
mod restart;
mod world;
