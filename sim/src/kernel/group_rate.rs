// SPDX-License-Identifier: MIT OR Apache-2.0
//! What groups' rates promise, held at every moment on one CPU: a group that wants the CPU has had its rate but for a bounded time,
//! and beside those who want it as well it has had no more than that, but for a bounded time.
//!
//! Each group has two accounts of CPU time. One grows by the least that its rate is worth while a member wants the CPU, the
//! other shrinks by the most, while somebody else always wants it; what members run counts against both. Neither is ever on
//! the good side of 0: nobody may make up for what was bad by what was good before.

use super::{Kernel, Life};
use crate::groups::Group;
use crate::rates::{Rates, Reserve};
use crate::setup::{any_step, Program, Setup, Step};
use crate::trace::TaskId;
use consort_rates::classes::Order;

const MILLION: f64 = 1e6;
/// The longest slice by default, with a late timer: a run of somebody else on each level of the tree, and its own.
const SLICE_NS: u64 = 4_250_000;
const SLICES: f64 = 3.0;
/// Periods in which a rate need not be had: the one that has begun, and the one that was before it.
const PERIODS: f64 = 2.0;
/// What a domain may borrow in its plans' intervals, by default.
const WINDOW_NS: u64 = 6_000_000;

/// A group with a rate, in a run in which what that is worth stays what it is.
#[derive(Debug)]
pub(crate) struct Held {
    group: usize,
    /// Of one CPU.
    least: f64,
    /// Beside those who always want the CPU; none: there is nobody.
    most: Option<f64>,
    behind_max_ns: f64,
    ahead_max_ns: f64,
    behind_ns: f64,
    ahead_ns: f64,
    had_ns: u64,
    seen_ns: u64,
}

/// Always there, and always wants the CPU.
fn is_hog(setup: &Setup, index: usize) -> bool {
    let task = &setup.tasks[index];
    task.program == Program::Hog && task.start_ns == Some(0)
}

/// A hog on what everybody has who has reserved nothing.
fn is_plain_hog(setup: &Setup, rates: &Rates, index: usize) -> bool {
    is_hog(setup, index) && !setup.may_join(index) && !rates.reserved.iter().any(|it| it.0 == index)
}

/// Whether a group's threads are its members, and nothing else, for as long as they live.
fn is_plain_group(setup: &Setup, rates: &Rates, group: &Group) -> bool {
    let yields = |step: &Step| matches!(step, Step::Yield);
    group.roles.iter().all(|role| {
        let task = &setup.tasks[role.task];
        let gives_turns_up = match &task.program {
            Program::Steps(steps) => any_step(steps, &yields),
            Program::Hog => false,
            _ => true,
        };
        let has_reserved = rates.reserved.iter().any(|it| it.0 == role.task);
        !gives_turns_up && !task.may_join() && !has_reserved
    })
}

/// Whether one of a group's members always wants the CPU: it has no role in a group before.
fn always_wants(setup: &Setup, index: usize) -> bool {
    let plays = |group: &Group, task| group.roles.iter().any(|role| role.task == task);
    let roles = setup.groups[index].roles.iter();
    roles.map(|role| role.task).any(|task| {
        let before = &setup.groups[..index];
        is_hog(setup, task) && !before.iter().any(|group| plays(group, task))
    })
}

/// What tasks and groups have reserved in the class of a group, in millionths of one CPU.
struct Promised {
    /// In sum.
    all: u64,
    /// The other groups that always want the CPU.
    wanted: u64,
}

fn promised(setup: &Setup, rates: &Rates, index: usize, class: usize) -> Promised {
    let in_class = |reserve: &&Reserve| reserve.class == class;
    let of_tasks = rates.reserved.iter().map(|it| &it.1).filter(in_class);
    let mut promised = Promised {
        all: of_tasks.map(|it| it.rate).sum(),
        wanted: 0,
    };
    for (other, group) in setup.groups.iter().enumerate() {
        let Some(reserve) = group.reserve.as_ref().filter(in_class) else {
            continue;
        };
        promised.all += reserve.rate;
        if other != index && is_plain_group(setup, rates, group) && always_wants(setup, other) {
            promised.wanted += reserve.rate;
        }
    }
    promised
}

