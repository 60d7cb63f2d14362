// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mix's verdict: its numbers, and what does not hold.

use super::entitlement::{entitled, Entitled};
use super::ran::Ran;
use super::units::{domains_of, units};
use crate::error::Error;
use crate::fluid::{demand, Behind, Demand, LAG_MAX_SLICES};
use crate::scenario::Scenario;
use crate::setup::{Program, Setup, Task, TaskIndex};
use serde::Serialize;

/// CPU time against what a task is entitled to.
const SHARE_RATIO_MIN: f64 = 0.95;
/// Against EEVDF's share, where that is less than what the weights say.
const STOCK_RATIO_MIN: f64 = 0.9;
/// Less of a CPU than this is not held against EEVDF's.
const STOCK_SHARE_MIN: f64 = 0.003;
/// As it is by default.
const SHORTEST_SLICE_MS: f64 = 0.5;
/// Of a reserved rate.
const RESERVED_RATIO_MIN: f64 = 0.97;
/// So many slices must somebody be entitled to: shares of less are a matter of who was first.
const SLICES_MIN: f64 = 40.0;
const SLICE_MAX_NS: f64 = 4e6;
const SLICE_MIN_NS: f64 = 5e5;
/// Longest waits: against EEVDF's, or this if that is more. A member's best effort waits for the others'.
const WAIT_RATIO_MAX: f64 = 2.0;
const WAIT_FLOOR_MS: f64 = 20.0;
const MEMBER_WAIT_FLOOR_MS: f64 = 550.0;
/// And nobody waits longer than that, however little it weighs.
const WAIT_MAX_MS: f64 = 2_500.0;
/// Joined against not joined.
const JOIN_SHARE_RATIO_MIN: f64 = 0.98;
const JOIN_TARDINESS_RATIO_MAX: f64 = 1.0;
const JOIN_TARDINESS_FLOOR_MS: f64 = 1.0;
/// What a poll, an interrupt and a switch may differ by; and, of a member that is late by seconds, the turn in which the
/// measuring ends.
const JOIN_TARDINESS_NOISE_MS: f64 = 0.02;
const JOIN_TARDINESS_NOISE: f64 = 0.001;
/// p99 of due events: against EEVDF's, or this.
const LATE_RATIO_MAX: f64 = 1.1;
const LATE_FLOOR_MS: f64 = 1.6;
/// Due events of which there are fewer have no p99.
const EVENTS_MIN: u64 = 50;
/// Switches a second: against EEVDF's, or so many a CPU.
const SWITCHES_RATIO_MAX: f64 = 3.0;
const SWITCHES_FLOOR: f64 = 2_500.0;
/// CPU time of members of a domain of the order `service`, the most against the least.
const SERVICE_RATIO_MAX: f64 = 1.03;
/// A task that has less than it asks for wants more.
const UNMET_PART: f64 = 0.9;
const ORDER_SERVICE: u32 = 2;

/// A number, and the task that it is of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worst {
    pub value: f64,
    pub task: String,
}

/// Joined against not joined.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Join {
    pub share_ratio_min: Option<Worst>,
    /// Of p99, where joined it is 1 ms or more.
    pub tardiness_p99_ratio_max: Option<Worst>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mix {
    pub name: String,
    /// None: nobody's entitlement is known, or none is large enough to be judged.
    pub share_ratio_min: Option<Worst>,
    pub wait_ratio_max: Worst,
    pub wait_max_ms: Worst,
    pub join: Option<Join>,
    pub fluid_lag: Option<Behind>,
    /// What does not hold, in words.
    pub broken: Vec<String>,
}

/// Runs a mix three times, and compares.
///
/// # Errors
/// As of [`crate::run`].
pub fn judge(scenario: &Scenario) -> Result<Mix, Error> {
    judge_as(scenario, "coop")
}

/// The same of another configuration than Consort.
fn judge_as(scenario: &Scenario, configuration: &str) -> Result<Mix, Error> {
    let own = Ran::new(scenario, configuration)?;
    let stock = Ran::new(scenario, "eevdf")?;
    let setup = &scenario.setup;
    let mut judging = Judging {
        setup,
        own: &own,
        stock: &stock,
        units: units(setup),
        broken: Vec::new(),
    };
    if let Some(violation) = &own.outcome.violation {
        let (rule, at_s) = (violation.rule, violation.at_ns as f64 / 1e9);
        judging.fail(format!("rule {rule} at {at_s:.2} s: {}", violation.detail));
    }
    let share_ratio_min = match setup.rates {
        None => judging.shares(),
        Some(_) => judging.reserved(),
    };
    let (wait_ratio_max, wait_max_ms) = judging.waits();
    judging.stock_shares();
    judging.late();
    judging.switches();
    judging.service();
    let join = match setup.tasks.iter().any(|task| task.may_join()) {
        true => Some(judging.join(&Ran::new(scenario, "fair")?)),
        false => None,
    };
    let fluid_lag = judging.lag();
    Ok(Mix {
        name: scenario.name.clone(),
        share_ratio_min,
        wait_ratio_max,
        wait_max_ms,
        join,
        fluid_lag,
        broken: judging.broken,
    })
}

