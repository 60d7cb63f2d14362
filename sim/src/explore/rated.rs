// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups with rates, beside others that want the CPU, in some of the random scenarios: nothing changes there, so that what
//! rates are worth is known.

use super::groups::{terms, FUNCTIONS};
use crate::groups::{Group, Role};
use crate::random::Random;
use crate::rates::{Rates, Reserve};
use crate::setup::*;
use consort_rates::classes::Classes;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
/// Others are so in so many of all scenarios.
const PART: f64 = 0.03;

/// Makes another scenario of some. Drawn apart from the rest, so that the others stay as they were.
pub(super) fn rated(setup: &mut Setup) {
    let Some(mut random) = draw(setup.seed) else {
        return;
    };
    begin_anew(setup);
    let random = &mut random;
    for number in 0..random.between(0, 5) {
        let mut task = Task::new(&format!("hog{number}"), Program::Hog);
        task.nice = *random.pick(&[0, 0, 0, 5, -5]);
        setup.tasks.push(task);
    }
    for class in 0..2 {
        let count = random.between(0, 3);
        for number in 0..count {
            let rate = capacity(setup, class) / count - random.between(0, 2) * 30_000;
            let reserve = Reserve {
                class,
                rate,
                period_ns: random.between(5, 100) * MS,
            };
            group(setup, random, &format!("{class}-{number}"), reserve);
        }
    }
    for number in 0..random.between(0, 3) {
        let program = cycle(random);
        setup
            .tasks
            .push(Task::new(&format!("plain{number}"), program));
    }
}

fn draw(seed: u64) -> Option<Random> {
    let mut random = Random::derived(seed, 0x0067_4a7e);
    random.chance(PART).then_some(random)
}

/// Nobody is there, on one CPU, and nothing happens from outside.
fn begin_anew(setup: &mut Setup) {
    setup.machine = Machine::simple(1, 1, setup.machine.kernel);
    setup.faults = Faults::default();
    setup.rates = Some(Rates {
        classes: Classes::by_default(1),
        reserved: Vec::new(),
    });
    setup.tasks.clear();
    setup.actions.clear();
    setup.pi_locks.clear();
    setup.groups.clear();
    setup.users.clear();
    for cgroup in &mut setup.cgroups {
        cgroup.max = None;
    }
}

fn capacity(setup: &Setup, class: usize) -> u64 {
    let rates = setup.rates.as_ref();
    let class = rates.and_then(|rates| rates.classes.get(class));
    class.map_or(0, |class| class.capacity)
}

/// Works and sleeps in turns.
fn cycle(random: &mut Random) -> Program {
    let run_ns = random.between(100, 12_000) * US;
    let sleep_ns = random.between(50, 20_000) * US;
    Program::Steps(vec![Step::Loop {
        times: None,
        steps: vec![
            Step::Run(Length::Fixed(run_ns)),
            Step::Sleep(Length::Fixed(sleep_ns)),
        ],
    }])
}

/// A group of tasks that are there for it.
fn group(setup: &mut Setup, random: &mut Random, name: &str, reserve: Reserve) {
    let count = random.between(1, 5);
    let mut roles = Vec::new();
    for number in 0..count {
        let program = match random.chance(0.5) {
            true => Program::Hog,
            false => cycle(random),
        };
        let mut task = Task::new(&format!("member{name}-{number}"), program);
        task.nice = *random.pick(&[0, 0, 5, -5]);
        roles.push(Role {
            task: setup.tasks.len(),
            ..terms(random, count)
        });
        setup.tasks.push(task);
    }
    setup.groups.push(Group {
        name: format!("group{name}"),
        function: *random.pick(&FUNCTIONS),
        user: 0,
        reserve: Some(reserve),
        begins_ns: random
            .chance(0.8)
            .then(|| random.between(0, setup.duration_ns)),
        bootstrap: 0,
        roles,
    });
}

#[cfg(test)]
mod tests {
    use super::super::generate;
    use super::*;

    #[test]
    fn some_scenarios_have_groups_whose_rates_are_held() {
        let setups: Vec<Setup> = (0..1000)
            .filter(|seed| draw(*seed).is_some())
            .map(generate)
            .collect();
        assert!((15..50).contains(&setups.len()), "{}", setups.len());
        assert!(setups.iter().all(|it| it.check().is_ok()));
        let with = setups.iter().filter(|it| !it.groups.is_empty());
        assert!(2 * with.count() > setups.len());
    }
}
