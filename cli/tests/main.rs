// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command promises.
//! One program: what they share is built once, and tests of several files run side by side.

mod command;
mod common;
#[path = "../../daemon/tests/common/mod.rs"]
mod daemon;
mod demo;
mod documented;
mod groups;
mod mixes;
mod said;
mod scenarios;
mod sim;
mod status;
mod trace;