/// What a group's rate is worth; none: that is not known.
fn held_group(setup: &Setup, rates: &Rates, index: usize) -> Option<Held> {
    let group = &setup.groups[index];
    let reserve = group
        .reserve
        .filter(|_| is_plain_group(setup, rates, group))?;
    let class = rates.classes.get(reserve.class)?;
    if class.order == Order::Rc {
        return None;
    }
    let promised = promised(setup, rates, index, reserve.class);
    let rate = reserve.rate as f64;
    let capacity = class.capacity as f64 / MILLION;
    let least = (capacity * rate / promised.all as f64).min(rate / MILLION);
    let table = rates.classes.table();
    let weight = f64::from(table.capacity[reserve.class]);
    let of_all = weight / (weight + f64::from(table.flexible));
    let is_shared = (0..setup.tasks.len()).any(|it| is_plain_hog(setup, rates, it));
    let tunables = setup.tunables;
    let slices_ns = SLICES * tunables.granularity_ns.unwrap_or(0).max(SLICE_NS) as f64;
    let window_ns = tunables.window_ns.unwrap_or(0).max(WINDOW_NS) as f64;
    Some(Held {
        group: index,
        least,
        most: is_shared.then_some(of_all * rate / (rate + promised.wanted as f64)),
        behind_max_ns: PERIODS * least * reserve.period_ns as f64 + slices_ns,
        ahead_max_ns: slices_ns + window_ns,
        behind_ns: 0.0,
        ahead_ns: 0.0,
        had_ns: 0,
        seen_ns: 0,
    })
}

/// The groups whose rates are held.
pub(crate) fn held(setup: &Setup) -> Vec<Held> {
    let Some(rates) = &setup.rates else {
        return Vec::new();
    };
    let is_sure = setup.machine.cpus() == 1 && super::reserved::stay(setup);
    let is_changed = !setup.actions.is_empty() || setup.faults.timer_fails > 0.0;
    let is_limited = setup.cgroups.iter().any(|cgroup| cgroup.max.is_some());
    if !is_sure || is_changed || is_limited {
        return Vec::new();
    }
    (0..setup.groups.len())
        .filter_map(|index| held_group(setup, rates, index))
        .collect()
}

impl Held {
    fn pass(&mut self, now_ns: u64, had_ns: u64) {
        let ran_ns = had_ns.saturating_sub(self.had_ns) as f64;
        let passed_ns = (now_ns - self.seen_ns) as f64;
        self.behind_ns = (self.behind_ns + self.least * passed_ns - ran_ns).max(0.0);
        let most_ns = self.most.map_or(ran_ns, |most| most * passed_ns);
        self.ahead_ns = (self.ahead_ns + ran_ns - most_ns).max(0.0);
        (self.had_ns, self.seen_ns) = (had_ns, now_ns);
    }

    /// What is broken, in words.
    fn broken(&self) -> Option<String> {
        let ms = |ns: f64| ns / 1e6;
        if self.behind_ns > self.behind_max_ns {
            return Some(format!("is {:.1} ms behind its rate", ms(self.behind_ns)));
        }
        (self.ahead_ns > self.ahead_max_ns)
            .then(|| format!("is {:.1} ms ahead of its rate", ms(self.ahead_ns)))
    }
}

impl Kernel {
    /// CPU time that the group's members have had by now, and whether one of them wants more.
    fn members_of(&self, group: usize) -> (u64, bool) {
        let members = self.tasks.iter().filter(|task| task.plays == Some(group));
        members.fold((0, false), |(had_ns, wants), task| {
            let cpu = &self.cpus[task.cpu as usize];
            let running_ns = match cpu.current == Some(task.id) {
                true => self.now_ns.saturating_sub(cpu.exec_start_ns),
                false => 0,
            };
            let wants_too = task.life == Life::Runnable;
            (
                had_ns + self.runtime_ns(task.id) + running_ns,
                wants || wants_too,
            )
        })
    }

