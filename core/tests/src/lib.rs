// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tests of the policy in core/: the C headers, compiled for the host, against models and the bounds they promise.
//!
//! * `heap`, `vtime`, `slice`: one header each.
//! * `tree`: random trees of fair groups; the bound of tree.h at every level, after every step.
//! * `reservations`: one class of them, which `period` and `rc` run: periods, and periods by the clock.
//! * `class`: reservations beside everybody else, and what it takes to be alone again.
//! * `hot`: which task goes on where it has last run, by how far it is ahead.
//! * `seat`: what joining, leaving and taking turns neither gains nor costs; `live`, `ledger`, `limit`: one header each.
//! * `coop`: random domains among outsiders; every choice against `oracle`, every queue after every step.
//! * `function`: what publishes for a group's members: plans, periods, pipelines, servers that follow, each by its bound.
//! * `borrow`: how far ahead domains may be put, in several accounts.
//! * `bounds`: what `coop` and `place` promise over seconds of virtual time on one `cpu`, liars and hogs included.
//! * `host`: what the tests of trees and domains run on: one CPU that calls the policy as the kernel host does.
//! * `accounts`: what a host's tree is made of.
//! * `check`: what holds between two calls.

#![cfg(test)]

mod accounts;
mod borrow;
mod bounds;
mod check;
mod class;
mod coop;
mod cpu;
mod flight;
mod function;
mod heap;
mod host;
mod hot;
mod lag;
mod ledger;
mod limit;
mod live;
mod oracle;
mod period;
mod pinned;
mod policy;
mod rc;
mod reservations;
mod seat;
mod slice;
mod tree;
mod vtime;
