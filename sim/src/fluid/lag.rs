// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far each task is behind the fluid ideal, while a run goes on.
//!
//! Rule     The ideal is poured into whoever is runnable, and into who sleeps and has had more than the ideal gave: he
//!          stays counted until that is repaid, as his work would have lasted longer there. Members of a domain in one
//!          cgroup are one *unit*: which of them runs is the domain's affair. A unit's lag is what the ideal gave it, less
//!          what it has had, over the window that makes it greatest of those in which one of the unit was always
//!          runnable. It is counted in slices: the longest that the unit would have been given in that window.
//!          What domains may borrow ahead, once, is taken off first (their window, and an event with its grace).
//! Limits   A CPU that idles while somebody waits who may run there gives nobody anything here: that has a rule of its
//!          own. A task that has all the CPUs that it can use, and in the ideal too, is forgiven: it could not have more if it was
//!          behind. A task that sleeps while it is behind is forgiven, and what it left is not given to others. A task that has had more than
//!          some slices beyond the ideal is taken to have had just these.

use super::ideal::{weight_of_nice, Claim, Ideal};
use crate::setup::{Setup, TaskIndex, Tunables};
use crate::trace::{Event, Left, Observer, TaskId, What};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// In slices of its own no task is further behind. See the module for what a slice is.
pub const LAG_MAX_SLICES: f64 = 10.0;

/// The scheduler's own.
const GRANULARITY_NS: u64 = 4_000_000;
const MIN_SLICE_NS: u64 = 500_000;
const WINDOW_NS: u64 = 6_000_000;
/// What a timer and its interrupt add to each slice.
const LATE_NS: u64 = 50_000;
/// Nobody is taken to be further ahead, in slices.
const AHEAD_MAX_SLICES: f64 = 8.0;
/// Ideals of as many sets of tasks are kept.
const KEPT_MAX: usize = 4096;

/// The task that was furthest behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Behind {
    pub slices: f64,
    pub lag_ms: f64,
    /// A task; of several members of a domain, one.
    pub task: String,
    /// The window.
    pub from_s: f64,
    pub to_s: f64,
}

#[derive(Clone, Debug)]
struct Sharer {
    of: TaskIndex,
    claim: Claim,
    own_unit: usize,
    unit: usize,
    is_runnable: bool,
    is_running: bool,
    /// Asleep, and counted until its unit has been poured so much.
    owes_until_ns: Option<f64>,
}

#[derive(Clone, Debug, Default)]
struct Unit {
    name: String,
    had_ns: f64,
    poured_ns: f64,
    /// Of now.
    rate: f64,
    runnable: u32,
    running: u32,
    owing: u32,
    /// What the ideal gave while one of it was runnable, from the time on from which that counts.
    given_ns: f64,
    /// Of the window that makes it greatest.
    lag_ns: f64,
    from_ns: u64,
    slice_ns: f64,
}

/// See the module. An observer of a run for which the ideal [is defined](is_defined).
#[derive(Debug)]
pub struct Lag {
    ideal: Ideal,
    setup: Rc<Plan>,
    sharers: Vec<Option<Sharer>>,
    units: Vec<Unit>,
    of_domain: BTreeMap<(usize, usize), usize>,
    /// Units with somebody who is counted.
    active: BTreeSet<usize>,
    owing: BTreeSet<TaskId>,
    running: Vec<Option<TaskId>>,
    runnable: usize,
    /// By set of CPUs: tasks that could run and do not.
    waiting: Vec<usize>,
    now_ns: u64,
    /// From when on what the ideal gives is added up.
    from_ns: u64,
    end_ns: u64,
    is_stale: bool,
    kept: HashMap<Vec<TaskId>, Rc<[f64]>>,
    worst: Behind,
}

/// What is needed of the setup.
#[derive(Debug)]
struct Plan {
    /// By task: name, cgroup, weight, set of CPUs.
    tasks: Vec<(String, usize, f64, usize)>,
    granularity_ns: u64,
    min_slice_ns: u64,
    borrowed_ns: f64,
}

