// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort run`.

use std::{ffi::OsString, io, os::unix::process::CommandExt, process::Command};

use consort_daemon::domains::parse_name;
use serde_json::json;

use crate::{args::RunArgs, connection::Connection, failure::Failure, reserve};

/// Where libconsort looks for the domain of a program that names none.
const DOMAIN_VARIABLE: &str = "CONSORT_DOMAIN";

/// Over which a rate is needed if nobody says so.
const PERIOD_NS: u64 = 30_000_000;

/// `SCHED_EXT` of the kernel's uapi/linux/sched.h, which libc does not know.
const SCHED_EXT: libc::c_int = 7;

/// Becomes the command, under the scheduler. Returns only to say why it did not.
pub fn run(args: &RunArgs) -> Result<std::convert::Infallible, Failure> {
    if let Some(name) = &args.domain {
        parse_name(name.as_bytes()).map_err(Failure::BadDomain)?;
    }
    // Without a daemon the command would run, but not as its user was promised.
    let connection = Connection::open().map_err(|failure| match (failure, &args.domain) {
        (Failure::NoDaemon(socket), Some(domain)) => Failure::NoDaemonForDomain {
            socket,
            domain: domain.clone(),
        },
        (failure, _) => failure,
    })?;
    connection.control(&json!({"command": "status"}))?;
    opt_in()?;
    if let (Some(class), Some(rate)) = (&args.class, args.rate) {
        // The command becomes this process, and keeps what it has.
        connection.control(&reserve::request(
            reserve::Whom::SELF,
            false,
            class,
            rate,
            args.period.unwrap_or(PERIOD_NS),
        ))?;
    }
    if let Some(name) = &args.name {
        connection.control(&json!({"command": "group", "doing": "name", "name": name}))?;
    }
    let mut command = command_of(&args.command)?;
    match args.domain.as_deref() {
        Some(domain) => command.env(DOMAIN_VARIABLE, domain),
        None => &mut command,
    };
    let source = command.exec();
    Err(failed_to_run(&command, source))
}

/// A command and its arguments, from the command line.
pub fn command_of(words: &[OsString]) -> Result<Command, Failure> {
    let (name, rest) = words.split_first().ok_or_else(|| Failure::Exec {
        command: String::new(),
        source: io::Error::from(io::ErrorKind::NotFound),
    })?;
    let mut command = Command::new(name);
    command.args(rest);
    Ok(command)
}

pub fn failed_to_run(command: &Command, source: io::Error) -> Failure {
    Failure::Exec {
        command: command.get_program().to_string_lossy().into_owned(),
        source,
    }
}

/// Puts this process, and what it will start, under the scheduler when that is partial.
fn opt_in() -> Result<(), Failure> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is this thread, and the kernel only reads the parameters.
    match unsafe { libc::sched_setscheduler(0, SCHED_EXT, &parameters) } {
        0 => Ok(()),
        _ => Err(Failure::OptIn(io::Error::last_os_error())),
    }
}
