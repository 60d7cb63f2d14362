// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with a run before it begins.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{field} is {found}, {expected} was expected")]
    Setup {
        field: String,
        found: String,
        expected: String,
    },
    #[error("the machine has {cpus} CPUs and {llcs} last-level caches; this build of the scheduler has room for {cpus_max} and {llcs_max}")]
    TooLarge {
        cpus: u32,
        llcs: u32,
        cpus_max: u32,
        llcs_max: u32,
    },
    #[error("could not {doing}: the scheduler answered with errno {errno}")]
    Refused { doing: &'static str, errno: u32 },
    #[error("could not load the scheduler from {path}: {why}")]
    Load { path: String, why: String },
    #[error("could not {doing}: {source}")]
    System {
        doing: String,
        source: std::io::Error,
    },
}
