// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consort command and its daemon, as a user meets them.

use std::{
    fs::OpenOptions,
    io::Read,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{kill, Signal},
    unistd::Pid,
};
use serde_json::Value;

use super::{
    machine,
    process::{look_until, wait_at_most, wait_until, PATIENCE},
    Outcome,
};
use crate::check;

const COMMAND: &str = "consort";
/// The kernel verifies the scheduler while it loads, which an emulator with many CPUs on a busy host does slowly.
pub const LOADING: Duration = Duration::from_secs(250);
pub const SOCKET: &str = "/run/consort/consort.sock";
pub const DAEMON_LOG: &str = "/results/daemon.log";

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Fails unless the exit code is `code` and the error text contains each of `words`.
    pub fn expect(&self, code: i32, words: &[&str]) -> Outcome {
        check!(
            self.code == code,
            "exit code {} instead of {code}: {self:?}",
            self.code
        );
        for word in words {
            check!(
                self.err.contains(word),
                "the message lacks {word:?}: {:?}",
                self.err
            );
        }
        Ok(())
    }
}

/// Runs `consort ARGUMENTS` as root until it ends.
pub fn consort(arguments: &[&str]) -> Result<Said, String> {
    consort_as(0, arguments)
}

pub fn consort_as(uid: u32, arguments: &[&str]) -> Result<Said, String> {
    let mut command = Command::new(COMMAND);
    command.args(arguments);
    if uid != 0 {
        command.uid(uid).gid(uid);
    }
    run(command)
}

/// Runs a command until it ends. What it says must fit into a pipe.
pub fn run(mut command: Command) -> Result<Said, String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let Some(status) = wait_at_most(&mut child, 2 * PATIENCE) else {
        let _ = child.kill();
        return Err(format!("{command:?} does not end"));
    };
    let (mut out, mut err) = (String::new(), String::new());
    let read = child
        .stdout
        .take()
        .map(|mut pipe| pipe.read_to_string(&mut out));
    read.transpose().map_err(|error| error.to_string())?;
    let read = child
        .stderr
        .take()
        .map(|mut pipe| pipe.read_to_string(&mut err));
    read.transpose().map_err(|error| error.to_string())?;
    Ok(Said {
        code: status.code().unwrap_or(-1),
        out,
        err,
    })
}

/// `consort status --json`.
pub fn status() -> Result<Value, String> {
    let said = consort(&["status", "--json"])?;
    said.expect(0, &[])?;
    serde_json::from_str(&said.out)
        .map_err(|error| format!("status is no JSON: {error}: {:?}", said.out))
}

/// One of the scheduler's counters.
pub fn counter(name: &str) -> Result<u64, String> {
    status()?["counters"][name]
        .as_u64()
        .ok_or_else(|| format!("status has no counter {name}"))
}

/// What a domain runs at most before others do.
pub fn slice_ns() -> Result<u64, String> {
    let slice_ns = status()?["tunables"]["granularity_ns"].as_u64();
    slice_ns.ok_or_else(|| "status tells no granularity".to_owned())
}

/// `consort usage --json`: the list.
pub fn reservations() -> Result<Vec<Value>, String> {
    let said = consort(&["usage", "--json"])?;
    said.expect(0, &[])?;
    let usage: Value = serde_json::from_str(&said.out).map_err(|error| error.to_string())?;
    let list = usage["reservations"].as_array().cloned();
    list.ok_or_else(|| format!("usage has no list of reservations: {}", said.out))
}

/// How many threads are members of domains now.
pub fn members() -> Result<u64, String> {
    status()?["daemon"]["members"]
        .as_u64()
        .ok_or_else(|| "status has no daemon.members".to_owned())
}

pub fn await_members(number: u64) -> Outcome {
    wait_until(PATIENCE, &format!("{number} members"), || {
        let now = members()?;
        match now == number {
            true => Ok(true),
            false => Err(format!("there are {now}")),
        }
    })
}

/// A daemon that a test has started; ended by SIGTERM when it goes out of scope, unless it is kept.
pub struct Daemon {
    child: Child,
}

