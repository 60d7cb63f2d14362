// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everyday mixes, judged: does everybody get what it is entitled to, as soon as elsewhere, and does joining never cost?
//!
//! A mix runs three times: under Consort, under the model of the stock scheduler, and under Consort with nobody in a
//! domain. Shares are held against the fluid ideal ([`crate::fluid`]), waits and tardiness against the other runs.

mod entitlement;
mod everyday;
mod generate;
mod judge;
mod maker;
mod poured;
mod ran;
mod relation;
mod units;

pub use generate::generate;
pub use judge::{judge, Join, Mix, Worst};
pub use relation::{differences, Relation};
