// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups with decision functions in some of the random scenarios: tasks that were there play roles, others publish for
//! them, right things and wrong ones, and a daemon changes terms and plans while members run, come and go.

use super::generator::Generator;
use crate::groups::{Function, Group, Role, Tell};
use crate::random::Random;
use crate::rates::{Rates, Reserve};
use crate::setup::*;
use crate::users::User;
use consort_rates::classes::Classes;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
const QUEUES: u64 = 3;
pub(super) const FUNCTIONS: [Function; 5] = [
    Function::Fair,
    Function::Period,
    Function::Plan,
    Function::Pipeline,
    Function::Follow,
];

/// Adds them, or does not. Drawn apart from all else, so that the rest of each scenario stays as it was.
pub(super) fn groups(setup: &mut Setup) {
    let mut random = Random::derived(setup.seed, 0x0062_09b5);
    if !random.chance(0.3) {
        return;
    }
    setup.queues = (0..QUEUES).map(|_| random.between(1, 12) as u32).collect();
    for _ in 0..random.between(1, 4) {
        let number = setup.tasks.len();
        let task = member(setup, &mut random, number);
        setup.tasks.push(task);
    }
    let members = setup.tasks.len() as u64;
    let is_calm = setup.actions.is_empty() && setup.faults.allocation == 0.0;
    let may_reserve = setup.rates.is_none() && is_calm;
    if may_reserve && random.chance(0.5) {
        let classes = Classes::by_default(setup.machine.cpus());
        setup.rates = Some(Rates {
            classes,
            reserved: Vec::new(),
        });
    }
    for number in 0..random.between(1, 3) {
        let group = group(setup, &mut random, number, members);
        setup.groups.push(group);
    }
    users(setup);
    // Where nothing changes from outside more is promised, and that is to stay.
    if setup.actions.is_empty() || random.chance(0.4) {
        return;
    }
    for _ in 0..random.between(1, 60) {
        let at_ns = random.between(0, setup.duration_ns);
        let what = ActionKind::Call(call(setup, &mut random, members));
        setup.actions.push(Action { at_ns, what });
    }
}

/// `df_key` as `return g->member[i].state[0];` is compiled.
const BY_STATE: &str = "bc2200000000000027020000700000000f210000000000007910880000000000\
    9500000000000000";
/// `df_key` that wants to be asked again every 50 us, and returns `g->now_ns & 7 ^ i`.
const RESTLESS: &str = "b703000050c300007b3110000000000079100800000000005700000007000000\
    af200000000000009500000000000000";

/// Some groups have functions of users' own: some do what they should, some answer what comes, or not at all; and they are
/// exchanged while their groups run.
fn users(setup: &mut Setup) {
    let mut random = Random::derived(setup.seed, 0x0000_df01);
    if !random.chance(0.4) {
        return;
    }
    let all = [
        User::Keys(BY_STATE.to_owned()),
        User::Keys(RESTLESS.to_owned()),
        User::Garbage,
        User::Ones,
        User::Silent,
    ];
    setup.users = (0..random.between(1, 4))
        .map(|_| random.pick(&all).clone())
        .collect();
    let users = setup.users.len() as u64;
    for group in &mut setup.groups {
        if random.chance(0.7) {
            group.function = Function::User;
            group.user = random.between(0, users) as u32;
        }
    }
    // As above.
    if setup.actions.is_empty() || random.chance(0.4) {
        return;
    }
    for _ in 0..random.between(1, 40) {
        let call = match random.chance(0.7) {
            true => Call::PutUser {
                number: random.between(0, users) as usize,
                user: random
                    .chance(0.8)
                    .then(|| random.between(0, users) as usize),
            },
            false => Call::SetUser {
                group: random.between(0, setup.groups.len() as u64) as usize,
                number: *random.pick(&[
                    None,
                    Some(0),
                    Some(1),
                    Some(255),
                    Some(256),
                    Some(u32::MAX),
                ]),
            },
        };
        setup.actions.push(Action {
            at_ns: random.between(0, setup.duration_ns),
            what: ActionKind::Call(call),
        });
    }
}

/// A task that makes something, passes it on, or tells what is not so.
fn member(setup: &Setup, random: &mut Random, number: usize) -> Task {
    let mut generator = Generator::new(setup, random, setup.tasks.len());
    let mut steps = vec![Step::Run(generator.length(3 * MS))];
    let random = &mut *generator.random;
    match random.between(0, 4) {
        0 => steps.push(Step::Put {
            queue: random.between(0, QUEUES) as u32,
        }),
        1 => {
            let queue = random.between(0, QUEUES - 1) as u32;
            steps.insert(0, Step::Take { queue });
            steps.push(Step::Put { queue: queue + 1 });
        }
        2 => steps.push(Step::Take {
            queue: random.between(0, QUEUES) as u32,
        }),
        _ => steps.extend(telling(random)),
    }
    if random.chance(0.5) {
        steps.push(Step::Tell(*random.pick(&[Tell::Done, Tell::Submitted])));
        steps.push(Step::Yield);
    }
    if random.chance(0.6) {
        let ns = random.between(50, 10_000) * US;
        steps.push(Step::Sleep(Length::Fixed(ns)));
    }
    let mut task = Task::new(
        &format!("member{number}"),
        Program::Steps(vec![Step::Loop { times: None, steps }]),
    );
    task.nice = *random.pick(&[0, 0, 0, 5, -5]);
    task.cgroup = match random.chance(0.7) {
        true => 0,
        false => random.between(0, setup.cgroups.len() as u64) as usize,
    };
    task
}

