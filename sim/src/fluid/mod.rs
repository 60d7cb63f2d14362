// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each task is entitled to, and how far from it a run is.
//!
//! Problem  A total hides who starved for a second, and a rule of one CPU says nothing of four. What is fair must be known
//!          for any tree of weights, any masks and any number of CPUs, at each instant.
//! Rule     The *fluid ideal* (ideal.rs): CPU time is poured into all runnable tasks at once, each at its part of the
//!          weights down the tree of cgroups. A task that has one CPU, all that it asks for, or whose CPUs are full, is closed,
//!          and its siblings go on with what was its part. *Lag* (lag.rs) is what a task was behind that ideal, over any
//!          window in which it always wanted the CPU.
//! Source   Weighted max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2); the test of
//!          what is feasible is a maximum flow (Megiddo 1974). Generalised processor sharing (Parekh and Gallager 1993)
//!          is the same on one CPU.
//! Limits   One definition where several are thinkable: a cgroup that is pinned pours its weight where its tasks are, in
//!          parts of what they weigh, as load on run queues does. It is not moved to where nobody else is, if that
//!          starved one of its own.

mod defined;
mod demand;
mod flow;
mod ideal;
mod lag;

pub use defined::is_defined;
pub use demand::{demand, Demand};
pub use ideal::{weight_of_cgroup, weight_of_nice, Claim, Ideal};
pub use lag::{Behind, Lag, LAG_MAX_SLICES};