impl Plan {
    fn new(setup: &Setup, ideal: &mut Ideal) -> Self {
        let tasks = setup.tasks.iter().map(|task| {
            let set = ideal.set_of(task.affinity.as_deref());
            (
                task.name.clone(),
                task.cgroup,
                weight_of_nice(task.nice),
                set,
            )
        });
        let Tunables {
            granularity_ns,
            min_slice_ns,
            window_ns,
        } = setup.tunables;
        let events_ns = setup.domains.iter().map(crate::setup::Domain::grace_ns);
        let may_borrow = (0..setup.tasks.len()).any(|task| setup.may_join(task));
        let borrowed_ns = match events_ns.max().filter(|_| may_borrow) {
            Some(event_ns) => window_ns.unwrap_or(WINDOW_NS) + event_ns + event_ns / 8,
            None => 0,
        };
        Self {
            tasks: tasks.collect(),
            granularity_ns: granularity_ns.unwrap_or(GRANULARITY_NS),
            min_slice_ns: min_slice_ns.unwrap_or(MIN_SLICE_NS),
            borrowed_ns: borrowed_ns as f64,
        }
    }
}

impl Lag {
    /// What the ideal gives to each is added up from `from_ns` on.
    pub fn new(setup: &Setup, from_ns: u64) -> Self {
        let mut ideal = Ideal::of(setup);
        let plan = Plan::new(setup, &mut ideal);
        Self {
            setup: Rc::new(plan),
            sharers: Vec::new(),
            units: Vec::new(),
            of_domain: BTreeMap::new(),
            active: BTreeSet::new(),
            owing: BTreeSet::new(),
            running: vec![None; setup.machine.cpus() as usize],
            runnable: 0,
            waiting: vec![0; ideal.nr_sets()],
            now_ns: 0,
            from_ns,
            end_ns: setup.duration_ns,
            is_stale: false,
            kept: HashMap::new(),
            worst: Behind::default(),
            ideal,
        }
    }

    /// The task that was furthest behind until now, or until the run's end if that was before.
    pub fn worst(&mut self, end_ns: u64) -> Behind {
        self.advance(end_ns.min(self.end_ns));
        self.worst.clone()
    }

    /// What the ideal has given to tasks of the setup while they were runnable and in no domain.
    pub fn given_ns(&self) -> Vec<f64> {
        let mut given = vec![0.0; self.setup.tasks.len()];
        for sharer in self.sharers.iter().flatten() {
            given[sharer.of] += self.units[sharer.own_unit].given_ns;
        }
        given
    }

    fn sharer(&mut self, task: TaskId) -> Option<&mut Sharer> {
        self.sharers.get_mut(task as usize)?.as_mut()
    }

    fn create(&mut self, task: TaskId, of: TaskIndex) {
        let (name, group, weight, set) = self.setup.tasks[of].clone();
        let unit = self.units.len();
        self.units.push(Unit {
            name,
            ..Unit::default()
        });
        let index = task as usize;
        if index >= self.sharers.len() {
            self.sharers.resize(index + 1, None);
        }
        let claim = Claim {
            group,
            weight,
            most: 1.0,
            set,
        };
        self.sharers[index] = Some(Sharer {
            of,
            claim,
            own_unit: unit,
            unit,
            is_runnable: false,
            is_running: false,
            owes_until_ns: None,
        });
    }

    /// The task is another unit's from now on. It asks the daemon for that, and sleeps: what it owed is forgotten.
    fn change_unit(&mut self, task: TaskId, domain: Option<usize>) {
        self.end_owing(task);
        let Some(sharer) = self.sharer(task).cloned() else {
            return;
        };
        let unit = match domain {
            None => sharer.own_unit,
            Some(domain) => {
                let known = self.of_domain.get(&(domain, sharer.claim.group)).copied();
                known.unwrap_or_else(|| {
                    let name = self.units[sharer.own_unit].name.clone();
                    self.units.push(Unit {
                        name,
                        ..Unit::default()
                    });
                    let unit = self.units.len() - 1;
                    self.of_domain.insert((domain, sharer.claim.group), unit);
                    unit
                })
            }
        };
        self.count(&sharer, -1);
        if let Some(sharer) = self.sharer(task) {
            sharer.unit = unit;
        }
        self.count(&Sharer { unit, ..sharer }, 1);
        self.is_stale = true;
    }

    /// Puts a sharer into the sums of its unit, or takes it out.
    fn count(&mut self, sharer: &Sharer, by: i32) {
        let now_ns = self.now_ns;
        let unit = &mut self.units[sharer.unit];
        let add = |to: &mut u32, is: bool| *to = to.saturating_add_signed(by * i32::from(is));
        let was_runnable = unit.runnable > 0;
        add(&mut unit.runnable, sharer.is_runnable);
        add(&mut unit.running, sharer.is_running);
        add(&mut unit.owing, sharer.owes_until_ns.is_some());
        if !was_runnable || unit.runnable == 0 {
            (unit.lag_ns, unit.slice_ns, unit.from_ns) = (0.0, 0.0, now_ns);
        }
        if unit.runnable + unit.owing > 0 {
            self.active.insert(sharer.unit);
            return;
        }
        self.active.remove(&sharer.unit);
        (unit.poured_ns, unit.rate) = (unit.had_ns, 0.0);
    }

