// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reserved rates in a run: classes, who has reserved before it begins, and what tasks ask for meanwhile.

use crate::setup::TaskIndex;
use crate::trace::TaskId;
use consort_rates::admission::Reservation;
use consort_rates::classes::Classes;
use consort_rates::rate::Rate;
use serde::{Deserialize, Serialize};

/// Everybody is root in a simulated machine: there are no limits of users.
pub(crate) const ROOT: u32 = 0;

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

impl Reserve {
    /// As it stands in the books.
    pub(crate) fn of(self, task: TaskId) -> Reservation<TaskId> {
        Reservation {
            uid: ROOT,
            class: self.class,
            rate: Rate(self.rate),
            auto: None,
            period_ns: self.period_ns,
            target: task,
        }
    }
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
