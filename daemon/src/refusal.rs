// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer to a request that is not granted.

use nix::errno::Errno;

/// An errno for the program, and for its author a text that says what was wrong, what was expected and
/// what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text} ({errno:?})")]
pub struct Refusal {
    pub errno: Errno,
    pub text: String,
}

impl Refusal {
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Refusal {
            errno,
            text: text.into(),
        }
    }
}

impl From<consort_kernel::Error> for Refusal {
    fn from(error: consort_kernel::Error) -> Self {
        Refusal::new(Errno::from_raw(error.errno()), error.to_string())
    }
}

impl From<consort_rates::Refusal> for Refusal {
    fn from(refusal: consort_rates::Refusal) -> Self {
        Refusal::new(refusal.errno, refusal.text)
    }
}
