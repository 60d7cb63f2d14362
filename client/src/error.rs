// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong, in words and as an errno.

use crate::layout::{
    DUE_AHEAD_MAX_NS, EVENT_MAX_NS, EVENT_MIN_NS, NAME_MAX, PRIORITY_MAX, RATE_ONE_CPU, SLOTS,
    VARIABLES,
};
use crate::usage::USAGE_PERIOD_MIN_NS;

/// Why a call failed: what was wrong, what was expected, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("priority {priority} is out of range: 0 (runs first) to {PRIORITY_MAX} is expected")]
    PriorityRange { priority: u32 },
    #[error(
        "due time {due_ns} ns lies {ahead_ns} ns ahead: at most {DUE_AHEAD_MAX_NS} ns (a day) is \
         expected; submit it later, or check that it is a CLOCK_MONOTONIC time"
    )]
    DueRange { due_ns: u64, ahead_ns: u64 },
    #[error(
        "poll would sleep for ever: give it a due time, a best-effort event, or file descriptors \
         to wait for"
    )]
    NothingToWaitFor,
    #[error(
        "a priority or key is given and best_effort is 0: set best_effort to 1, or all three to 0 for no best-effort event"
    )]
    NoBestEffort,
    #[error("file descriptor {fd} cannot be waited for, as it is always ready (regular files and folders are): use it without waiting, in another thread if it may block")]
    AlwaysReady { fd: i32 },
    #[error("file descriptor {fd} is not open: expected one that stays open until its event is cancelled")]
    NotOpen { fd: i32 },
    #[error("file descriptor {fd} is no epoll instance: expected what epoll_create1() returned")]
    NoEpoll { fd: i32 },
    #[error("variable {index} is out of range: 0 to {last} is expected, by the order in the group file", last = VARIABLES - 1)]
    VariableRange { index: usize },
    #[error("domain name of {bytes} bytes is too long: at most {NAME_MAX} are expected")]
    NameTooLong { bytes: usize },
    #[error(
        "domain name {name:?} contains {bad:?}: names are visible ASCII characters other than '/'"
    )]
    NameCharacter { name: String, bad: char },
    #[error(
        "thread name {name:?} is none: 1 to {NAME_MAX} of a-z, A-Z, 0-9, '-' and '_' are expected"
    )]
    ThreadName { name: String },
    #[error("domain name is not ASCII text: names are visible ASCII characters other than '/'")]
    NameEncoding,
    #[error("longest event of {event_ns} ns is out of range: {EVENT_MIN_NS} to {EVENT_MAX_NS} ns is expected, or 0 for the scheduler's choice")]
    EventRange { event_ns: u64 },
    // In whole numbers: the standard library's formatting of others is a fiftieth of the library.
    #[error("rate {} is out of range: a part of one CPU, 0.000001 to 1, is expected", in_cpus(*millionths))]
    RateRange { millionths: i64 },
    #[error("class name of {bytes} bytes is too long: at most {NAME_MAX} are expected")]
    ClassTooLong { bytes: usize },
    #[error("asking for the usage every {period_ns} ns is out of range: {USAGE_PERIOD_MIN_NS} to {DUE_AHEAD_MAX_NS} ns is expected, the daemon looks once a second")]
    UsagePeriod { period_ns: u64 },
    #[error("no daemon is there to reserve with: start `consort serve`")]
    NoDaemon,
    #[error("{what} is {value}, which this version does not know")]
    UnknownOption { what: &'static str, value: u32 },
    #[error("CONSORT_HOST is {value:?}: kernel, user or none is expected, or nothing for the best that is there")]
    UnknownHost { value: Box<str> },
    #[error("this thread is a member already: leave first, or use the member it has")]
    AlreadyMember,
    #[error("{SLOTS} threads of this process are members already: let one of them leave first")]
    NoFreeSlot,
    #[error("this process was forked after joining and is not a member: join again in the child")]
    Forked,
    #[error("this member has left its domain: join again")]
    Left,
    #[error("called from another thread than the one it belongs to: call it from there")]
    WrongThread,
    #[error("the daemon refused to {action}: {text}")]
    Refused {
        action: &'static str,
        errno: i32,
        text: Box<str>,
    },
    #[error(
        "what answers at the daemon's socket does not speak this version's language ({what}): \
         install a daemon and a libconsort of the same version"
    )]
    Protocol { what: Box<str> },
    #[error("the daemon did not answer within {waited_ms} ms: see whether it hangs")]
    NoAnswer { waited_ms: u64 },
    #[error("the daemon closed the connection")]
    Gone,
    #[error("{call} failed: {source}")]
    System {
        call: &'static str,
        source: std::io::Error,
    },
    #[error("file descriptor {fd} is waited for by another event: submit one event per file descriptor, or dup() it")]
    DescriptorTaken { fd: i32 },
    #[error("there is no such event in this loop: it was removed, or belongs to another loop")]
    UnknownEvent,
    #[error("the event was submitted to another loop: finish it before submitting it here")]
    OtherLoop,
    #[error("this loop is running already: call this from outside its callbacks")]
    Running,
    #[error("a signal handler has interrupted another call of this member: leave when that has returned")]
    Interrupted,
    #[error("{what} is null: a valid pointer is expected")]
    Null { what: &'static str },
    #[error("thread {server} cannot answer: it has ended, or is none; begin another call, to a server that is there")]
    NoServer { server: u32 },
    #[error("a call to thread {server} is under way on this train: wait for its end, or use another train")]
    CallUnderWay { server: u32 },
    #[error("thread {server} has not answered yet: wait again, the call goes on")]
    NotAnswered { server: u32 },
    #[error("the server waits for this thread, or is it: let one of them answer first")]
    Circle,
    #[error(
        "no call to this thread is under way on this train: only its server ends a call, once"
    )]
    NotTheServer,
}

