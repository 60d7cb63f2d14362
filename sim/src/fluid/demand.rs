// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program asks for in the long run, as far as its text says.

use crate::setup::{Due, Length, Program, Step};

/// Joining and leaving: the program sleeps until the daemon has answered.
const DAEMON_NS: f64 = 60_000.0;

/// Of one CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// All it can get.
    All,
    /// Works, then sleeps, and again: the later it is done, the later it asks again. The mean of random lengths.
    Closed { run_ns: f64, sleep_ns: f64 },
    /// So much work in each period, however late it was.
    Open { part: f64 },
    /// About so much: what it does depends on what it gets.
    About { part: f64 },
    /// It ends, waits for others, or changes what it does.
    Unknown,
}

impl Demand {
    /// The most that it can use.
    pub fn most(self) -> f64 {
        match self {
            Demand::All | Demand::Unknown => 1.0,
            Demand::Closed { run_ns, sleep_ns } => run_ns / (run_ns + sleep_ns),
            Demand::Open { part } | Demand::About { part } => part.min(1.0),
        }
    }

    /// What it has in the long run if it runs at `rate` whenever it wants to.
    pub fn at_rate(self, rate: f64) -> f64 {
        match self {
            Demand::Closed { run_ns, sleep_ns } if rate > 0.0 => {
                run_ns / (run_ns / rate + sleep_ns)
            }
            _ => rate.min(self.most()),
        }
    }

    /// Whether lengths, not chance or what it gets, say what it asks for.
    pub fn is_exact(self) -> bool {
        !matches!(self, Demand::About { .. } | Demand::Unknown)
    }
}

/// Of a program, after whatever it does at first.
pub fn demand(program: &Program) -> Demand {
    match program {
        Program::Hog | Program::MuteLiar { .. } | Program::PoliteLiar { .. } => Demand::All,
        Program::Garbage { .. } | Program::Script { .. } => Demand::Unknown,
        Program::Player(player) => Demand::About {
            part: player.load.min(1.0),
        },
        Program::Steps(steps) => match endless(steps) {
            Some(cycle) => of_cycle(cycle),
            None => Demand::Unknown,
        },
    }
}

/// The innermost of the loops without end that is met first.
fn endless(steps: &[Step]) -> Option<&[Step]> {
    steps.iter().find_map(|step| match step {
        Step::Loop { times, steps } => match endless(steps) {
            Some(inner) => Some(inner),
            None if times.is_none() => Some(&steps[..]),
            None => None,
        },
        _ => None,
    })
}

/// What a turn of a loop consists of.
#[derive(Default)]
struct Turn {
    run_ns: f64,
    sleep_ns: f64,
    period_ns: f64,
    is_random: bool,
    is_odd: bool,
}

fn of_cycle(steps: &[Step]) -> Demand {
    let mut turn = Turn::default();
    turn.add(steps, 1.0);
    let (run_ns, sleep_ns) = (turn.run_ns, turn.sleep_ns);
    if turn.is_odd || run_ns <= 0.0 || (turn.period_ns > 0.0 && sleep_ns > 0.0) {
        return Demand::Unknown;
    }
    let demand = match turn.period_ns > 0.0 {
        true => Demand::Open {
            part: (run_ns / turn.period_ns).min(1.0),
        },
        false if sleep_ns > 0.0 => Demand::Closed { run_ns, sleep_ns },
        false => Demand::All,
    };
    match turn.is_random && demand != Demand::All {
        true => Demand::About {
            part: demand.most(),
        },
        false => demand,
    }
}

impl Turn {
    fn add(&mut self, steps: &[Step], times: f64) {
        for step in steps {
            match step {
                Step::Run(length) => self.run_ns += times * self.mean_ns(length),
                Step::Sleep(length) => self.sleep_ns += times * self.mean_ns(length),
                Step::Timer { period_ns, .. } => self.period_ns += times * *period_ns as f64,
                Step::Join(_) | Step::Leave => self.sleep_ns += times * DAEMON_NS,
                // With best-effort work it gives way, and does not sleep.
                Step::Poll {
                    best_effort: Some(_),
                    ..
                }
                | Step::Yield => {}
                Step::Poll { due, .. } => self.add_poll(due, times),
                Step::Loop {
                    times: Some(turns),
                    steps,
                } => self.add(steps, times * *turns as f64),
                _ => self.is_odd = true,
            }
        }
    }

    fn add_poll(&mut self, due: &Due, times: f64) {
        match due {
            Due::In(length) => self.sleep_ns += times * self.mean_ns(length),
            Due::Timer { period_ns, .. } => self.period_ns += times * *period_ns as f64,
            Due::Never | Due::Raw(_) => self.is_odd = true,
        }
    }

    fn mean_ns(&mut self, length: &Length) -> f64 {
        self.is_random |= !matches!(length, Length::Fixed(_));
        match length {
            Length::Fixed(ns) => *ns as f64,
            Length::Uniform { min_ns, max_ns } => (min_ns + max_ns) as f64 / 2.0,
            Length::Normal { mean_ns, .. }
            | Length::Exponential { mean_ns }
            | Length::Vbr { mean_ns } => *mean_ns as f64,
            Length::Series(all) => all.iter().sum::<u64>() as f64 / all.len().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(task: &str) -> Demand {
        let text = format!(r#"{{"domains": {{"d": {{}}}}, "tasks": {{"t": {task}}}}}"#);
        let scenario = crate::scenario::parse("t.json", &text).unwrap();
        demand(&scenario.setup.tasks[0].program)
    }

    #[test]
    fn a_program_says_what_it_asks_for() {
        let closed = |run_ns, sleep_ns| Demand::Closed { run_ns, sleep_ns };
        assert_eq!(of(r#"{"hog": true}"#), Demand::All);
        assert_eq!(of(r#"{"run": 2000, "sleep": 20000}"#), closed(2e6, 2e7));
        let timer = r#"{"run": 500, "timer": {"ref": "unique", "period": "5ms"}}"#;
        assert_eq!(of(timer), Demand::Open { part: 0.1 });
        let member = r#"{"phases": {"a": {"join": "d", "poll": "1ms"}, "b": {"loop": -1, "run": 1500, "poll": "8ms"}}}"#;
        assert_eq!(of(member), closed(1.5e6, 8e6));
        let gives_way = r#"{"phases": {"a": {"join": "d"}, "b": {"loop": -1, "run": 1000,
            "poll": {"due": "never", "priority": 0, "key": 0}}}}"#;
        assert_eq!(of(gives_way), Demand::All);
        assert_eq!(of(r#"{"loop": 3, "run": 1000}"#), Demand::Unknown);
        let by_chance = r#"{"run": {"exponential": "1ms"}, "sleep": "3ms"}"#;
        assert_eq!(of(by_chance), Demand::About { part: 0.25 });
    }

    #[test]
    fn who_is_slow_asks_later() {
        let asks = Demand::Closed {
            run_ns: 2.0,
            sleep_ns: 20.0,
        };
        assert!((asks.at_rate(1.0) - asks.most()).abs() < 1e-12);
        assert!((asks.at_rate(0.25) - 2.0 / 28.0).abs() < 1e-12);
        assert_eq!(Demand::Open { part: 0.3 }.at_rate(0.2), 0.2);
        assert_eq!(Demand::All.at_rate(0.0), 0.0);
    }
}
