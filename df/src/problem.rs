// SPDX-License-Identifier: MIT OR Apache-2.0

use crate::{INSTRUCTIONS_MAX, OBJECT_BYTES_MAX, STACK_BYTES};

/// Why an object is no decision function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("the object has {0} bytes: expected at most {OBJECT_BYTES_MAX}; compile without -g")]
    TooLarge(usize),
    #[error("this is no object file for the BPF machine: {0}. `consort df build` makes one of a C source")]
    NoObject(String),
    #[error("it defines no function: expected df_key or df_pick, as consort_df.h declares them")]
    NoFunction,
    #[error("it defines both df_key and df_pick: expected one of them")]
    TwoFunctions,
    #[error(
        "{0} is visible from outside: expected it to be static inline, beside df_key or df_pick"
    )]
    Visible(String),
    #[error("it has the section {0}: expected no variables outside of functions, no constant tables and no strings; what is \
             to be kept goes to g->memory")]
    Section(String),
    #[error("it refers to {0}, which is not in the function: expected no calls, no variables outside of it and no constant \
             tables; helpers of your own are to be static inline, with __attribute__((always_inline)) if need be")]
    Reference(String),
    #[error("it has {0} instructions: expected at most {INSTRUCTIONS_MAX}")]
    TooLong(usize),
    #[error("instruction {at}: {what}")]
    Refused { at: usize, what: Refused },
    #[error("the function is too long for its jumps once it is confined: expected a shorter one")]
    JumpsTooFar,
}

/// What no instruction may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("it calls something: expected no calls, helpers of your own are to be static inline")]
    Call,
    #[error(
        "it takes the address of a local variable: expected no arrays or structs on the stack"
    )]
    StackAddress,
    #[error("it reaches beyond its stack of {STACK_BYTES} bytes, or not at a multiple of the number's size")]
    Stack,
    #[error(
        "it is atomic: expected plain reads and writes, the record is a copy that nobody shares"
    )]
    Atomic,
    #[error("it loads the address of something outside of the function")]
    Address,
    #[error("it jumps out of the function")]
    JumpsOut,
    #[error("it goes beyond the end of the function")]
    NoEnd,
    #[error("it is no instruction that a function may use")]
    Unknown,
}
