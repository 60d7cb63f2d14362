// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong in a measurement.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not {what}: {source}")]
    Io {
        what: String,
        source: std::io::Error,
    },
    #[error(
        "a child process ({pid}) ended with wait status {status}, expected 0: its message is above"
    )]
    Child { pid: i32, status: i32 },
    #[error("a child's answer is not valid: {0}")]
    Json(serde_json::Error),
    #[error("{0}")]
    Usage(String),
    #[error("could not cooperate: {0}")]
    Cooperation(consort::Error),
    #[error("joined no domain: no daemon answers; start `consort serve`")]
    NotAMember,
}

impl Error {
    /// An error of the last system call, as errno tells it.
    pub fn last_os(what: &str) -> Self {
        Self::io(what, std::io::Error::last_os_error())
    }

    pub fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io {
            what: what.into(),
            source,
        }
    }
}
