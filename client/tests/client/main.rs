// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library through its public interfaces, against a daemon made for the tests.

mod accessors;
mod announce;
mod awkward;
mod c_interface;
mod cost;
mod daemon;
mod event_loop;
mod fork;
mod hostile;
mod join;
mod model;
mod poll;
mod process;
mod rejoin;
mod reservation;
mod trace;
mod train;
mod usage;
mod user_level;
