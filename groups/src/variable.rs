// SPDX-License-Identifier: MIT OR Apache-2.0
//! State and control variables (003 section 3.2.1): words that a thread shares with its group's decision function. The
//! first value says the type.

use std::fmt;

use crate::units::shown_ns;

/// State variables of a member; control variables of a member.
pub const VARIABLES_MAX: usize = 4;
pub const NAME_BYTES_MAX: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub first: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Integer(i64),
    Boolean(bool),
    /// In nanoseconds.
    Duration(u64),
}

impl Value {
    /// As it is in the shared word.
    pub fn word(self) -> i64 {
        match self {
            Value::Integer(value) => value,
            Value::Boolean(value) => i64::from(value),
            Value::Duration(ns) => i64::try_from(ns).unwrap_or(i64::MAX),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(value) => write!(f, "{value}"),
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Duration(ns) => f.write_str(&shown_ns(*ns)),
        }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.first)
    }
}

/// Whether accessors in C, Rust and Python can be called so.
pub(crate) fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_lowercase());
    starts
        && name.len() <= NAME_BYTES_MAX
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
