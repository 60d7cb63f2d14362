// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may have been promised which part of the CPU: classes, the admission test, and credits (004 section 3, 001). Pure:
//! nothing here talks to anybody. The daemon keeps its books with it, and so does the simulator.

pub mod accounts;
pub mod admission;
pub mod classes;
pub mod credits;
pub mod duration;
pub mod rate;
mod refusal;

pub use refusal::Refusal;

/// Classes that the scheduler has room for.
pub const CLASSES_MAX: usize = 16;
/// All CPUs, as the capacity of a class; one CPU, as a rate: the scheduler's parts.
pub const RATE_ONE: u32 = 1 << 20;

/// How every run queue is divided, in parts of [`RATE_ONE`]; by the classes' numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassTable {
    /// 0: there is no such class.
    pub capacity: [u32; CLASSES_MAX],
    /// What is left for everybody else; not 0.
    pub flexible: u32,
    pub order: [classes::Order; CLASSES_MAX],
}
