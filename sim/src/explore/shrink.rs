// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a failing scenario smaller while it fails: fewer tasks, actions, steps, faults, time.

use crate::setup::{Faults, Policy, Program, Setup, Step};
use std::time::{Duration, Instant};

/// What is left out may be all that took time: programs then run in circles, and so do we.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Tries every simplification again and again, until none helps or the budget of runs, or the time, is used up.
pub fn shrink(setup: &Setup, runs_max: u32, mut fails: impl FnMut(&Setup) -> bool) -> Setup {
    let begin = Instant::now();
    let mut best = setup.clone();
    let mut runs_left = runs_max;
    loop {
        let before = best.clone();
        for candidate in candidates(&best) {
            if runs_left == 0 || begin.elapsed() > TIME_MAX {
                return best;
            }
            runs_left -= 1;
            if candidate.check().is_ok() && fails(&candidate) {
                best = candidate;
                break;
            }
        }
        if best == before {
            return best;
        }
    }
}

/// Simpler setups, the boldest first.
fn candidates(setup: &Setup) -> Vec<Setup> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Setup)| {
        let mut smaller = setup.clone();
        change(&mut smaller);
        if smaller != *setup {
            all.push(smaller);
        }
    };
    add(&|s| s.actions.clear());
    let half = setup.actions.len() / 2;
    add(&|s| s.actions.truncate(half));
    add(&|s| drop(s.actions.drain(..half)));
    add(&|s| s.faults = Faults::default());
    for task in (0..setup.tasks.len()).rev() {
        // Indices of others must stay: the task never starts.
        add(&|s| s.tasks[task].start_ns = None);
    }
    add(&|s| s.groups.clear());
    add(&|s| s.duration_ns /= 2);
    for action in (0..setup.actions.len()).rev() {
        add(&|s| drop(s.actions.remove(action)));
    }
    for task in 0..setup.tasks.len() {
        add(&|s| s.tasks[task].cgroup = 0);
        add(&|s| s.tasks[task].nice = 0);
        add(&|s| s.tasks[task].affinity = None);
        add(&|s| s.tasks[task].policy = Policy::Normal);
        if setup.tasks[task].start_ns.is_some() {
            add(&|s| s.tasks[task].start_ns = Some(0));
        }
        for program in simpler_programs(&setup.tasks[task].program) {
            add(&|s| s.tasks[task].program = program.clone());
        }
    }
    add(&|s| s.faults.allocation = 0.0);
    add(&|s| s.faults.timer_late = 0.0);
    add(&|s| s.faults.timer_fails = 0.0);
    add(&|s| s.faults.lookup = 0.0);
    all
}

fn simpler_programs(program: &Program) -> Vec<Program> {
    match program {
        Program::Hog => Vec::new(),
        Program::Steps(steps) => {
            let mut all = vec![Program::Hog];
            all.extend(without_one(steps).into_iter().map(Program::Steps));
            all
        }
        _ => vec![Program::Hog],
    }
}

/// The steps without one of them, at any depth.
fn without_one(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    for at in 0..steps.len() {
        let mut fewer = steps.to_vec();
        fewer.remove(at);
        all.push(fewer);
        if let Step::Loop { times, steps: body } = &steps[at] {
            for body in without_one(body) {
                let mut inner = steps.to_vec();
                inner[at] = Step::Loop {
                    times: *times,
                    steps: body,
                };
                all.push(inner);
            }
        }
    }
    all
}
