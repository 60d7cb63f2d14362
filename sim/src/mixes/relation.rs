// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mix against itself with a change that should make no difference.
//!
//! Rule     Nobody has another share by it, nor waits longer, but for what turns and slices make.
//! Limits   Where slices end differs, and with it what is by chance: small differences are not said, nor those of small shares. Mixes
//!          with actions or groups are not changed.
//! Source   metamorphic testing (Chen et al. 1998): where no ideal is known, two runs are each other's.

use super::ran::Ran;
use crate::error::Error;
use crate::scenario::Scenario;
use crate::setup::{Cgroup, Length, Program, Setup, Step, Task};
use std::str::FromStr;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// For how long those who are there first run before the others come.
const LATER_NS: u64 = 20 * S;

/// Differences of shares that are said: of a CPU, and of the larger one.
const SHARE_MIN: f64 = 0.03;
const SHARE_PART_MIN: f64 = 0.12;
/// The same of longest waits.
const WAIT_MIN_MS: f64 = 20.0;
const WAIT_RATIO_MIN: f64 = 2.0;

/// The change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Relation {
    /// Each task may run on all CPUs, by a mask that names them.
    Mask,
    /// All cgroups and tasks are in a cgroup.
    Wrap,
    /// A task that hardly ever runs is there, too, in a cgroup of its own.
    Idle,
    /// Two caches of half of the CPUs each, instead of one.
    Caches,
    /// Late tasks come 20 s later: what went on before is owed to nobody.
    Later,
}

impl Relation {
    pub const ALL: [(&'static str, Self); 5] = [
        ("mask", Self::Mask),
        ("wrap", Self::Wrap),
        ("idle", Self::Idle),
        ("caches", Self::Caches),
        ("later", Self::Later),
    ];

    /// The mix so changed; none where the change makes no sense, or its words do not say what it would be.
    fn change(self, mix: &Scenario) -> Option<Scenario> {
        let setup = &mix.setup;
        if !setup.actions.is_empty() || !setup.groups.is_empty() {
            return None;
        }
        let mut changed = mix.clone();
        match self {
            Self::Mask => mask(&mut changed.setup)?,
            Self::Wrap => wrap(&mut changed.setup)?,
            Self::Idle => idle(&mut changed.setup),
            Self::Caches => caches(&mut changed.setup)?,
            Self::Later => {
                later(&mut changed.setup)?;
                changed.warmup_ns += LATER_NS;
            }
        }
        Some(changed)
    }
}

impl FromStr for Relation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|it| it.0 == name);
        known.map(|it| it.1).ok_or_else(|| {
            let names = Self::ALL.map(|it| it.0).join(", ");
            format!("{name} is no change of a mix; there are {names}")
        })
    }
}

fn mask(setup: &mut Setup) -> Option<()> {
    let all: Vec<u32> = (0..setup.machine.cpus()).collect();
    let free = setup.tasks.iter_mut().filter(|it| it.affinity.is_none());
    let masked = free.map(|task| task.affinity = Some(all.clone()));
    (masked.count() > 0).then_some(())
}

/// Numbers of cgroups shift by one: a parent comes before those in it.
fn wrap(setup: &mut Setup) -> Option<()> {
    // Reservations name cgroups, too.
    if setup.rates.is_some() {
        return None;
    }
    for cgroup in &mut setup.cgroups {
        cgroup.name = format!("/all{}", cgroup.name.trim_end_matches('/'));
        cgroup.parent = cgroup.parent.map(|parent| parent + 1);
    }
    setup.cgroups[0].parent = Some(0);
    setup.cgroups.insert(0, root());
    setup.tasks.iter_mut().for_each(|task| task.cgroup += 1);
    Some(())
}

fn root() -> Cgroup {
    Cgroup {
        name: "/".to_owned(),
        parent: None,
        weight: 100,
        max: None,
    }
}

fn idle(setup: &mut Setup) {
    let steps = vec![
        Step::Run(Length::Fixed(MS / 50)),
        Step::Sleep(Length::Fixed(200 * MS)),
    ];
    let program = Program::Steps(vec![Step::Loop { times: None, steps }]);
    setup.cgroups.push(Cgroup {
        name: "/idle".to_owned(),
        parent: Some(0),
        ..root()
    });
    setup.tasks.push(Task {
        cgroup: setup.cgroups.len() - 1,
        ..Task::new("idle", program)
    });
}

fn caches(setup: &mut Setup) -> Option<()> {
    let cpus = setup.machine.cpus();
    let is_one = setup
        .machine
        .llc_of
        .iter()
        .all(|llc| *llc == setup.machine.llc_of[0]);
    if !is_one || cpus < 4 || !cpus.is_multiple_of(2) {
        return None;
    }
    let halves = (0..cpus).map(|cpu| u32::from(cpu >= cpus / 2));
    setup.machine.llc_of = halves.collect();
    Some(())
}

