// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario of the simulator, carried out by processes: what the simulator is held to.

use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS};
use crate::error::Error;
use crate::processes::{set_name, spawn};
use crate::work;
use clap::Args;
use consort::{Domain, Member, Next, NEVER};
use consort_sim::setup::{self, Due, Length, Program, Setup, Step, Task};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Time for all processes to be started.
const START_DELAY_NS: u64 = 500 * NS_PER_MS;
/// Of kernels with CONFIG_HZ=250.
const TICK_NS: u64 = 4 * NS_PER_MS;
/// How long a hog works between looks at the clock: as in the simulator, nobody sees it do that.
const HOG_PIECE_NS: u64 = 1_000 * NS_PER_MS;
/// Names of the processes begin with it, so that whoever records knows them.
const NAME_PREFIX: &str = "c:";

#[derive(Debug, Args)]
pub struct Options {
    /// The scenario: tasks with run, sleep, timer, yield, join, poll, leave and loops, all of fixed length, or hogs
    pub scenario: PathBuf,
}

/// Carries the scenario out; when it began, on CLOCK_MONOTONIC.
pub fn run(options: &Options) -> Result<Value, Error> {
    let scenario = consort_sim::scenario::load(&options.scenario, None);
    let setup = scenario
        .map_err(|error| Error::Usage(error.to_string()))?
        .setup;
    // In step with the kernel's ticks, as in the simulator.
    let begin_ns = (now_ns() + START_DELAY_NS).next_multiple_of(TICK_NS);
    let started: Vec<_> = setup
        .tasks
        .iter()
        .filter(|task| task.start_ns.is_some())
        .collect();
    let children: Vec<_> = started
        .into_iter()
        .map(|task| {
            let (setup, task) = (setup.clone(), task.clone());
            spawn(move || be(&setup, &task, begin_ns))
        })
        .collect::<Result<_, _>>()?;
    for child in children {
        child.wait()?;
    }
    Ok(json!({ "begin_ns": begin_ns }))
}

/// What one process knows while it carries its task out.
struct Running<'a> {
    setup: &'a Setup,
    end_ns: u64,
    /// The latest multiple of each timer.
    timers: BTreeMap<u32, u64>,
    member: Option<Member>,
}

/// Breaks where the run is over, or the program is.
type Flow = Result<ControlFlow<()>, Error>;

const GO_ON: Flow = Ok(ControlFlow::Continue(()));
const ENDED: Flow = Ok(ControlFlow::Break(()));

fn be(setup: &Setup, task: &Task, begin_ns: u64) -> Result<(), Error> {
    set_name(&format!("{NAME_PREFIX}{}", task.name))?;
    crate::processes::lock_memory();
    if task.nice != 0 {
        crate::processes::set_nice(task.nice)?;
    }
    let mut running = Running {
        setup,
        end_ns: begin_ns + setup.duration_ns,
        timers: BTreeMap::new(),
        member: None,
    };
    sleep_until_ns(begin_ns + task.start_ns.unwrap_or(0));
    match &task.program {
        Program::Steps(steps) => running.all(steps).map(|_| ()),
        Program::Hog => {
            while now_ns() < running.end_ns {
                work::burn_ns(HOG_PIECE_NS.min(running.end_ns - now_ns().min(running.end_ns)));
            }
            Ok(())
        }
        other => Err(unable(&format!("{other:?}"))),
    }
}

fn unable(what: &str) -> Error {
    Error::Usage(format!(
        "{what} is not carried out by processes, only simulated"
    ))
}

fn fixed(length: &Length) -> Result<u64, Error> {
    match length {
        Length::Fixed(ns) => Ok(*ns),
        other => Err(unable(&format!("{other:?}"))),
    }
}

impl Running<'_> {
    fn all(&mut self, steps: &[Step]) -> Flow {
        for step in steps {
            if now_ns() >= self.end_ns {
                return ENDED;
            }
            if self.one(step)?.is_break() {
                return ENDED;
            }
        }
        GO_ON
    }

    fn one(&mut self, step: &Step) -> Flow {
        match step {
            Step::Run(length) => work::burn_ns(fixed(length)?),
            Step::Sleep(length) => sleep_until_ns(now_ns() + fixed(length)?),
            Step::Timer {
                timer,
                period_ns,
                absolute,
            } => {
                let due_ns = self.next_of_timer(*timer, *period_ns, *absolute);
                sleep_until_ns(due_ns);
            }
            // SAFETY: takes and changes nothing.
            Step::Yield => drop(unsafe { libc::sched_yield() }),
            Step::Nice(nice) => crate::processes::set_nice(*nice)?,
            Step::Join(domain) => {
                let setup::Domain {
                    name,
                    event_ns,
                    preempt,
                    ..
                } = &self.setup.domains[*domain];
                let domain = Domain::named(name.as_str())
                    .event_ns(*event_ns)
                    .preempt(*preempt);
                self.member = Some(domain.join().map_err(Error::Cooperation)?);
            }
            Step::Leave => self.member = None,
            Step::Poll { due, best_effort } => self.poll(due, *best_effort)?,
            Step::Exit => return ENDED,
            Step::Loop { times, steps } => return self.turns(*times, steps),
            other => return Err(unable(&format!("{other:?}"))),
        }
        GO_ON
    }

    fn turns(&mut self, times: Option<u64>, steps: &[Step]) -> Flow {
        let mut left = times.unwrap_or(u64::MAX);
        while left > 0 {
            left -= u64::from(times.is_some());
            if self.all(steps)?.is_break() {
                return ENDED;
            }
        }
        GO_ON
    }

    /// As the simulator counts them.
    fn next_of_timer(&mut self, timer: u32, period_ns: u64, absolute: bool) -> u64 {
        let now_ns = now_ns();
        let at_ns = self.timers.entry(timer).or_insert(now_ns);
        *at_ns += period_ns;
        if *at_ns < now_ns && !absolute {
            *at_ns = now_ns;
        }
        *at_ns
    }

    fn poll(&mut self, due: &Due, best_effort: Option<(u32, u64)>) -> Result<(), Error> {
        let due_ns = match due {
            Due::Never => NEVER,
            Due::In(length) => now_ns() + fixed(length)?,
            Due::Timer {
                timer,
                period_ns,
                absolute,
            } => self.next_of_timer(*timer, *period_ns, *absolute),
            Due::Raw(due_ns) => *due_ns,
        };
        let next = Next {
            due_ns,
            best_effort,
        };
        let Some(member) = &self.member else {
            return Err(Error::NotAMember);
        };
        member.poll(next).map_err(Error::Cooperation)?;
        Ok(())
    }
}
