// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other schedulers to compare with, as models.

mod eevdf;
mod fair_queue;
mod rr;
mod weights;

pub use eevdf::Eevdf;
pub use rr::RoundRobin;