    fn set_state(&mut self, task: TaskId, is_runnable: bool, is_running: bool) {
        let Some(before) = self.sharer(task).cloned() else {
            return;
        };
        if (before.is_runnable, before.is_running) == (is_runnable, is_running) {
            return;
        }
        let mut after = Sharer {
            is_runnable,
            is_running,
            ..before.clone()
        };
        if is_runnable {
            self.owing.remove(&task);
            after.owes_until_ns = None;
        } else if before.is_runnable {
            let unit = &self.units[before.unit];
            if unit.had_ns > unit.poured_ns + 1.0 {
                after.owes_until_ns = Some(unit.had_ns);
                self.owing.insert(task);
            }
        }
        // In first, so that a unit with one sharer does not begin anew.
        self.count(&after, 1);
        self.count(&before, -1);
        let waits = |it: &Sharer| usize::from(it.is_runnable && !it.is_running);
        let set = before.claim.set;
        self.waiting[set] = self.waiting[set] + waits(&after) - waits(&before);
        self.runnable = self.runnable + usize::from(is_runnable) - usize::from(before.is_runnable);
        let is_in = |it: &Sharer| it.is_runnable || it.owes_until_ns.is_some();
        self.is_stale |= is_in(&before) != is_in(&after);
        if let Some(sharer) = self.sharer(task) {
            *sharer = after;
        }
    }

    fn end_owing(&mut self, task: TaskId) {
        if !self.owing.remove(&task) {
            return;
        }
        let Some(sharer) = self.sharer(task) else {
            return;
        };
        let before = sharer.clone();
        sharer.owes_until_ns = None;
        let after = sharer.clone();
        self.count(&after, 1);
        self.count(&before, -1);
        self.is_stale = true;
    }

    /// Pours until `now_ns`; tasks that have repaid go meanwhile.
    fn advance(&mut self, now_ns: u64) {
        while self.now_ns < now_ns {
            if std::mem::take(&mut self.is_stale) {
                self.rate_units();
            }
            let left_ns = (now_ns - self.now_ns) as f64;
            let until = |task: &TaskId| {
                let sharer = self.sharers[*task as usize].as_ref()?;
                let unit = &self.units[sharer.unit];
                Some((sharer.owes_until_ns? - unit.poured_ns) / unit.rate.max(1e-12))
            };
            let first_ns = self.owing.iter().filter_map(until).fold(left_ns, f64::min);
            // At least a nanosecond, so that time goes on.
            let step_ns = (first_ns.max(0.0).ceil() as u64).clamp(1, now_ns - self.now_ns);
            self.pour(step_ns);
            let repaid = |task: &&TaskId| {
                let sharer = self.sharers[**task as usize].as_ref();
                sharer.is_none_or(|sharer| {
                    let poured_ns = self.units[sharer.unit].poured_ns;
                    sharer
                        .owes_until_ns
                        .is_none_or(|until_ns| poured_ns >= until_ns)
                })
            };
            let done: Vec<TaskId> = self.owing.iter().filter(repaid).copied().collect();
            for task in done {
                self.end_owing(task);
            }
        }
    }

    fn slice_ns(&self) -> u64 {
        let each = self.runnable.div_ceil(self.running.len().max(1)).max(1) as u64;
        (self.setup.granularity_ns / each).max(self.setup.min_slice_ns) + LATE_NS
    }

