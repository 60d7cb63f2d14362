// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with a scenario, and where.

use std::{fmt, io, path::PathBuf};

/// A place in a scenario's text: both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// Of the byte `offset` in `text`.
    pub fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// A scenario that cannot be used: `FILE:LINE:COLUMN: FIELD: what is wrong, expected what`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadScenario {
    pub file: String,
    pub position: Position,
    /// Path of the field, such as `tasks.player.phases.play.run`; empty: the text is no JSON at this place.
    pub field: String,
    /// What was wrong, and what was expected.
    pub text: String,
}

impl fmt::Display for BadScenario {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.position;
        write!(to, "{}:{line}:{column}: ", self.file)?;
        if !self.field.is_empty() {
            write!(to, "{}: ", self.field)?;
        }
        to.write_str(&self.text)
    }
}

impl std::error::Error for BadScenario {}

/// Why no scenario came of a file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read the scenario {}: {source}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Bad(#[from] BadScenario),
}
