// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mix in the fluid ideal itself: tasks work at their parts of it, sleep, and come back.
//!
//! Rule     From event to event (a task is done, wakes, or comes) all who work are poured into at the rates of the ideal.
//! Limits   Random lengths are their means, players work evenly, and who is not known to sleep always works. Where sets of
//!          tasks are too many to be poured for, it ends early; then who comes later is unknown, and nothing is said.

use crate::fluid::{demand, weight_of_nice, Claim, Demand, Ideal};
use crate::setup::{Program, Setup, Step};
use std::collections::HashMap;
use std::rc::Rc;

/// Sets of tasks that are poured for.
const SETS_MAX: usize = 20_000;
const EVENTS_MAX: usize = 2_000_000;
/// Less of the run than this says nothing.
const LEAST_NS: f64 = 5e8;
const FRAME_NS: f64 = 1e9 / 24.0;

#[derive(Clone, Copy)]
enum State {
    Works { left_ns: f64, since_ns: f64 },
    Sleeps { until_ns: f64 },
}

/// What one task does again and again.
#[derive(Clone, Copy)]
struct Cycle {
    run_ns: f64,
    /// After the work; or from one piece of work to the next.
    sleep_ns: f64,
    is_period: bool,
}

fn cycle_of(program: &Program) -> Cycle {
    let period_ns = match program {
        Program::Player(_) => FRAME_NS,
        Program::Steps(steps) => period_ns(steps).unwrap_or(0.0),
        _ => 0.0,
    };
    match demand(program) {
        Demand::Closed { run_ns, sleep_ns } => Cycle {
            run_ns,
            sleep_ns,
            is_period: false,
        },
        Demand::Open { part } | Demand::About { part } if period_ns > 0.0 => Cycle {
            run_ns: part * period_ns,
            sleep_ns: period_ns,
            is_period: true,
        },
        _ => Cycle {
            run_ns: f64::INFINITY,
            sleep_ns: 0.0,
            is_period: false,
        },
    }
}

/// Of the first timer that a program waits for.
fn period_ns(steps: &[Step]) -> Option<f64> {
    use crate::setup::Due::Timer;
    steps.iter().find_map(|step| match step {
        Step::Timer { period_ns, .. }
        | Step::Poll {
            due: Timer { period_ns, .. },
            ..
        } => Some(*period_ns as f64),
        Step::Loop { steps, .. } => self::period_ns(steps),
        _ => None,
    })
}

/// The part of one CPU that each task has from `from_ns` to `to_ns`; none: too much to be poured for.
pub fn poured(setup: &Setup, from_ns: u64, to_ns: u64) -> Option<Vec<f64>> {
    let mut ideal = Ideal::of(setup);
    let claims = setup.tasks.iter().map(|task| Claim {
        group: task.cgroup,
        weight: weight_of_nice(task.nice),
        most: 1.0,
        set: ideal.set_of(task.affinity.as_deref()),
    });
    let claims: Vec<Claim> = claims.collect();
    let cycles: Vec<Cycle> = setup.tasks.iter().map(|it| cycle_of(&it.program)).collect();
    let start_ns = |at: usize| {
        setup.tasks[at]
            .start_ns
            .map_or(f64::INFINITY, |ns| ns as f64)
    };
    let starts = (0..claims.len()).map(|at| State::Sleeps {
        until_ns: start_ns(at),
    });
    let mut pouring = Pouring {
        ideal,
        claims,
        states: starts.collect(),
        had_ns: vec![0.0; cycles.len()],
        cycles,
        now_ns: 0.0,
        from_ns: from_ns as f64,
        kept: HashMap::new(),
    };
    let to_ns = to_ns as f64;
    for _ in 0..EVENTS_MAX {
        if pouring.now_ns >= to_ns || pouring.kept.len() >= SETS_MAX {
            break;
        }
        pouring.go_on(to_ns);
    }
    let window_ns = pouring.now_ns - pouring.from_ns;
    let is_late =
        (0..pouring.states.len()).any(|at| (pouring.now_ns..to_ns).contains(&start_ns(at)));
    if window_ns < LEAST_NS.min(to_ns - pouring.from_ns) || is_late {
        return None;
    }
    Some(
        pouring
            .had_ns
            .iter()
            .map(|had_ns| had_ns / window_ns)
            .collect(),
    )
}

