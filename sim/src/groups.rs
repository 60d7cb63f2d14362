// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups with decision functions in a run: who plays which role, with what terms, and what became of its intervals.

use crate::rates::Reserve;
use crate::setup::TaskIndex;
use serde::{Deserialize, Serialize};

/// Values are those of `enum consort_function`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Function {
    Fair = 1,
    Period = 2,
    Plan = 3,
    Pipeline = 4,
    Follow = 5,
    /// Of a user's own: the group's `user`.
    User = 6,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub name: String,
    pub function: Function,
    /// The number of the user's own function.
    #[serde(default)]
    pub user: u32,
    /// What its members share who have reserved nothing themselves.
    #[serde(default)]
    pub reserve: Option<Reserve>,
    /// When its plans begin; none: when a member says so.
    #[serde(default)]
    pub begins_ns: Option<u64>,
    /// The level of the last stage's input before which they do not.
    #[serde(default)]
    pub bootstrap: u32,
    /// In the order of their numbers.
    pub roles: Vec<Role>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Role {
    /// Who plays it: the first living instance.
    pub task: TaskIndex,
    /// Intervals, each from and until when, relative to the plan's beginning.
    pub plan: Vec<(u64, u64)>,
    /// After so long the plan begins anew; 0: it does not.
    pub repeat_ns: u64,
    pub period_ns: u64,
    pub budget_ns: u64,
    /// The number of the role whose submissions it serves.
    pub follows: Option<u32>,
    pub follow_ns: u64,
    /// Of the queue behind a stage.
    pub high: u32,
    pub step: u32,
}

/// What a thread tells its group's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tell {
    /// It is about to submit something to who follows it.
    Submitting,
    Submitted,
    /// It has done what its interval was for.
    Done,
    /// Plans begin now.
    Trigger,
}

/// What became of an interval of a role, or of several that were passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// When the scheduler found it.
    pub at_ns: u64,
    /// Of those that were passed over 0, as the next one.
    pub from_ns: u64,
    pub until_ns: u64,
    /// Of one that begins: by how much its thread had the CPU too late.
    pub late_ns: u64,
    /// Of the setup's.
    pub group: usize,
    /// Of the group's.
    pub role: usize,
    pub count: u32,
    /// `enum consort_trace_became`.
    pub became: u32,
    /// `enum consort_trace_miss`, of those that are missed.
    pub why: u32,
}

/// What was found on a CPU.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// How much there has been so far.
    pub count: u64,
    /// Each with the number of the thread that plays the role.
    pub intervals: Vec<(i32, Interval)>,
    /// There was no room for these.
    pub lost: u64,
}

/// What became of a role's intervals.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RoleTotal {
    pub group: String,
    pub task: String,
    pub kept: u64,
    pub missed: Missed,
    /// From the beginnings of intervals, or wake-ups in them, until it ran.
    pub late_mean_ms: f64,
    pub late_max_ms: f64,
}

/// Intervals in which nobody ran, by cause: `enum miss` of core/role.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Missed {
    pub vacant: u64,
    pub asleep: u64,
    pub outside: u64,
    pub share: u64,
    pub others: u64,
}

impl Missed {
    pub fn all(&self) -> u64 {
        self.vacant + self.asleep + self.outside + self.share + self.others
    }
}
