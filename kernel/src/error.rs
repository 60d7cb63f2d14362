// SPDX-License-Identifier: GPL-2.0-only
//! Why the scheduler could not be loaded, or why it refused a request.

use std::io;

use crate::format_ns;

/// Every way in which talking to the scheduler fails. Each text says what was wrong, what was expected
/// and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "kernel {release} has no sched_ext: it was built without CONFIG_SCHED_CLASS_EXT or without BTF. \
         Boot a kernel that has both, version {needed} or newer (Debian: linux-image-amd64 of \
         trixie-backports or newer)"
    )]
    NoSchedExt {
        release: String,
        needed: &'static str,
    },

    #[error(
        "kernel {release} is too old: it lacks {missing}. Consort needs version {needed} or newer"
    )]
    TooOld {
        release: String,
        missing: String,
        needed: &'static str,
    },

    #[error("this needs root (CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN): run it with sudo, outside a container")]
    NotPermitted,

    #[error(
        "another sched_ext scheduler is attached ({name}), and the kernel takes one at a time: stop it first \
         (its own service or process; SysRq-S detaches any)"
    )]
    Busy { name: String },

    #[error("this machine has {cpus} CPUs, and the scheduler is built for at most {cpus_max}")]
    TooManyCpus { cpus: usize, cpus_max: u32 },

    #[error("the kernel refused to {doing}: {detail}")]
    Load { doing: &'static str, detail: String },

    #[error("{what}: {source}")]
    System {
        what: String,
        #[source]
        source: io::Error,
    },

    /// The scheduler itself answered with an errno (a positive number).
    #[error("the scheduler refused to {doing}: {}", io::Error::from_raw_os_error(*errno))]
    Refused { doing: &'static str, errno: i32 },

    #[error(
        "cannot {doing}: the scheduler runs in safe mode, with fair shares only, since the kernel ejected the full one \
         again and again. `consort status` says why; then restart the daemon"
    )]
    SafeMode { doing: &'static str },

    #[error(
        "{name} {} is out of range: expected {} to {}",
        format_ns(*value_ns), format_ns(*min_ns), format_ns(*max_ns)
    )]
    Tunable {
        name: &'static str,
        value_ns: u64,
        min_ns: u64,
        max_ns: u64,
    },
}

impl Error {
    /// The errno that says the same to a client: positive.
    pub fn errno(&self) -> i32 {
        match self {
            Error::NoSchedExt { .. } | Error::TooOld { .. } => libc::ENOSYS,
            Error::NotPermitted => libc::EPERM,
            Error::Busy { .. } => libc::EBUSY,
            Error::Load { .. } | Error::TooManyCpus { .. } => libc::EIO,
            Error::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            Error::Refused { errno, .. } => *errno,
            Error::SafeMode { .. } => libc::EHOSTDOWN,
            Error::Tunable { .. } => libc::ERANGE,
        }
    }

    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> Self {
        Error::System {
            what: what.into(),
            source,
        }
    }
}
