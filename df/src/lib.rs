// SPDX-License-Identifier: MIT OR Apache-2.0
//! Users' own decision functions: one C function against `consort_df.h`, compiled for the BPF machine.
//!
//! [`Object::read`] takes it out of an object file, by rules that keep it from everything but its own record;
//! [`Object::confine`] makes the program of it that the kernel loads; [`Object::run`] does on this machine what that does.
//! Everything here is pure, and takes whatever bytes there are.

mod build;
mod confine;
mod instruction;
mod machine;
mod object;
mod problem;
mod rules;

pub use build::{build, BuildError};
pub use confine::{Confined, RECORD_BYTES, RECORD_REACH};
pub use consort_abi::{df_group, df_member};
pub use instruction::Instruction;
pub use machine::{Answer, Record, STEPS_MAX};
pub use object::Object;
pub use problem::Problem;

/// The header that a function includes.
pub const HEADER: &str = include_str!("../../abi/consort_df.h");
/// The name that the source gives it.
pub const HEADER_NAME: &str = "consort_df.h";

/// The longest object that is looked at.
pub const OBJECT_BYTES_MAX: usize = 32 << 10;
/// Instructions of a function as it is compiled.
pub const INSTRUCTIONS_MAX: usize = 2048;
/// Bytes of the stack that a function has.
pub const STACK_BYTES: i16 = 256;

/// What the function answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `df_key`: each member's place.
    Keys,
    /// `df_pick`: which member goes first.
    Pick,
}

impl Kind {
    pub fn symbol(self) -> &'static str {
        match self {
            Kind::Keys => "df_key",
            Kind::Pick => "df_pick",
        }
    }
}
