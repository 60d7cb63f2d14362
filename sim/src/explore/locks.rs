// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks for some of the random scenarios: tasks that hold them for a while, one inside another, beside what there is.
//! Drawn apart from the rest, so that seeds from before there were locks still mean the same.

use super::generator::Generator;
use crate::random::Random;
use crate::setup::*;

const MS: u64 = 1_000_000;
const LOCKS: u64 = 4;
const DEPTH_MAX: u32 = 3;

/// Adds them, or does not.
pub(super) fn locks(setup: &mut Setup) -> Option<Random> {
    let mut random = Random::derived(setup.seed, 0x10c4);
    if !random.chance(0.3) {
        return None;
    }
    setup.pi_locks = (0..LOCKS as u32).filter(|_| random.chance(0.7)).collect();
    // Where nobody's weight changes, more is promised, and that is to stay.
    let is_steady = setup.weights_stay() && setup.cpus_stay();
    if !is_steady {
        wrap_some(setup, &mut random);
    }
    let before = setup.tasks.len();
    let count = before + random.between(2, 6) as usize;
    for number in before..count {
        let task = holder(
            &mut Generator::new(setup, &mut random, before),
            number,
            is_steady,
        );
        setup.tasks.push(task);
    }
    if is_steady {
        return None;
    }
    for _ in 0..random.between(0, 12) {
        let action = Generator::new(setup, &mut random, count).action();
        setup.actions.push(action);
    }
    for _ in 0..random.between(0, 4) {
        let task = random.between(before as u64, count as u64) as usize;
        let at_ns = random.between(0, setup.duration_ns);
        let what = ActionKind::Kill { task };
        setup.actions.push(Action { at_ns, what });
    }
    if random.chance(0.15) {
        let at_ns = random.between(0, setup.duration_ns);
        let back_after_ns = Some(random.between(0, 50) * MS);
        let what = ActionKind::DaemonDies { back_after_ns };
        setup.actions.push(Action { at_ns, what });
    }
    Some(random)
}

/// Programs that were there hold a lock for as long as a turn takes: members of domains, those that end, and all.
fn wrap_some(setup: &mut Setup, random: &mut Random) {
    for task in &mut setup.tasks {
        let Program::Steps(steps) = &mut task.program else {
            continue;
        };
        let [Step::Loop { steps, .. }] = &mut steps[..] else {
            continue;
        };
        if random.chance(0.3) {
            let lock = random.between(0, LOCKS) as u32;
            steps.insert(0, Step::Lock(lock));
            steps.push(Step::Unlock(lock));
        }
    }
}

/// Takes locks again and again.
fn holder(generator: &mut Generator<'_>, number: usize, is_steady: bool) -> Task {
    let mut task = generator.task(number);
    if is_steady {
        (task.policy, task.cgroup) = (Policy::Normal, 0);
    }
    let mut steps = vec![Step::Run(generator.length(2 * MS))];
    section(generator, 0, 0, is_steady, &mut steps);
    steps.push(Step::Sleep(generator.length(8 * MS)));
    // Sections that were begun are ended, so that nobody stays on a CPU for ever by the program's fault.
    let disabled = steps
        .iter()
        .filter(|step| matches!(step, Step::MigrateDisable));
    let enabled = vec![Step::MigrateEnable; disabled.count()];
    steps.extend(enabled);
    task.program = Program::Steps(vec![Step::Loop { times: None, steps }]);
    task
}

fn section(
    generator: &mut Generator<'_>,
    first: u64,
    depth: u32,
    is_steady: bool,
    steps: &mut Vec<Step>,
) {
    let lock = generator.random.between(first, LOCKS);
    let number = lock as u32;
    steps.push(match generator.random.chance(0.2) {
        true => Step::LockFor {
            lock: number,
            timeout: generator.length(20 * MS),
        },
        false => Step::Lock(number),
    });
    steps.push(Step::Run(generator.length(3 * MS)));
    // Mostly in order; else in circles.
    let next = match generator.random.chance(0.9) {
        true => lock + 1,
        false => 0,
    };
    if depth < DEPTH_MAX && next < LOCKS && generator.random.chance(0.4) {
        section(generator, next, depth + 1, is_steady, steps);
    }
    if generator.random.chance(0.3) {
        steps.push(Step::Sleep(generator.length(4 * MS)));
    }
    if !is_steady && generator.random.chance(0.4) {
        steps.push(generator.step());
    }
    steps.push(Step::Run(generator.length(MS)));
    // Now and then it forgets to, and has it until it ends.
    if is_steady || !generator.random.chance(0.02) {
        steps.push(Step::Unlock(number));
    }
}
