// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which host carries a member: the kernel's scheduler if a daemon answers, else user level, else none.

use crate::Error;

/// Overrides the choice.
pub const HOST_VARIABLE: &str = "CONSORT_HOST";

/// Where a member may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The best that is there, now and later.
    Automatic,
    Kernel,
    UserLevel,
    None,
}

impl Choice {
    /// What the user wants.
    pub fn of_environment() -> Result<Choice, Error> {
        match std::env::var(HOST_VARIABLE).unwrap_or_default().as_str() {
            "" => Ok(Choice::Automatic),
            "kernel" => Ok(Choice::Kernel),
            "user" => Ok(Choice::UserLevel),
            "none" => Ok(Choice::None),
            other => Err(Error::UnknownHost {
                value: other.into(),
            }),
        }
    }

    pub fn allows_kernel(self) -> bool {
        matches!(self, Choice::Automatic | Choice::Kernel)
    }

    pub fn allows_user_level(self) -> bool {
        matches!(self, Choice::Automatic | Choice::UserLevel)
    }
}