/// Words that a program in its right mind would not write.
fn telling(random: &mut Random) -> Vec<Step> {
    let value = *random.pick(&[-1, 0, 1, 7, i64::MAX, i64::MIN]);
    let variable = random.between(0, 4) as u32;
    let tells = [Tell::Submitting, Tell::Submitted, Tell::Done, Tell::Trigger];
    vec![
        Step::State { variable, value },
        Step::Tell(*random.pick(&tells)),
        Step::Tell(*random.pick(&tells)),
    ]
}

fn group(setup: &Setup, random: &mut Random, number: u64, tasks: u64) -> Group {
    let count = random.between(1, 6);
    Group {
        name: format!("group{number}"),
        function: *random.pick(&FUNCTIONS),
        user: 0,
        reserve: (setup.rates.is_some() && random.chance(0.6)).then(|| Reserve {
            class: 0,
            rate: random.between(20_000, 240_000),
            period_ns: random.between(5, 100) * MS,
        }),
        begins_ns: random
            .chance(0.8)
            .then(|| random.between(0, setup.duration_ns)),
        bootstrap: *random.pick(&[0, 0, 0, 1, 4]),
        roles: (0..count)
            .map(|_| Role {
                task: random.between(0, tasks) as usize,
                ..terms(random, count)
            })
            .collect(),
    }
}

pub(super) fn terms(random: &mut Random, roles: u64) -> Role {
    let (plan, repeat_ns) = match random.chance(0.5) {
        true => plan(random),
        false => (Vec::new(), 0),
    };
    let period_ns = match random.chance(0.7) {
        true => random.between(1, 50_000) * US,
        false => 0,
    };
    let high = random.between(0, 9) as u32;
    Role {
        task: 0,
        plan,
        repeat_ns,
        period_ns,
        budget_ns: random.between(0, 2) * random.between(0, period_ns + 1),
        follows: random.chance(0.3).then(|| random.between(0, roles) as u32),
        follow_ns: random.between(0, 5_000) * US,
        high,
        step: random
            .between(0, u64::from(high) + 2)
            .min(u64::from(high.max(1))) as u32,
    }
}

/// From the shortest intervals to long ones, with gaps or without.
fn plan(random: &mut Random) -> (Vec<(u64, u64)>, u64) {
    let mut intervals = Vec::new();
    let mut at_ns = random.between(0, 10) * MS;
    for _ in 0..random.between(1, 7) {
        let end_ns = at_ns + 100 * US + random.between(0, 2) * random.between(0, 15_000) * US;
        intervals.push((at_ns, end_ns));
        at_ns = end_ns + random.between(0, 2) * random.between(0, 30_000) * US;
    }
    let repeat_ns = match random.chance(0.7) {
        true => at_ns + random.between(0, 20) * MS,
        false => 0,
    };
    (intervals, repeat_ns)
}

/// What a daemon might say while the group runs, wrong things included.
fn call(setup: &Setup, random: &mut Random, tasks: u64) -> Call {
    let group = random.between(0, setup.groups.len() as u64) as usize;
    let role = *random.pick(&[0, 1, 2, 3, 31, 32, u32::MAX]);
    let at_ns = random.between(0, setup.duration_ns);
    let what = match random.between(0, 12) {
        0 | 1 => RoleCall::Terms(terms(random, 6)),
        2 | 3 => {
            let (plan, repeat_ns) = plan(random);
            RoleCall::Plan { plan, repeat_ns }
        }
        4 => RoleCall::Plan {
            plan: Vec::new(),
            repeat_ns: 0,
        },
        5 => RoleCall::Begin {
            zero_ns: *random.pick(&[0, at_ns, u64::MAX]),
            bootstrap: *random.pick(&[0, 2, u32::MAX]),
        },
        6 => RoleCall::State(*random.pick(&[-1, 0, 3, i64::MIN])),
        7 => RoleCall::Tell(*random.pick(&[1, 2, 3, u32::MAX])),
        8 => RoleCall::Status,
        9 => RoleCall::Bind {
            task: random.between(0, tasks) as usize,
        },
        10 => RoleCall::Unbind {
            task: random.between(0, tasks) as usize,
        },
        _ => RoleCall::Destroy,
    };
    Call::Role { group, role, what }
}

#[cfg(test)]
mod tests {
    use super::super::generate;
    use super::*;

    #[test]
    fn some_scenarios_have_groups_and_all_of_these_fit() {
        let setups: Vec<Setup> = (0..300).map(generate).collect();
        let with = setups.iter().filter(|it| !it.groups.is_empty());
        assert!((60..130).contains(&with.clone().count()));
        assert!(with.clone().all(|it| it.check().is_ok()));
        for function in FUNCTIONS {
            let mut groups = with.clone().flat_map(|it| &it.groups);
            assert!(groups.any(|it| it.function == function), "{function:?}");
        }
    }
}
