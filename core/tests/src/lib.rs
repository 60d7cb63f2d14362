// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tests of the policy in core/: the C headers, compiled for the host, against models and the bounds they promise.
//!
//! * `heap`, `vtime`, `slice`: one header each.
//! * `check`: what holds for a heap between two calls.

#![cfg(test)]

mod check;
mod heap;
mod policy;
mod slice;
mod vtime;