fn later(setup: &mut Setup) -> Option<()> {
    setup.duration_ns += LATER_NS;
    let starts = setup
        .tasks
        .iter_mut()
        .filter_map(|task| task.start_ns.as_mut());
    let late = starts.filter(|start_ns| **start_ns > 0);
    (late.map(|start_ns| *start_ns += LATER_NS).count() > 0).then_some(())
}

/// What differs between a mix and the changed one, in words; none: it cannot be so changed.
///
/// # Errors
/// As of [`crate::run`].
pub fn differences(mix: &Scenario, relation: Relation) -> Result<Option<Vec<String>>, Error> {
    let mut mix = mix.clone();
    let starts = mix.setup.tasks.iter().filter_map(|task| task.start_ns);
    // Only what is had once all are there compares.
    mix.warmup_ns = mix.warmup_ns.max(starts.max().unwrap_or(0));
    if mix.warmup_ns + S > mix.setup.duration_ns {
        return Ok(None);
    }
    let Some(changed) = relation.change(&mix) else {
        return Ok(None);
    };
    let (before, after) = (Ran::new(&mix, "coop")?, Ran::new(&changed, "coop")?);
    let mut found = Vec::new();
    for (ran, when) in [(&before, "as it is"), (&after, "changed")] {
        if let Some(violation) = &ran.outcome.violation {
            found.push(format!(
                "{when}: rule {}: {}",
                violation.rule, violation.detail
            ));
        }
    }
    for (index, task) in mix.setup.tasks.iter().enumerate() {
        let had = [&before, &after].map(|ran| (ran.share(index), ran.tasks[index].wait_ms));
        found.extend(unlike(had).map(|what| format!("{} {what}", task.name)));
    }
    Ok(Some(found))
}

/// What of a task's share of a CPU, and longest wait in ms, is too far from what it was.
fn unlike(had: [(f64, f64); 2]) -> impl Iterator<Item = String> {
    let [percent, to_percent] = had.map(|it| it.0 * 100.0);
    let [least, most] = sorted(had.map(|it| it.0));
    let is_share = most - least > SHARE_MIN && least < (1.0 - SHARE_PART_MIN) * most;
    let share = is_share.then(|| format!("has {percent:.2} % of a CPU, changed {to_percent:.2}"));
    let [wait_ms, to_wait_ms] = had.map(|it| it.1);
    let [least, most] = sorted([wait_ms, to_wait_ms]);
    let is_wait = most > WAIT_RATIO_MIN * least + WAIT_MIN_MS;
    let wait = is_wait.then(|| format!("waits {wait_ms:.1} ms, changed {to_wait_ms:.1}"));
    share.into_iter().chain(wait)
}

fn sorted([one, other]: [f64; 2]) -> [f64; 2] {
    [one.min(other), one.max(other)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixes::generate;

    #[test]
    fn changes_are_valid_mixes() {
        let mut made = [0; Relation::ALL.len()];
        for seed in 0..200 {
            let mix = generate(seed);
            for (number, (name, relation)) in Relation::ALL.into_iter().enumerate() {
                assert_eq!(name.parse(), Ok(relation));
                let Some(changed) = relation.change(&mix) else {
                    continue;
                };
                let checked = changed.setup.check();
                checked.unwrap_or_else(|error| panic!("{name} of seed {seed}: {error}"));
                assert_ne!(changed.setup, mix.setup, "{name} of seed {seed}");
                assert!(changed.setup.tasks.len() >= mix.setup.tasks.len());
                made[number] += 1;
            }
        }
        assert!(made.iter().all(|made| *made > 20), "{made:?}");
    }

    #[test]
    fn an_unknown_change_names_the_known_ones() {
        let error = "cache".parse::<Relation>().unwrap_err();
        assert!(error.contains("caches, later"), "{error}");
    }

    #[test]
    fn what_differs_is_said() {
        let words = |had| unlike(had).collect::<Vec<_>>();
        assert!(words([(0.5, 10.0), (0.46, 38.0)]).is_empty());
        assert!(words([(0.02, 0.0), (0.045, 20.0)]).is_empty());
        assert_eq!(
            words([(0.2, 10.0), (0.33, 10.0)]),
            ["has 20.00 % of a CPU, changed 33.00"]
        );
        assert_eq!(
            words([(0.5, 50.0), (0.5, 10.0)]),
            ["waits 50.0 ms, changed 10.0"]
        );
        assert_eq!(words([(0.5, 90.0), (0.1, 10.0)]).len(), 2);
    }
}
