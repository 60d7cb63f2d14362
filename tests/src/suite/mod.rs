// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs tests one after the other, each in its own process group, and looks after each whether the scheduler
//! and the kernel came through it.

pub mod board;
pub mod client;
pub mod consort;
pub mod diagnosis;
pub mod machine;
pub mod manager;
pub mod process;
pub mod sleepers;

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{killpg, Signal},
    unistd::Pid,
};

use crate::cases;
use consort::Daemon;
use machine::KernelLog;

/// Why a test failed: what was seen, and what was expected.
pub type Outcome = Result<(), String>;

/// Fails the test with a text unless the condition holds.
#[macro_export]
macro_rules! check {
    ($condition:expr, $($text:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err(format!($($text)+));
        }
    };
}

/// On which guests a test runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cpus {
    Any,
    One,
    Many,
    /// Guests into which CPUs can be plugged.
    Growing,
}

/// What a test finds when it starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// A daemon that serves with default settings; it must still serve when the test has ended.
    Daemon,
    /// The same, and a machine whose clock counts instructions if it has one CPU: another program beside the guest
    /// would make the outcome another.
    SteadyDaemon,
    /// No daemon; the test starts its own and must end it.
    NoDaemon,
    /// The same, and the test has the kernel eject the scheduler: what the kernel says of that is no complaint.
    Ejection,
}

impl Needs {
    /// Whether the test shares a daemon with others.
    fn shares_a_daemon(self) -> bool {
        matches!(self, Needs::Daemon | Needs::SteadyDaemon)
    }
}

pub struct Test {
    pub name: &'static str,
    pub cpus: Cpus,
    pub needs: Needs,
    pub run: fn() -> Outcome,
}

impl Test {
    /// One of a guest with one CPU.
    pub const fn on_one(name: &'static str, needs: Needs, run: fn() -> Outcome) -> Self {
        Self {
            name,
            cpus: Cpus::One,
            needs,
            run,
        }
    }
}

/// Longer than the kernel waits before it ejects a scheduler that stalls (30 s), and than any wait inside a test.
const TEST_TIME_MAX: Duration = Duration::from_secs(300);
/// How long members of a finished test may take to vanish from the daemon's lists.
const SETTLE: Duration = Duration::from_secs(30);

pub fn list() -> ExitCode {
    for test in cases::all() {
        let cpus = match test.cpus {
            Cpus::Any => "any",
            Cpus::One => "one",
            Cpus::Many => "many",
            Cpus::Growing => "growing",
        };
        let daemon = match test.needs {
            Needs::Daemon => "shared",
            Needs::SteadyDaemon => "steady",
            Needs::NoDaemon | Needs::Ejection => "own",
        };
        println!("{} {cpus} {daemon}", test.name);
    }
    ExitCode::SUCCESS
}

/// The body of `consort-tests test NAME`.
pub fn run_one(name: &str) -> ExitCode {
    let Some(test) = cases::all().find(|test| test.name == name) else {
        eprintln!("there is no test {name}: see `consort-tests list`");
        return ExitCode::from(2);
    };
    match (test.run)() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Whether a test is meant: by its name, or by a part of the names of several.
fn is_meant(test: &Test, pattern: &str) -> bool {
    let is_name = cases::all().any(|test| test.name == pattern);
    test.name == pattern || !is_name && test.name.contains(pattern)
}

/// Runs all tests that fit this machine. The last line of the output says that the suite came to its end.
pub fn run(patterns: &[&str]) -> ExitCode {
    let one_cpu = machine::possible_cpus() == 1;
    let grows = machine::present_cpus() < machine::possible_cpus();
    let mut chosen: Vec<&Test> = cases::all()
        .filter(|test| {
            (patterns.is_empty() || patterns.iter().any(|pattern| is_meant(test, pattern)))
                && match test.cpus {
                    Cpus::Any => true,
                    Cpus::One => one_cpu,
                    Cpus::Many => !one_cpu,
                    Cpus::Growing => grows,
                }
        })
        .collect();
    // Loading takes longer than most tests: those that share a daemon come after those that have their own.
    chosen.sort_by_key(|test| test.needs.shares_a_daemon());
    let mut failed = 0;
    for test in chosen {
        let began = Instant::now();
        let outcome = supervise(test);
        let took_s = began.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("ok {} {took_s:.1}", test.name),
            Err(text) => {
                failed += 1;
                println!("FAILED {} {took_s:.1}", test.name);
                text.lines().for_each(|line| println!("    {line}"));
            }
        }
    }
    println!("end of suite");
    ExitCode::from(u8::from(failed > 0))
}

fn supervise(test: &Test) -> Outcome {
    let mut log = KernelLog::open()?;
    match test.needs {
        Needs::Daemon | Needs::SteadyDaemon => Daemon::ensure()?,
        Needs::NoDaemon | Needs::Ejection => Daemon::end_any()?,
    }
    let outcome = in_own_process(test);
    let aftermath = aftermath(test);
    let mut complaints = log.complaints();
    if test.needs == Needs::Ejection {
        complaints.retain(|line| !machine::is_ejection(line));
    }
    if aftermath.is_err() {
        // The next test shall not suffer for this one.
        Daemon::end_any()?;
    }
    let mut problems: Vec<String> = [outcome, aftermath]
        .into_iter()
        .filter_map(Result::err)
        .collect();
    if !complaints.is_empty() {
        problems.push(format!("the kernel complained:\n{}", complaints.join("\n")));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n")),
    }
}

fn in_own_process(test: &Test) -> Outcome {
    let output = format!("/tmp/{}.out", test.name);
    let file = File::create(&output).map_err(|error| format!("cannot make {output}: {error}"))?;
    let errors = file.try_clone().map_err(|error| error.to_string())?;
    let mut child = Command::new("/proc/self/exe")
        .args(["test", test.name])
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start the test: {error}"))?;
    let group = Pid::from_raw(child.id() as i32);
    let status = process::wait_at_most(&mut child, TEST_TIME_MAX);
    // The test's programs end with it, whatever it left behind.
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait();
    let said = fs::read_to_string(&output).unwrap_or_default();
    match status {
        None => Err(format!(
            "did not end within {} s; scheduler {}; it said:\n{said}",
            TEST_TIME_MAX.as_secs(),
            machine::scheduler_state()
        )),
        Some(status) if status.success() => Ok(()),
        Some(status) if status.code() == Some(1) => Err(said),
        Some(status) => Err(format!("ended with {status}; it said:\n{said}")),
    }
}

/// After each test that got a daemon, the scheduler serves on and holds nobody who has gone.
fn aftermath(test: &Test) -> Outcome {
    if !test.needs.shares_a_daemon() {
        return Ok(());
    }
    let state = machine::scheduler_state();
    check!(
        state == "enabled",
        "after the test the scheduler is {state:?}"
    );
    process::wait_until(
        SETTLE,
        "after the test, that its members and domains vanish",
        || {
            let status = consort::status()?;
            Ok(status["daemon"]["members"] == 0 && status["daemon"]["domains"] == 0)
        },
    )
}
