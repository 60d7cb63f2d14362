// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every way in which the command fails, and its exit code.

use std::{io, path::PathBuf};

use consort_daemon::{
    config::ConfigError, handover::HandoverError, lock::LockError, Refusal, ServeError,
};
use consort_df::{BuildError, Problem};
use consort_groups::{accessors::SameName, Problems};
use consort_kernel::{format_ns, Error as KernelError, ExitReport};
use consort_trace::ReadError;
use nix::errno::Errno;

use crate::{demo::DemoFailure, df::RecordError, sim::SimFailure};

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("no consort daemon listens at {}: start one with `sudo consort serve`", .0.display())]
    NoDaemon(PathBuf),

    #[error(
        "no consort daemon listens at {}: start one with `sudo consort serve`; without one, members of a domain cooperate \
         among themselves, at user level, where CONSORT_DOMAIN={domain} is in the environment instead",
        socket.display()
    )]
    NoDaemonForDomain { socket: PathBuf, domain: String },

    #[error("may not connect to the daemon at {}: {source}. Its socket is open to all users by default; ask who changed that", path.display())]
    SocketPermission {
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    #[error("cannot talk to the daemon: {0}")]
    Connection(String),

    #[error("the daemon refused: {}", .0.text)]
    Refused(Refusal),

    #[error(transparent)]
    Serve(#[from] ServeError),

    #[error(
        "the kernel ejected the scheduler: {0}. Everything runs under the stock scheduler now. {advice}",
        advice = advice(.0)
    )]
    Ejected(ExitReport),

    #[error(
        "the kernel ejected the scheduler {count} times, the last time in safe mode, and the daemon gives up: {report}. \
         Everything runs under the stock scheduler now, as it does without Consort. Keep the lines above, the dumps that \
         they name and those of dmesg, and report them; something else than Consort may keep tasks from running, such as \
         a real-time program that never sleeps"
    )]
    GaveUp { report: ExitReport, count: u64 },

    #[error("cannot run {command}: {source}")]
    Exec {
        command: String,
        #[source]
        source: io::Error,
    },

    #[error("{}", .0.text)]
    BadDomain(Refusal),

    #[error("cannot write {}: {source}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    #[error("cannot read {}: {source}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    #[error(transparent)]
    GroupFile(#[from] Problems),

    #[error(transparent)]
    Accessors(#[from] SameName),

    #[error("{}: {problem}", path.display())]
    Function {
        path: PathBuf,
        #[source]
        problem: Problem,
    },

    #[error(transparent)]
    Build(#[from] BuildError),

    #[error(transparent)]
    DfRecord(#[from] RecordError),

    #[error("{name} was not loaded: {why}")]
    NotVerified { name: String, why: String },

    #[error("no group file {0:?} is in force: `consort show` lists those that are")]
    NoGroupFile(String),

    #[error("cannot write to standard output: {0}")]
    Output(io::Error),

    #[error(
        "recording the scheduler needs root: run it with sudo; the command's own events alone need none, with --only event,due"
    )]
    RecordNeedsRoot,

    #[error("cannot record: {0}")]
    Record(io::Error),

    #[error("there is nothing to record: events are a command's, and none is named. Name one behind --, or record switches")]
    NothingToRecord,

    #[error(transparent)]
    Trace(#[from] ReadError),

    #[error("nothing in {} fits {text}", file.display())]
    NothingFits { file: PathBuf, text: String },

    #[error(
        "--from is {} and --to {}: expected --to to be later",
        format_ns(*from_ns),
        format_ns(*to_ns)
    )]
    FromAfterTo { from_ns: u64, to_ns: u64 },

    #[error("there is no process {0}")]
    NoProcess(i32),

    #[error("{tid} is a thread of process {pid}: give the process")]
    NoProcessButThread { tid: i32, pid: i32 },

    #[error(transparent)]
    Kernel(#[from] KernelError),

    #[error(transparent)]
    Classes(#[from] ConfigError),

    #[error(transparent)]
    Sim(#[from] SimFailure),

    #[error(transparent)]
    Demo(#[from] DemoFailure),

    #[error("cannot opt in to the scheduler: {0}: this kernel has no sched_ext, or forbids it to this process")]
    OptIn(io::Error),
}

impl Failure {
    /// The exit code that `consort --help` documents.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::BadDomain(_)
            | Failure::NothingToRecord
            | Failure::FromAfterTo { .. }
            | Failure::GroupFile(_)
            | Failure::Function { .. }
            | Failure::Build(_)
            | Failure::DfRecord(_)
            | Failure::Accessors(_) => 2,
            Failure::Sim(failure) => failure.exit_code(),
            Failure::NoDaemon(_) | Failure::NoDaemonForDomain { .. } => 3,
            Failure::SocketPermission { .. }
            | Failure::RecordNeedsRoot
            | Failure::Serve(ServeError::Handover(HandoverError::NotPermitted)) => 4,
            Failure::Refused(refusal) => match refusal.errno {
                Errno::EPERM => 4,
                Errno::ERANGE => 2,
                _ => 1,
            },
            Failure::Serve(ServeError::Lock(LockError::Held { .. } | LockError::Busy { .. })) => 6,
            Failure::Serve(ServeError::Lock(LockError::File { source, .. }))
            | Failure::Serve(ServeError::Listen { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                4
            }
            Failure::Classes(_) => 2,
            Failure::Kernel(error) | Failure::Serve(ServeError::Kernel(error)) => {
                kernel_exit_code(error)
            }
            Failure::Demo(DemoFailure::NoDaemon) => 3,
            Failure::OptIn(_) => 5,
            Failure::Ejected(_) | Failure::GaveUp { .. } => 7,
            Failure::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Failure::Exec { .. } => 126,
            _ => 1,
        }
    }
}

fn kernel_exit_code(error: &KernelError) -> u8 {
    match error {
        KernelError::NotPermitted => 4,
        KernelError::NoSchedExt { .. }
        | KernelError::TooOld { .. }
        | KernelError::TooManyCpus { .. } => 5,
        KernelError::Busy { .. } => 6,
        KernelError::Tunable { .. } => 2,
        _ => 1,
    }
}

/// What to do after the scheduler has left the kernel.
fn advice(report: &ExitReport) -> &'static str {
    if !report.is_fault() {
        return "Somebody asked for it (SysRq-S detaches any scheduler): start `consort serve` again when you like.";
    }
    "Keep the lines above, the dump that they name and those of dmesg, report them, and start `consort serve` again: \
     it may happen again under the same load, and `--partial` limits whom it concerns."
}
