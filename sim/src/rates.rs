// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reserved rates in a run: classes, who has reserved before it begins, and what tasks ask for meanwhile.

use crate::setup::TaskIndex;
use consort_rates::classes::Classes;
use serde::{Deserialize, Serialize};

/// What the daemon divides the machine into, and whom it has let in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    pub classes: Classes,
    /// In force when the task begins.
    #[serde(default)]
    pub reserved: Vec<(TaskIndex, Reserve)>,
}

/// A rate in a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    /// Its number in [`Rates::classes`].
    pub class: usize,
    /// Millionths of one CPU.
    pub rate: u64,
    pub period_ns: u64,
}

/// What a task asks the daemon for. Rates are millionths of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RateRequest {
    /// Anew, or another rate or class than before.
    Reserve(Reserve),
    Release,
    Lend {
        to: TaskIndex,
        rate: u64,
    },
    Recollect {
        from: TaskIndex,
        /// None: all of it.
        rate: Option<u64>,
    },
}
