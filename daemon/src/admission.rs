// SPDX-License-Identifier: MIT OR Apache-2.0
//! The books of [`consort_rates`], kept about processes and threads.

use crate::targets::Target;

pub use consort_rates::admission::{Range, UserLimits, PERIOD_MAX_NS, PERIOD_MIN_NS};

pub type Ledger = consort_rates::admission::Ledger<Target>;
pub type Reservation = consort_rates::admission::Reservation<Target>;

// The scheduler's numbers are those that rates are told to it in.
const _: () = assert!(consort_rates::CLASSES_MAX == consort_kernel::CLASSES_MAX);
const _: () = assert!(consort_rates::RATE_ONE == consort_kernel::RATE_ONE);
