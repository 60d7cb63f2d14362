// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `consort df` asks about functions, and what it is told of one that was to be loaded.

use serde::{Deserialize, Serialize};

/// Names a verification.
pub type Ticket = u64;

#[derive(Debug, Deserialize)]
#[serde(tag = "doing", rename_all = "snake_case")]
pub enum FunctionCommand {
    /// `object`: the object file, in hexadecimal. `replaces`: there is one of that name, which answers until the new one does.
    Load {
        name: String,
        object: String,
        #[serde(default)]
        replaces: bool,
    },
    /// What has become of it.
    Outcome {
        ticket: Ticket,
    },
    /// `uid`: somebody else's, by root.
    Remove {
        name: String,
        uid: Option<u32>,
    },
    List {
        after: Option<usize>,
    },
}

impl FunctionCommand {
    /// Whether it only looks.
    pub fn is_a_question(&self) -> bool {
        matches!(
            self,
            FunctionCommand::Outcome { .. } | FunctionCommand::List { .. }
        )
    }
}

/// What has become of a function that was to be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    Verifying,
    Loaded {
        /// That one answer takes at most.
        steps: u32,
        verified_us: u64,
    },
    Refused {
        why: String,
    },
}