    fn pour(&mut self, step_ns: u64) {
        let (step, slice_ns) = (step_ns as f64, self.slice_ns() as f64);
        let idle_ns = step * self.idle_beside_work() as f64;
        let (from_ns, to_ns) = (self.now_ns, self.now_ns + step_ns);
        self.now_ns = to_ns;
        let borrowed_ns = self.setup.borrowed_ns;
        let mut worst: Option<(usize, f64)> = None;
        for &at in &self.active {
            let unit = &mut self.units[at];
            let (given_ns, had_ns) = (unit.rate * step, f64::from(unit.running) * step);
            unit.had_ns += had_ns;
            let least_ns = unit.had_ns - AHEAD_MAX_SLICES * slice_ns - borrowed_ns;
            unit.poured_ns = (unit.poured_ns + given_ns).max(least_ns);
            if unit.runnable == 0 {
                continue;
            }
            if from_ns >= self.from_ns {
                unit.given_ns += given_ns;
            }
            unit.lag_ns += given_ns - had_ns - idle_ns;
            let has_all =
                unit.running == unit.runnable && unit.rate > f64::from(unit.runnable) - 1e-6;
            if unit.lag_ns <= 0.0 || has_all {
                (unit.lag_ns, unit.slice_ns, unit.from_ns) = (0.0, slice_ns, to_ns);
                continue;
            }
            if unit.slice_ns == 0.0 {
                unit.from_ns = from_ns;
            }
            let members = f64::from(unit.runnable.max(1));
            unit.slice_ns = unit.slice_ns.max(slice_ns * members);
            let slices = (unit.lag_ns - borrowed_ns) / unit.slice_ns;
            if slices > worst.map_or(self.worst.slices, |(_, most)| most) {
                worst = Some((at, slices));
            }
        }
        if let Some((at, slices)) = worst {
            let unit = &self.units[at];
            self.worst = Behind {
                slices,
                lag_ms: unit.lag_ns / 1e6,
                task: unit.name.clone(),
                from_s: unit.from_ns as f64 / 1e9,
                to_s: to_ns as f64 / 1e9,
            };
        }
    }

    /// CPUs that idle while somebody waits who may run there.
    fn idle_beside_work(&self) -> usize {
        let idle = (0..self.running.len()).filter(|cpu| self.running[*cpu].is_none());
        let wanted = |cpu: &usize| {
            let mut sets = (0..self.waiting.len()).filter(|set| self.waiting[*set] > 0);
            sets.any(|set| self.ideal.cpus_of(set).contains(cpu))
        };
        idle.filter(wanted).count()
    }

    /// Rates of units, by who is counted now.
    fn rate_units(&mut self) {
        let counted = |(at, sharer): (usize, &Option<Sharer>)| {
            let sharer = sharer.as_ref()?;
            (sharer.is_runnable || sharer.owes_until_ns.is_some()).then_some(at as TaskId)
        };
        let tasks: Vec<TaskId> = self
            .sharers
            .iter()
            .enumerate()
            .filter_map(counted)
            .collect();
        let shares = match self.kept.get(&tasks) {
            Some(shares) => Rc::clone(shares),
            None => {
                let claim =
                    |task: &TaskId| self.sharers[*task as usize].as_ref().map(|it| it.claim);
                let claims: Vec<Claim> = tasks.iter().filter_map(claim).collect();
                let shares: Rc<[f64]> = self.ideal.shares(&claims).into();
                if self.kept.len() >= KEPT_MAX {
                    self.kept.clear();
                }
                self.kept.insert(tasks.clone(), Rc::clone(&shares));
                shares
            }
        };
        for &at in &self.active {
            self.units[at].rate = 0.0;
        }
        for (task, share) in tasks.iter().zip(shares.iter()) {
            if let Some(sharer) = &self.sharers[*task as usize] {
                self.units[sharer.unit].rate += share;
            }
        }
    }

    fn switch(&mut self, cpu: usize, prev: Option<(TaskId, Left)>, next: Option<TaskId>) {
        if let Some((task, left)) = prev {
            if Some(task) != next {
                let is_runnable = matches!(left, Left::Preempted | Left::Yielded);
                self.set_state(task, is_runnable, false);
            }
        }
        if let Some(task) = next {
            self.set_state(task, true, true);
        }
        if let Some(running) = self.running.get_mut(cpu) {
            *running = next;
        }
    }
}

impl Observer for Lag {
    fn event(&mut self, event: &Event) {
        if event.at_ns > self.end_ns {
            return;
        }
        match event.what {
            What::Created { task, of } => self.create(task, of),
            What::Switch { prev, next } => {
                self.advance(event.at_ns);
                self.switch(event.cpu as usize, prev, next);
            }
            What::Woken { task, .. } => {
                self.advance(event.at_ns);
                let is_running = self.sharer(task).is_some_and(|it| it.is_running);
                self.set_state(task, true, is_running);
            }
            What::Ended { task } => {
                self.advance(event.at_ns);
                self.set_state(task, false, false);
            }
            What::Membership {
                task,
                domain,
                joined,
            } => {
                self.advance(event.at_ns);
                self.change_unit(task, joined.then_some(domain));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