impl Error {
    /// A failed system call, with the errno that it left.
    pub(crate) fn system(call: &'static str) -> Error {
        Error::System {
            call,
            source: std::io::Error::last_os_error(),
        }
    }

    pub(crate) fn protocol(what: impl Into<String>) -> Error {
        Error::Protocol {
            what: what.into().into_boxed_str(),
        }
    }

    /// The positive errno that C callers get, negated.
    pub fn errno(&self) -> i32 {
        match self {
            Error::PriorityRange { .. }
            | Error::DueRange { .. }
            | Error::NothingToWaitFor
            | Error::NoBestEffort
            | Error::NoEpoll { .. }
            | Error::VariableRange { .. }
            | Error::NameCharacter { .. }
            | Error::ThreadName { .. }
            | Error::NameEncoding
            | Error::EventRange { .. }
            | Error::RateRange { .. }
            | Error::UsagePeriod { .. }
            | Error::UnknownOption { .. }
            | Error::UnknownHost { .. }
            | Error::Null { .. } => libc::EINVAL,
            Error::NameTooLong { .. } | Error::ClassTooLong { .. } => libc::ENAMETOOLONG,
            Error::NoDaemon => libc::ENOTCONN,
            Error::AlreadyMember | Error::DescriptorTaken { .. } => libc::EEXIST,
            Error::NoFreeSlot => libc::EAGAIN,
            Error::Forked => libc::ESTALE,
            Error::Left | Error::Gone => libc::ENOTCONN,
            Error::WrongThread | Error::AlwaysReady { .. } => libc::EPERM,
            Error::NotOpen { .. } => libc::EBADF,
            Error::Refused { errno, .. } => *errno,
            Error::Protocol { .. } => libc::EPROTO,
            Error::NoAnswer { .. } => libc::ETIMEDOUT,
            Error::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            Error::UnknownEvent => libc::ENOENT,
            Error::Running | Error::Interrupted | Error::OtherLoop | Error::CallUnderWay { .. } => {
                libc::EBUSY
            }
            Error::NoServer { .. } => libc::ESRCH,
            Error::NotAnswered { .. } => libc::ETIMEDOUT,
            Error::Circle => libc::EDEADLK,
            Error::NotTheServer => libc::EPERM,
        }
    }
}

/// In whole numbers, as above.
fn in_cpus(millionths: i64) -> String {
    let one = u64::from(RATE_ONE_CPU);
    let (whole, part) = (
        millionths.unsigned_abs() / one,
        millionths.unsigned_abs() % one,
    );
    let sign = if millionths < 0 { "-" } else { "" };
    let text = format!("{sign}{whole}.{part:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