struct Judging<'r> {
    setup: &'r Setup,
    own: &'r Ran,
    stock: &'r Ran,
    units: Vec<Vec<TaskIndex>>,
    broken: Vec<String>,
}

/// The least, or with `sign` -1 the most.
fn keep(worst: &mut Option<Worst>, sign: f64, value: f64, task: &str) {
    if worst
        .as_ref()
        .is_none_or(|it| sign * value < sign * it.value)
    {
        *worst = Some(Worst {
            value,
            task: task.to_owned(),
        });
    }
}

fn keep_most(worst: &mut Worst, value: f64, task: &str) {
    if value > worst.value {
        *worst = Worst {
            value,
            task: task.to_owned(),
        };
    }
}

impl Judging<'_> {
    fn fail(&mut self, text: String) {
        self.broken.push(text);
    }

    fn name(&self, task: TaskIndex) -> &str {
        &self.setup.tasks[task].name
    }

    fn is_member(&self, task: TaskIndex) -> bool {
        self.setup.tasks[task].may_join()
    }

    fn entitled(&self) -> Option<Vec<Entitled>> {
        entitled(self.setup, self.own.from_ns, self.own.to_ns)
    }

    /// CPU time in which a share is worth being judged.
    fn least_ns(&self) -> f64 {
        let tasks = self.setup.tasks.len() as f64 / f64::from(self.setup.machine.cpus());
        SLICES_MIN * (SLICE_MAX_NS / tasks.max(1.0)).max(SLICE_MIN_NS)
    }

    /// Each unit's CPU time against what it is entitled to.
    fn shares(&mut self) -> Option<Worst> {
        let entitled = self.entitled()?;
        let mut worst = None;
        for unit in self.units.clone() {
            let of = |task: &TaskIndex| match &entitled[*task] {
                it if !it.is_known => None,
                // Where others come in bursts, the ideal gives less than where they ask evenly for as much.
                it if it.is_exact && self.wants_all(*task) => {
                    Some(it.least.min(self.given_beside_stock(*task)))
                }
                it if it.is_exact => Some(it.least),
                it => Some(it.most.min(self.stock.share(*task))),
            };
            let Some(due) = unit.iter().map(of).sum::<Option<f64>>() else {
                continue;
            };
            if due * self.own.window_ns() < self.least_ns() {
                continue;
            }
            let share: f64 = unit.iter().map(|task| self.own.share(*task)).sum();
            let name = self.unit_name(&unit);
            if share / due < SHARE_RATIO_MIN {
                let (had, due) = (share * 100.0, due * 100.0);
                self.fail(format!(
                    "{name} has {had:.2} % of a CPU, entitled to {due:.2}"
                ));
            }
            keep(&mut worst, 1.0, share / due, &name);
        }
        worst
    }

    fn wants_all(&self, task: TaskIndex) -> bool {
        demand(&self.setup.tasks[task].program) == Demand::All
    }

    /// What the ideal gives beside whoever was runnable under the stock scheduler, if that ran to the same end.
    fn given_beside_stock(&self, task: TaskIndex) -> f64 {
        let is_whole =
            self.stock.to_ns >= self.own.to_ns && self.own.to_ns == self.setup.duration_ns;
        let given = self.stock.given(task).filter(|_| is_whole);
        given.unwrap_or(f64::INFINITY)
    }

    fn unit_name(&self, unit: &[TaskIndex]) -> String {
        match unit {
            [] => String::new(),
            [task] => self.name(*task).to_owned(),
            [first, .., last] => format!("{} to {}", self.name(*first), self.name(*last)),
        }
    }

    /// Over which time a task that begins with a reservation has its rate: a period, and that in which a shortest slice is its rate.
    fn promised_over_ms(&self, task: TaskIndex) -> Option<f64> {
        let reserved = &self.setup.rates.as_ref()?.reserved;
        let (_, reserve) = reserved.iter().find(|it| it.0 == task)?;
        let turn_ms = SHORTEST_SLICE_MS * 1e6 / reserve.rate as f64;
        Some(reserve.period_ns as f64 / 1e6 + turn_ms)
    }

    /// Beside reservations only these are judged.
    fn reserved(&mut self) -> Option<Worst> {
        let mut worst = None;
        let rates = self.setup.rates.as_ref()?;
        for (task, reserve) in &rates.reserved {
            let most = demand(&self.setup.tasks[*task].program).most();
            let due = most.min(reserve.rate as f64 / 1e6);
            let (share, name) = (self.own.share(*task), self.name(*task).to_owned());
            if share < RESERVED_RATIO_MIN * due {
                let (had, due) = (share * 100.0, due * 100.0);
                self.fail(format!("{name} has {had:.2} % of a CPU, reserved {due:.2}"));
            }
            keep(&mut worst, 1.0, share / due, &name);
        }
        worst
    }

    /// Whose shares are compared with EEVDF's: each task's, and of players in a domain, who all show as many frames, whatever
    /// their films cost, that of all.
    fn stock_units(&self) -> Vec<Vec<TaskIndex>> {
        let plays =
            |task: &TaskIndex| matches!(self.setup.tasks[*task].program, Program::Player(_));
        let split = |unit: &Vec<TaskIndex>| match unit.iter().all(plays) {
            true => vec![unit.clone()],
            false => unit.iter().map(|task| vec![*task]).collect(),
        };
        self.units.iter().flat_map(split).collect()
    }

    /// Shares against EEVDF's, as far as that is within what one is entitled to.
    fn stock_shares(&mut self) {
        let Some(entitled) = self.entitled() else {
            return;
        };
        for unit in self.stock_units() {
            let is_judged = unit
                .iter()
                .all(|task| entitled[*task].is_known && entitled[*task].most >= STOCK_SHARE_MIN);
            let sum = |of: &dyn Fn(TaskIndex) -> f64| unit.iter().map(|task| of(*task)).sum();
            let had: f64 = sum(&|task| self.own.share(task));
            let stock: f64 = sum(&|task| self.stock.share(task));
            let due: f64 = sum(&|task| entitled[task].most.min(self.stock.share(task)));
            let is_small = due * self.own.window_ns() < self.least_ns() / 2.0;
            if is_judged && !is_small && had < STOCK_RATIO_MIN * due {
                let (had, stock) = (had * 100.0, stock * 100.0);
                let text = format!(
                    "{} has {had:.2} % of a CPU, under EEVDF {stock:.2}",
                    self.unit_name(&unit)
                );
                self.fail(text);
            }
        }
    }

    fn waits(&mut self) -> (Worst, Worst) {
        let none = || Worst {
            value: 0.0,
            task: String::new(),
        };
        let (mut ratio, mut longest) = (none(), none());
        let reserved = self.setup.rates.as_ref();
        for task in 0..self.setup.tasks.len() {
            let is_judged =
                |rates: &crate::rates::Rates| rates.reserved.iter().any(|it| it.0 == task);
            if !reserved.is_none_or(is_judged) {
                continue;
            }
            let (ms, stock_ms) = (self.own.tasks[task].wait_ms, self.stock.tasks[task].wait_ms);
            let (floor_ms, hard_ms) = match (self.is_member(task), self.promised_over_ms(task)) {
                (true, _) => (MEMBER_WAIT_FLOOR_MS, 2.0 * MEMBER_WAIT_FLOOR_MS),
                (false, None) => (WAIT_FLOOR_MS, 25.0),
                (false, Some(ms)) => (WAIT_FLOOR_MS.max(ms), 25.0_f64.max(2.0 * ms)),
            };
            let times = ms / stock_ms.max(floor_ms);
            let name = self.name(task).to_owned();
            if times > WAIT_RATIO_MAX || ms > hard_ms.max(3.0 * stock_ms) {
                self.fail(format!(
                    "{name} waits {ms:.1} ms, under EEVDF {stock_ms:.1}"
                ));
            }
            if ms > WAIT_MAX_MS {
                self.fail(format!("{name} waits {ms:.0} ms, longer than anybody may"));
            }
            keep_most(&mut ratio, times, &name);
            keep_most(&mut longest, ms, &name);
        }
        (ratio, longest)
    }

    fn late(&mut self) {
        for task in 0..self.setup.tasks.len() {
            let (own, stock) = (
                &self.own.tasks[task].tardiness,
                &self.stock.tasks[task].tardiness,
            );
            let limit_ms = (LATE_RATIO_MAX * stock.p99_ms).max(LATE_FLOOR_MS);
            let is_judged = own.count.min(stock.count) >= EVENTS_MIN;
            if is_judged && own.p99_ms > limit_ms {
                let (ms, stock_ms) = (own.p99_ms, stock.p99_ms);
                let text = format!(
                    "{} is late by {ms:.2} ms (p99), under EEVDF {stock_ms:.2}",
                    self.name(task)
                );
                self.fail(text);
            }
        }
    }

    fn switches(&mut self) {
        let (own, stock) = (self.own.switches_per_s, self.stock.switches_per_s);
        let floor = SWITCHES_FLOOR * f64::from(self.setup.machine.cpus());
        if own > floor.max(SWITCHES_RATIO_MAX * stock) {
            self.fail(format!("{own:.0} switches/s, under EEVDF {stock:.0}"));
        }
    }

    /// Of members of such a domain that are alike but for their programs none that wants more has less than another.
    fn service(&mut self) {
        for (domain, what) in self.setup.domains.iter().enumerate() {
            if what.order != ORDER_SERVICE {
                continue;
            }
            let tasks = self.setup.tasks.iter().enumerate();
            let members = tasks.filter(|(_, task)| domains_of(&task.program).contains(&domain));
            let members: Vec<(TaskIndex, &Task)> = members.collect();
            let like = |task: &Task| (task.nice, task.cgroup, task.start_ns, task.affinity.clone());
            let are_alike = members.iter().all(|it| like(it.1) == like(members[0].1));
            let wants_more = |it: &&(TaskIndex, &Task)| {
                let demand = demand(&it.1.program);
                let asked = match demand.is_exact() {
                    true => demand.most(),
                    false => self.stock.share(it.0),
                };
                self.own.share(it.0) < UNMET_PART * asked
            };
            let unmet = members.iter().filter(wants_more);
            let least = unmet
                .map(|it| self.own.share(it.0))
                .fold(f64::INFINITY, f64::min);
            let shares = members.iter().map(|it| self.own.share(it.0));
            let most = shares.fold(0.0, f64::max);
            if are_alike && most > SERVICE_RATIO_MAX * least {
                let text = format!(
                    "members of {} have {:.2} to {:.2} % of a CPU",
                    what.name,
                    least * 100.0,
                    most * 100.0
                );
                self.fail(text);
            }
        }
    }

    /// Members against the same programs on their own.
    fn join(&mut self, apart: &Ran) -> Join {
        let mut join = Join::default();
        let is_honest = |task: &TaskIndex| {
            let program = &self.setup.tasks[*task].program;
            self.is_member(*task) && matches!(program, Program::Player(_) | Program::Steps(_))
        };
        let honest: Vec<bool> = (0..self.setup.tasks.len())
            .map(|at| is_honest(&at))
            .collect();
        for unit in self.units.clone() {
            let sum = |ran: &Ran| -> f64 { unit.iter().map(|task| ran.share(*task)).sum() };
            let (own, before) = (sum(self.own), sum(apart));
            let is_judged = unit.iter().all(|task| honest[*task]);
            if !is_judged || before * self.own.window_ns() < self.least_ns() {
                continue;
            }
            // What switches took is in a share, too: as many events as before are as much.
            let events = |ran: &Ran| -> u64 {
                unit.iter()
                    .map(|task| ran.tasks[*task].tardiness.count)
                    .sum()
            };
            let (events, events_before) = (events(self.own), events(apart));
            let had_as_many = events_before >= EVENTS_MIN && events >= events_before;
            let name = self.unit_name(&unit);
            if own / before < JOIN_SHARE_RATIO_MIN && !had_as_many {
                let (own, before) = (own * 100.0, before * 100.0);
                self.fail(format!(
                    "{name} has {own:.2} % of a CPU, not joined {before:.2}"
                ));
            }
            let times = if had_as_many { 1.0 } else { own / before };
            keep(&mut join.share_ratio_min, 1.0, times, &name);
        }
        for task in (0..honest.len()).filter(|at| honest[*at]) {
            let (own, before) = (
                &self.own.tasks[task].tardiness,
                &apart.tasks[task].tardiness,
            );
            if own.count.min(before.count) < EVENTS_MIN || own.p99_ms < JOIN_TARDINESS_FLOOR_MS {
                continue;
            }
            let (ms, before_ms) = (own.p99_ms, before.p99_ms);
            let noise_ms = JOIN_TARDINESS_NOISE_MS + JOIN_TARDINESS_NOISE * before_ms;
            let times = ms / (before_ms + noise_ms);
            let name = self.name(task).to_owned();
            if times > JOIN_TARDINESS_RATIO_MAX {
                self.fail(format!(
                    "{name} is late by {ms:.2} ms (p99), not joined {before_ms:.2}"
                ));
            }
            keep(&mut join.tardiness_p99_ratio_max, -1.0, times, &name);
        }
        join
    }

    fn lag(&mut self) -> Option<Behind> {
        let lag = self.own.outcome.fluid_lag.clone()?;
        if lag.slices > LAG_MAX_SLICES {
            self.fail(format!(
                "{} is {:.1} slices behind the fluid ideal, {:.1} ms, from {:.3} to {:.3} s",
                lag.task, lag.slices, lag.lag_ms, lag.from_s, lag.to_s
            ));
        }
        Some(lag)
    }
}

#[cfg(test)]
mod tests;