struct Pouring {
    ideal: Ideal,
    claims: Vec<Claim>,
    cycles: Vec<Cycle>,
    states: Vec<State>,
    had_ns: Vec<f64>,
    now_ns: f64,
    from_ns: f64,
    kept: HashMap<Vec<u32>, Rc<[f64]>>,
}

impl Pouring {
    fn rates(&mut self, working: Vec<u32>) -> Rc<[f64]> {
        if let Some(rates) = self.kept.get(&working) {
            return Rc::clone(rates);
        }
        let claims: Vec<Claim> = working.iter().map(|at| self.claims[*at as usize]).collect();
        let rates: Rc<[f64]> = self.ideal.shares(&claims).into();
        self.kept.insert(working, Rc::clone(&rates));
        rates
    }

    /// To the next event.
    fn go_on(&mut self, to_ns: f64) {
        for (state, cycle) in self.states.iter_mut().zip(&self.cycles) {
            if let State::Sleeps { until_ns } = *state {
                if until_ns <= self.now_ns {
                    *state = State::Works {
                        left_ns: cycle.run_ns,
                        since_ns: until_ns,
                    };
                }
            }
        }
        let works = |at: &u32| matches!(self.states[*at as usize], State::Works { .. });
        let working: Vec<u32> = (0..self.states.len() as u32).filter(works).collect();
        let rates = self.rates(working.clone());
        // Where what counts begins, a step ends.
        let mut step_ns = match self.now_ns < self.from_ns {
            true => self.from_ns.min(to_ns) - self.now_ns,
            false => to_ns - self.now_ns,
        };
        for state in &self.states {
            if let State::Sleeps { until_ns } = state {
                step_ns = step_ns.min(until_ns - self.now_ns);
            }
        }
        for (at, rate) in working.iter().zip(rates.iter()) {
            if let State::Works { left_ns, .. } = self.states[*at as usize] {
                step_ns = step_ns.min(left_ns / rate.max(1e-12));
            }
        }
        let counts = self.now_ns >= self.from_ns;
        self.now_ns += step_ns;
        for (at, rate) in working.iter().zip(rates.iter()) {
            self.work(*at as usize, rate * step_ns, counts);
        }
    }

    fn work(&mut self, at: usize, did_ns: f64, counts: bool) {
        let State::Works { left_ns, since_ns } = self.states[at] else {
            return;
        };
        if counts {
            self.had_ns[at] += did_ns;
        }
        let left_ns = left_ns - did_ns;
        // A nanosecond's rest is rounding.
        self.states[at] = match (left_ns > 1.0, self.cycles[at]) {
            (true, _) => State::Works { left_ns, since_ns },
            (false, cycle) if cycle.is_period => State::Sleeps {
                until_ns: (since_ns + cycle.sleep_ns).max(self.now_ns),
            },
            (false, cycle) => State::Sleeps {
                until_ns: self.now_ns + cycle.sleep_ns,
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(text: &str) -> Vec<f64> {
        let setup = crate::scenario::parse("p.json", text).unwrap().setup;
        poured(&setup, 0, setup.duration_ns).unwrap()
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 2e-3, "{value}, not {expected}");
    }

    #[test]
    fn a_sleeper_works_at_its_part() {
        let all = shares(
            r#"{"tasks": {"hog": {"hog": true, "instance": 3}, "s": {"run": 2000, "sleep": 20000}}}"#,
        );
        assert_near(all[3], 2.0 / 28.0);
        assert_near(all[0], (1.0 - 2.0 / 28.0) / 3.0);
    }

    #[test]
    fn who_comes_together_slows_each_other_down() {
        // Three at a time beside a hog on two CPUs: each works at half a CPU, and the hog has a CPU of its own in between.
        let all = shares(
            r#"{"machine": {"cpus": 2}, "tasks": {"s": {"run": 1000, "sleep": 2000, "instance": 3}, "h": {"hog": true}}}"#,
        );
        assert_near(all[0], 0.25);
        assert_near(all[3], 0.75);
    }

    #[test]
    fn timers_do_not_wait_for_work() {
        let timer = r#""timer": {"ref": "unique", "period": "10ms"}"#;
        let all = shares(&format!(
            r#"{{"tasks": {{"t": {{"run": 3000, {timer}}}, "h": {{"hog": true}}}}}}"#
        ));
        assert_near(all[0], 0.3);
        let all = shares(&format!(
            r#"{{"tasks": {{"t": {{"run": 8000, {timer}}}, "h": {{"hog": true}}}}}}"#
        ));
        assert_near(all[0], 0.5);
    }
}
