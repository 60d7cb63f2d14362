// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs that a test starts.

use std::{
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{kill, Signal},
    unistd::Pid,
};

use super::{
    board::{Board, Field, VARIABLE},
    diagnosis::diagnosis,
    machine, Outcome,
};
use crate::check;

/// Ordinary users of the guest.
pub const ALICE: u32 = 1000;
pub const BOB: u32 = 1001;

const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A slow emulator on a busy host may take long for what takes milliseconds elsewhere.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for a process to end; `None` when it does not.
pub fn wait_at_most(child: &mut Child, time_max: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + time_max;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= until {
            return None;
        }
        sleep(LOOK_AGAIN);
    }
}

/// Looks again and again until `holds` says so, or `time_max` is over; returns what it said last.
pub fn look_until(
    time_max: Duration,
    mut holds: impl FnMut() -> Result<bool, String>,
) -> Result<bool, String> {
    let until = Instant::now() + time_max;
    loop {
        let last = holds();
        if last == Ok(true) || Instant::now() >= until {
            return last;
        }
        sleep(LOOK_AGAIN);
    }
}

/// Waits until `holds` says so; fails, naming `what` was awaited, when it does not within `time_max`.
pub fn wait_until(
    time_max: Duration,
    what: &str,
    holds: impl FnMut() -> Result<bool, String>,
) -> Outcome {
    let why = match look_until(time_max, holds) {
        Ok(true) => return Ok(()),
        Err(error) => format!("for {what}: {error}"),
        Ok(false) => format!("in vain for {what}"),
    };
    Err(format!(
        "waited {} s {why}\n{}",
        time_max.as_secs(),
        diagnosis()
    ))
}

/// Makes a thread (0: the caller) SCHED_FIFO, or SCHED_OTHER again.
pub fn set_realtime(tid: u32, realtime: bool) -> Outcome {
    match realtime {
        true => set_policy(tid, libc::SCHED_FIFO, 1),
        false => set_policy(tid, libc::SCHED_OTHER, 0),
    }
}

/// Gives a thread (0: the caller) a policy, and among real-time ones a priority.
pub fn set_policy(tid: u32, policy: i32, sched_priority: i32) -> Outcome {
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the kernel only reads the parameters.
    if unsafe { libc::sched_setscheduler(tid as i32, policy, &parameters) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(format!("cannot change the class of thread {tid}: {error}"));
    }
    Ok(())
}

/// A program of this crate; killed when it goes out of scope.
pub struct Role {
    pub name: String,
    pub board: Board,
    child: Child,
}

impl Role {
    /// Starts `role ARGUMENTS` as root.
    pub fn start(words: &str) -> Result<Role, String> {
        Role::start_as(0, words)
    }

    /// Starts it as a user.
    pub fn start_as(uid: u32, words: &str) -> Result<Role, String> {
        let mut command = Command::new("/proc/self/exe");
        if uid != 0 {
            command.uid(uid).gid(uid);
        }
        Role::spawn(command, words)
    }

    /// Starts it by a command that executes what follows its arguments, such as `consort run --`.
    pub fn ready_by(prefix: &str, words: &str) -> Result<Role, String> {
        let mut parts = prefix.split(' ');
        let mut command = Command::new(parts.next().unwrap_or_default());
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        command.args(parts).arg(program);
        let mut role = Role::spawn(command, words)?;
        role.await_ready()?;
        Ok(role)
    }