/// A guest with several CPUs has emulated ones that are some thirty times slower than real ones, and a clock that is
/// not: with the usual slices a switch would take longer than what runs between two.
fn slices() -> &'static [&'static str] {
    match machine::possible_cpus() {
        1 => &[],
        _ => &["--granularity", "80ms", "--min-slice", "4ms"],
    }
}

/// The same CPUs need thirty times as long for what a user asks of the daemon: a file in which users may have so much more of
/// its time.
fn slow_limits() -> Result<Option<&'static str>, String> {
    const PATH: &str = "/tmp/slow-limits.toml";
    if machine::possible_cpus() == 1 {
        return Ok(None);
    }
    std::fs::write(PATH, "[limits]\ncpu_percent = 30\n")
        .map_err(|error| format!("cannot write {PATH}: {error}"))?;
    Ok(Some(PATH))
}

impl Daemon {
    /// Starts `consort serve OPTIONS` and waits until it serves. Its log goes to the results.
    pub fn start(options: &[&str]) -> Result<Daemon, String> {
        let mut daemon = Daemon::start_with(options, |_| ())?;
        daemon.await_serving()?;
        Ok(daemon)
    }

    pub fn start_with(
        options: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Daemon, String> {
        let mut words = vec!["serve"];
        words.extend(slices());
        words.extend(options);
        let own_classes = options.contains(&"--classes");
        if let Some(path) = slow_limits()?.filter(|_| !own_classes) {
            words.extend(["--classes", path]);
        }
        Daemon::spawn(Command::new(COMMAND), &words, prepare)
    }

    fn spawn(
        mut command: Command,
        words: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Daemon, String> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(DAEMON_LOG)
            .map_err(|error| format!("cannot open {DAEMON_LOG}: {error}"))?;
        command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        // Not of the test's group, which is killed with the test.
        command.process_group(0);
        prepare(&mut command);
        let child = command
            .spawn()
            .map_err(|error| format!("cannot start the daemon: {error}"))?;
        Ok(Daemon { child })
    }

    /// Starts a daemon that takes over from this one, and waits until it has.
    pub fn replaced(mut self, options: &[&str]) -> Result<Daemon, String> {
        let mut options = options.to_vec();
        options.push("--replace");
        let new = Daemon::start_with(&options, |_| ())?;
        // Another scheduler is verified first, while programs run.
        let code = self.exit_code_within(LOADING)?;
        check!(
            code == 0,
            "the daemon that was replaced ended with exit code {code}"
        );
        wait_until(PATIENCE, "the daemon that takes over", || {
            Ok(Daemon::running_pid()? == new.pid())
        })?;
        Ok(new)
    }

    /// The same as [`Daemon::start_with`], by a shell that says something before it becomes the daemon.
    pub fn start_by_shell(
        options: &[&str],
        before: &str,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Daemon, String> {
        let script = format!("{before} {COMMAND} serve \"$@\"");
        let mut words = vec!["-c", &script, COMMAND];
        words.extend(slices());
        words.extend(options);
        Daemon::spawn(Command::new("sh"), &words, prepare)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn await_serving(&mut self) -> Outcome {
        let mut ended = None;
        wait_until(LOADING, "the daemon to serve", || {
            ended = self.child.try_wait().ok().flatten();
            // Without a daemon it says what there is at user level.
            let serves = machine::scheduler_state() == "enabled";
            Ok(ended.is_some() || (serves && consort(&["status"])?.code == 0))
        })?;
        if let Some(status) = ended {
            let log = std::fs::read(DAEMON_LOG).unwrap_or_default();
            let said = String::from_utf8_lossy(&log);
            let last: Vec<&str> = said.lines().rev().take(12).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            return Err(format!(
                "the daemon ended with {status} instead of serving; its last words:\n{}",
                last.join("\n")
            ));
        }
        let state = machine::scheduler_state();
        check!(
            state == "enabled",
            "the daemon serves and the scheduler is {state:?}"
        );
        Ok(())
    }

    pub fn signal(&self, signal: Signal) -> Outcome {
        kill(Pid::from_raw(self.child.id() as i32), signal)
            .map_err(|errno| format!("cannot signal the daemon: {errno}"))
    }

    /// Its exit code, or -1 when a signal ended it.
    pub fn exit_code(&mut self) -> Result<i32, String> {
        self.exit_code_within(PATIENCE)
    }

    pub fn exit_code_within(&mut self, time_max: Duration) -> Result<i32, String> {
        match wait_at_most(&mut self.child, time_max) {
            Some(status) => Ok(status.code().unwrap_or(-1)),
            None => Err("the daemon does not end".to_owned()),
        }
    }

    /// Lets it run on after the test.
    pub fn keep(self) {
        std::mem::forget(self);
    }

    /// Makes sure that some daemon serves with default settings.
    pub fn ensure() -> Outcome {
        let state = machine::scheduler_state();
        let said = consort(&["status"])?;
        if state == "enabled" && said.code == 0 {
            return Ok(());
        }
        Daemon::end_any().map_err(|error| {
            format!("the scheduler was {state}, the command said {said:?}, and then: {error}")
        })?;
        Daemon::start(&[])?.keep();
        Ok(())
    }

    /// The process number of the daemon that serves now.
    pub fn running_pid() -> Result<u32, String> {
        let pid = status()?["daemon"]["pid"].as_u64();
        pid.and_then(|pid| u32::try_from(pid).ok())
            .ok_or_else(|| "status has no daemon.pid".to_owned())
    }

    /// Ends whatever daemon there is, by force if need be.
    pub fn end_any() -> Outcome {
        for pid in daemon_pids() {
            let pid = Pid::from_raw(pid);
            let _ = kill(pid, Signal::SIGCONT);
            let _ = kill(pid, Signal::SIGTERM);
        }
        let ended = look_until(Duration::from_secs(5), || Ok(daemon_pids().is_empty()));
        if ended != Ok(true) {
            daemon_pids().into_iter().for_each(|pid| {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            });
        }
        await_state("disabled")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The number of one that has been waited for may be another's.
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _ = self.signal(Signal::SIGTERM);
        if wait_at_most(&mut self.child, PATIENCE).is_none() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Of a process that is killed the kernel closes the highest descriptor first: the scheduler must have left the kernel before
/// the map of its timers is let go.
pub fn check_that_the_scheduler_goes_before_its_timers(daemon: u32) -> Outcome {
    let (mut links, mut timers) = (Vec::new(), Vec::new());
    let descriptors = std::fs::read_dir(format!("/proc/{daemon}/fdinfo"))
        .map_err(|error| format!("cannot list the daemon's descriptors: {error}"))?;
    for descriptor in descriptors.flatten() {
        let name = descriptor.file_name().to_string_lossy().into_owned();
        let number: u32 = name.parse().map_err(|_| format!("descriptor {name:?}"))?;
        // One that has been closed since has no text.
        let info = std::fs::read_to_string(descriptor.path()).unwrap_or_default();
        if info.contains("link_type:") {
            links.push(number);
        } else if is_array_of_timers(&info) {
            timers.push(number);
        }
    }
    check!(
        !timers.is_empty() && links.iter().max() > timers.iter().max(),
        "the daemon's link is {links:?}, and its timers are {timers:?}: killed, it would let the timers go first"
    );
    Ok(())
}

/// An array (BPF_MAP_TYPE_ARRAY) of what is as large as a `struct bpf_timer`.
fn is_array_of_timers(info: &str) -> bool {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    field("map_type:") == Some("2") && field("value_size:") == Some("16")
}

pub fn await_state(state: &str) -> Outcome {
    wait_until(PATIENCE, &format!("the scheduler to be {state}"), || {
        let now = machine::scheduler_state();
        match now == state {
            true => Ok(true),
            false => Err(format!("it is {now}")),
        }
    })
}

/// Processes that are `consort serve`, zombies not counted.
fn daemon_pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let is_daemon = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words
            .next()
            .is_some_and(|name| name.ends_with(COMMAND.as_bytes()))
            && words.next() == Some(b"serve")
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_daemon)
        .collect()
}
