// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's and the scheduler's own counters.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Context switches of the whole machine since boot.
pub fn context_switches() -> Result<u64, Error> {
    let stat = read("/proc/stat")?;
    stat.lines()
        .find_map(|line| line.strip_prefix("ctxt "))
        .and_then(|count| count.trim().parse().ok())
        .ok_or_else(|| unexpected("/proc/stat", "a line `ctxt <count>`"))
}

/// Turns that members of a domain at user level have given to each other; none if there is no such domain.
pub fn handovers(domain: &str) -> Option<u64> {
    let domains = consort_userlevel::inspect::domains(consort_userlevel::Runtime::of_user().path());
    let named = domains.iter().find(|it| it.name == domain);
    named.map(|it| it.handovers)
}

/// CPU time that a process has received, in ns.
pub fn cpu_time_ns(pid: libc::pid_t) -> Result<u64, Error> {
    let path = format!("/proc/{pid}/schedstat");
    read(&path)?
        .split_whitespace()
        .next()
        .and_then(|time_ns| time_ns.parse().ok())
        .ok_or_else(|| unexpected(&path, "a time in ns (CONFIG_SCHED_INFO)"))
}

/// Voluntary and involuntary context switches of a process.
pub fn switches_of(pid: libc::pid_t) -> Result<(u64, u64), Error> {
    let path = format!("/proc/{pid}/status");
    let status = read(&path)?;
    let count = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|count| count.trim().parse().ok())
            .ok_or_else(|| unexpected(&path, name))
    };
    Ok((
        count("voluntary_ctxt_switches:")?,
        count("nonvoluntary_ctxt_switches:")?,
    ))
}

fn read(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::io(format!("read {path}"), source))
}

fn unexpected(path: &str, expected: &str) -> Error {
    Error::Usage(format!("{path} has no {expected}"))
}

/// Which scheduler is in charge, and its counters where it is Consort.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scheduler {
    /// /sys/kernel/sched_ext/state; "absent" on a kernel without sched_ext.
    pub state: String,
    /// /sys/kernel/sched_ext/root/ops; empty when none is loaded.
    pub ops: String,
    /// What `consort status --json` printed; null where no command was given.
    pub status: Value,
}

/// Reads it; `consort` is the path of the command, if there is one to ask.
pub fn scheduler(consort: Option<&str>) -> Result<Scheduler, Error> {
    let line = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_string());
    let status = match consort {
        None => Value::Null,
        Some(path) => {
            let output = std::process::Command::new(path)
                .args(["status", "--json"])
                .output()
                .map_err(|source| Error::io(format!("run {path} status --json"), source))?;
            serde_json::from_slice(&output.stdout).map_err(|_| {
                Error::Usage(format!(
                    "{path} status --json printed no JSON; it said: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                ))
            })?
        }
    };
    Ok(Scheduler {
        state: line("/sys/kernel/sched_ext/state").unwrap_or_else(|_| "absent".into()),
        ops: line("/sys/kernel/sched_ext/root/ops").unwrap_or_default(),
        status,
    })
}
