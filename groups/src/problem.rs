// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with a group file, and where.

use std::fmt;

/// Told at once: a file with more than these repeats one mistake.
const PROBLEMS_SHOWN: usize = 10;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// From 1 on.
    pub line: usize,
    /// The key with all that it is below of, such as `group.film.rate`; empty for what has none.
    pub key: String,
    /// What is wrong, and what would be valid.
    pub text: String,
}

/// All that is wrong with one file; never none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// The file's name as the reader called it.
    pub file: String,
    pub list: Vec<Problem>,
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.list.iter().take(PROBLEMS_SHOWN).enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:{}: ", self.file, problem.line)?;
            if !problem.key.is_empty() {
                write!(f, "{}: ", problem.key)?;
            }
            f.write_str(&problem.text)?;
        }
        match self.list.len().saturating_sub(PROBLEMS_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n{}: and {more} more", self.file),
        }
    }
}
