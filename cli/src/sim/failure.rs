// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every way in which a command of the simulator fails.

use std::{io, path::PathBuf};

use consort_sim::{scenario::LoadError, Error};

#[derive(Debug, thiserror::Error)]
pub enum SimFailure {
    #[error(transparent)]
    Scenario(#[from] LoadError),

    #[error("{}: {what}", path.display())]
    Plan { path: PathBuf, what: String },

    #[error("cannot run this scenario: {0}")]
    Run(#[from] Error),

    #[error("cannot read the folder {}: {source}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    #[error("cannot write {}: {source}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    #[error("cannot write to standard output: {0}")]
    Output(io::Error),

    #[error("{title} broke the rule {rule}: see above; the same scenario, seed and configuration break it again")]
    Violation { title: String, rule: &'static str },

    #[error("{title}: {count} reservation{s} refused: see above; the tasks ran without", s = if *count == 1 { " was" } else { "s were" })]
    Refused { title: String, count: usize },

    #[error("{0}")]
    Found(String),
}

impl SimFailure {
    /// The exit code that `consort --help` documents.
    pub fn exit_code(&self) -> u8 {
        match self {
            SimFailure::Plan { .. }
            | SimFailure::Scenario(LoadError::Bad(_))
            | SimFailure::Run(Error::Setup { .. }) => 2,
            SimFailure::Refused { .. } => 9,
            SimFailure::Violation { .. } | SimFailure::Found(_) => 8,
            _ => 1,
        }
    }
}
