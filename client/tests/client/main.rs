// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library through its public interfaces, against a daemon made for the tests.

mod daemon;
mod fork;
mod hostile;
mod join;
mod poll;
mod process;
mod rejoin;