    fn follow_group_rate(&mut self, at: usize) {
        let (had_ns, wants) = self.members_of(self.group_rates[at].group);
        let now_ns = self.now_ns;
        let held = &mut self.group_rates[at];
        held.pass(now_ns, had_ns);
        if !wants {
            held.behind_ns = 0.0;
        }
    }

    /// A task sleeps from now on, or has ended. Whose last member that was is owed nothing.
    pub(crate) fn rest_group_rate(&mut self, task: TaskId) {
        let Some(group) = self.tasks[task as usize].plays else {
            return;
        };
        if let Some(at) = self.group_rates.iter().position(|it| it.group == group) {
            self.follow_group_rate(at);
        }
    }

    pub(crate) fn check_group_rates(&mut self) {
        for at in 0..self.group_rates.len() {
            self.follow_group_rate(at);
            let held = &self.group_rates[at];
            if let Some(broken) = held.broken() {
                let name = &self.setup.groups[held.group].name;
                self.violate("group-rate", format!("{name} {broken}"));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{run, scenario};

    /// Two groups that always want the CPU, of which one sleeps for a while first, beside two hogs.
    const TEXT: &str = r#"{"global": {"duration": 3}, "classes": {"half": {"capacity": "50%"}},
        "groups": {
            "one": {"function": "fair", "members": {"a": {}, "b": {}},
                "reserve": {"class": "half", "rate": 0.3, "period": "20ms"}},
            "two": {"function": "fair", "members": {"c": {}},
                "reserve": {"class": "half", "rate": 0.1, "period": "50ms"}}},
        "tasks": {"a": {"hog": true}, "b": {"hog": true}, "c": {"phases": {
                "first": {"sleep": "1s"}, "then": {"loop": -1, "run": "1ms"}}},
            "hog": {"hog": true, "instance": 2}}}"#;

    fn held_in(text: &str) -> Vec<Held> {
        held(&scenario::parse("g.json", text).unwrap().setup)
    }

    #[test]
    fn a_rate_is_worth_what_its_class_can_give() {
        let groups = held_in(TEXT);
        let least: Vec<f64> = groups.iter().map(|it| it.least).collect();
        assert_eq!(least, [0.3, 0.1]);
        // The first may have all of the class while the other one sleeps, and that one a quarter.
        let most: Vec<f64> = groups.iter().filter_map(|it| it.most).collect();
        assert!((most[0] - 0.5).abs() < 1e-6 && (most[1] - 0.125).abs() < 1e-6);
        assert!(held_in(&TEXT.replace("0.1", "0.4")).len() == 2);
        // Nobody says what it is worth where the threads may have something else, or less.
        for (from, to) in [
            (r#""sleep": "1s""#, r#""sleep": "1s", "yield": """#),
            (
                r#""duration": 3}"#,
                r#""duration": 3}, "cgroups": {"/x": {"max": {"quota": "10ms"}}}"#,
            ),
        ] {
            assert!(held_in(&TEXT.replace(from, to)).len() < 2, "{to}");
        }
    }

    #[test]
    fn who_has_less_than_its_rate_is_found_and_who_has_more() {
        let setup = scenario::parse("g.json", TEXT).unwrap().setup;
        let outcome = run(&setup, crate::consort(), &mut ()).unwrap();
        assert_eq!(outcome.violation, None);
        let mut groups = held(&setup);
        for ms in 1..=1000 {
            // A tenth of the CPU, and all of it.
            groups[0].pass(ms * 1_000_000, ms * 100_000);
            groups[1].pass(ms * 1_000_000, ms * 1_000_000);
        }
        let said: Vec<String> = groups.iter().filter_map(Held::broken).collect();
        assert_eq!(
            said,
            [
                "is 200.0 ms behind its rate",
                "is 875.0 ms ahead of its rate"
            ]
        );
        // What was too much is no excuse for too little afterwards.
        groups[1].behind_ns = 0.0;
        groups[1].pass(3_000_000_000, 1_000_000_000);
        assert!(groups[1]
            .broken()
            .is_some_and(|said| said.contains("behind")));
    }
}