    fn spawn(mut command: Command, words: &str) -> Result<Role, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/board.{}.{number}", std::process::id()));
        let board = Board::create(&path)?;
        command
            .arg("role")
            .args(words.split(' '))
            .env(VARIABLE, board.path())
            // Without the daemon they are alone: what they do among themselves is userlevel/tests'.
            .env("CONSORT_HOST", "kernel")
            .stdin(Stdio::null());
        let child = command
            .spawn()
            .map_err(|error| format!("cannot start the role {words:?}: {error}"))?;
        Ok(Role {
            name: words.to_owned(),
            board,
            child,
        })
    }

    /// Starts it, and waits until it does what it is for.
    pub fn ready(words: &str) -> Result<Role, String> {
        Role::ready_as(0, words)
    }

    pub fn ready_as(uid: u32, words: &str) -> Result<Role, String> {
        let mut role = Role::start_as(uid, words)?;
        role.await_ready()?;
        Ok(role)
    }

    pub fn await_ready(&mut self) -> Outcome {
        let until = Instant::now() + PATIENCE;
        while self.get(Field::Ready) == 0 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!(
                    "{:?} ended with {status} before it was ready",
                    self.name
                ));
            }
            check!(Instant::now() < until, "{:?} did not get ready", self.name);
            sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn get(&self, field: Field) -> u64 {
        self.board.get(field)
    }

    /// Waits until a number of the role has reached `value`.
    pub fn await_field(&self, field: Field, value: u64) -> Outcome {
        let what = format!("{:?}'s {field:?} to reach {value}", self.name);
        wait_until(PATIENCE, &what, || Ok(self.get(field) >= value))
            .map_err(|text| format!("{text}; it is {}", self.get(field)))
    }

    /// Waits until a number of the role has risen by `more`.
    pub fn await_progress(&self, field: Field, more: u64) -> Outcome {
        self.await_field(field, self.get(field) + more)
    }

    /// Gives the role its next command and waits until it is done.
    pub fn command(&self, number: u64) -> Outcome {
        self.board.set(Field::Command, number);
        self.await_field(Field::Done, number)
    }

    pub fn cpu_time_ns(&self) -> Result<u64, String> {
        machine::cpu_time_ns(self.pid())
    }

    pub fn signal(&self, signal: Signal) -> Outcome {
        kill(Pid::from_raw(self.pid() as i32), signal)
            .map_err(|errno| format!("cannot signal {:?}: {errno}", self.name))
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the role to end by itself, and well.
    pub fn finish(&mut self) -> Outcome {
        self.finish_within(PATIENCE)
    }

    pub fn finish_within(&mut self, time_max: Duration) -> Outcome {
        match wait_at_most(&mut self.child, time_max) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{:?} ended with {status}", self.name)),
            None => Err(format!(
                "{:?} did not end within {} s",
                self.name,
                time_max.as_secs()
            )),
        }
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each role's part of the CPU time that all of them got during `window`: sums up to 1.
pub fn shares(roles: &[&Role], window: Duration) -> Result<Vec<f64>, String> {
    let before = roles
        .iter()
        .map(|role| role.cpu_time_ns())
        .collect::<Result<Vec<_>, _>>()?;
    sleep(window);
    let after = roles
        .iter()
        .map(|role| role.cpu_time_ns())
        .collect::<Result<Vec<_>, _>>()?;
    let spent: Vec<u64> = after
        .iter()
        .zip(&before)
        .map(|(after, before)| after.saturating_sub(*before))
        .collect();
    let all: u64 = spent.iter().sum();
    check!(all > 0, "nobody got any CPU time");
    Ok(spent.iter().map(|ns| *ns as f64 / all as f64).collect())
}

/// Windows of which one has to show what a guest with several CPUs promises: its emulator runs them in turn, as the
/// machine lets it, and who is wronged by the scheduler is wronged in all of them.
const WINDOWS: usize = 4;

/// Looks at the shares in one window after another until `verdict` finds nothing wrong; says what it found last.
pub fn shares_in_some_window(
    roles: &[&Role],
    window: Duration,
    verdict: impl Fn(&[f64]) -> Result<(), String>,
) -> Result<(), String> {
    let mut last = Ok(());
    for _ in 0..WINDOWS {
        last = verdict(&shares(roles, window)?);
        if last.is_ok() {
            break;
        }
    }
    last
}
