// SPDX-License-Identifier: MIT OR Apache-2.0
//! A random scenario from a seed: small machines, few tasks, everything that can happen to them.

use super::exits::exits;
use super::generator::Generator;
use super::groups::groups;
use super::limits::limits;
use super::locks::locks;
use super::rated::rated;
use super::seldom::seldom;
use super::timers::timers;
use crate::kernel::{root_weight, weight_of};
use crate::random::Random;
use crate::setup::*;
use consort_rates::classes::Order;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// The scenario of a seed; always the same.
pub fn generate(seed: u64) -> Setup {
    let mut setup = without_locks(seed);
    if let Some(mut random) = locks(&mut setup) {
        if random.chance(0.4) {
            let count = setup.tasks.len();
            reservations(&mut setup, &mut random, count);
        }
    }
    seldom(&mut setup);
    orders(&mut setup);
    timers(&mut setup);
    exits(&mut setup);
    groups(&mut setup);
    limits(&mut setup);
    rated(&mut setup);
    // Drawn apart from all else, so that the rest of each scenario stays as it was.
    setup.machine.is_virtual = Random::derived(seed, 0x7_1272).chance(0.3);
    setup
}

fn without_locks(seed: u64) -> Setup {
    let mut random = Random::derived(seed, 0x5ce_a510);
    let machine = machine(&mut random);
    let duration_ns = random.between(200, 1200) * MS;
    let cgroups = cgroups(&mut random);
    let domains = domains(&mut random);
    let mut setup = Setup {
        machine,
        tunables: Tunables::default(),
        costs: Costs::default(),
        seed,
        duration_ns,
        cgroups,
        domains,
        groups: Vec::new(),
        users: Vec::new(),
        queues: Vec::new(),
        tasks: Vec::new(),
        pi_locks: Vec::new(),
        rates: None,
        actions: Vec::new(),
        faults: faults(&mut random),
    };
    if random.chance(0.25) {
        steady(&mut setup, &mut random);
        return setup;
    }
    let count = random.between(1, 11) as usize;
    for number in 0..count {
        let task = Generator::new(&setup, &mut random, count).task(number);
        setup.tasks.push(task);
    }
    let actions = match random.between(0, 4) {
        0 => 0,
        1 => random.between(1, 4),
        _ => random.between(1, 60),
    };
    for _ in 0..actions {
        let action = Generator::new(&setup, &mut random, count).action();
        setup.actions.push(action);
    }
    if random.chance(0.15) {
        forks(&mut setup, &mut random);
    }
    if random.chance(0.2) {
        let count = setup.tasks.len();
        reservations(&mut setup, &mut random, count);
    }
    if setup.machine.cpus() == 1 && random.chance(0.3) {
        let task = punctual(&setup, &mut random);
        setup.tasks.push(task);
    }
    if setup.machine.cpus() > 1 && random.chance(0.25) {
        storm(&mut setup, &mut random);
    }
    setup
}

/// Nothing is changed from outside, so that everybody's part is known: work that does not end, bound or not, liars,
/// players, sleepers, and one that changes something about itself all the time.
fn steady(setup: &mut Setup, random: &mut Random) {
    setup.faults.pause = 0.0;
    // A few more than the CPUs, so that it matters who gets which.
    let cpus = *random.pick(&[1, 1, 2, 3]);
    let per_llc = *random.pick(&[1, 2, cpus]);
    setup.machine = Machine::simple(cpus, per_llc, setup.machine.kernel);
    let count = u64::from(cpus) + random.between(1, 4);
    let count = count as usize;
    let are_equal = random.chance(0.6);
    for number in 0..count {
        let mut generator = Generator::new(setup, random, count);
        let mut task = generator.task(number);
        (task.policy, task.cgroup) = (Policy::Normal, 0);
        if are_equal {
            task.nice = 0;
        }
        if generator.random.chance(0.3) {
            task.affinity = Some(generator.cpus());
        }
        task.program = match generator.random.between(0, 8) {
            0..=2 => Program::Hog,
            3 => Program::PoliteLiar {
                domain: generator.domain(),
                work_ns: generator.random.between(50, 3000) * US,
            },
            4 => Program::Player(Player {
                load: 0.05 + generator.random.unit() * 0.3,
                chunk_ns: 1_000 * US,
                seed: generator.random.next_u64() % 100,
                first_due_ns: 50 * MS,
                domain: Some(generator.domain()),
            }),
            5 => Program::Steps(vec![Step::Loop {
                times: None,
                steps: vec![
                    Step::Run(generator.length(MS)),
                    Step::Affinity(generator.cpus()),
                ],
            }]),
            _ => generator.periodic(),
        };
        setup.tasks.push(task);
    }
    if setup.machine.cpus() == 1 {
        let task = punctual(setup, random);
        setup.tasks.push(task);
    }
}

/// A task that makes others now and then, which soon end.
fn forks(setup: &mut Setup, random: &mut Random) {
    let tasks = setup.tasks.len();
    let mut generator = Generator::new(setup, random, tasks);
    let mut child = generator.task(tasks);
    child.start_ns = None;
    child.policy = Policy::Normal;
    child.program = Program::Steps(vec![
        Step::Run(generator.length(MS)),
        Step::Sleep(generator.length(5 * MS)),
        Step::Run(generator.length(MS)),
    ]);
    let mut maker = generator.task(tasks + 1);
    maker.program = Program::Steps(vec![Step::Loop {
        times: Some(40),
        steps: vec![
            Step::Sleep(Length::Exponential { mean_ns: 8 * MS }),
            Step::Run(generator.length(MS)),
            Step::Fork(tasks),
        ],
    }]);
    setup.tasks.push(child);
    setup.tasks.push(maker);
}

/// Classes from the start, and reservations that come and go, are changed and joined.
fn reservations(setup: &mut Setup, random: &mut Random, tasks: usize) {
    const ONE: u32 = 1 << 20;
    setup.actions.push(Action {
        at_ns: 0,
        what: ActionKind::Call(Call::Classes {
            capacities: vec![ONE / 4, ONE / 2],
            orders: Vec::new(),
            flexible: ONE / 4,
        }),
    });
    for _ in 0..random.between(4, 40) {
        let at_ns = random.between(0, setup.duration_ns);
        let what = ActionKind::Call(Generator::new(setup, random, tasks).reservation_call());
        setup.actions.push(Action { at_ns, what });
    }
}

/// Whose turn it is in each class. Now and then it shall be another's, though the class has reservations.
fn orders(setup: &mut Setup) {
    let mut random = Random::derived(setup.seed, 0x0c1a_55e5);
    let first = some_orders(&mut random);
    for action in &mut setup.actions {
        if let ActionKind::Call(Call::Classes { orders, .. }) = &mut action.what {
            *orders = match random.chance(0.2) {
                true => some_orders(&mut random),
                false => first.clone(),
            };
        }
    }
}

fn some_orders(random: &mut Random) -> Vec<Order> {
    const ORDERS: [Order; 4] = [Order::Period, Order::Period, Order::Frc, Order::Rc];
    (0..3).map(|_| *random.pick(&ORDERS)).collect()
}

/// Asks for a little less than its rate, in each period.
fn punctual(setup: &Setup, random: &mut Random) -> Task {
    let nice = *random.pick(&[0, 0, -5, 5]);
    let weight = weight_of(nice);
    let rate = weight / (root_weight(setup) + weight);
    let period_ns = random.between(2, 40) * MS;
    let work_ns = (rate * 0.95 * period_ns as f64) as u64;
    Task {
        name: "punctual".to_owned(),
        cgroup: 0,
        nice,
        slice_ns: None,
        policy: Policy::Normal,
        affinity: None,
        start_ns: Some(0),
        program: Program::Steps(vec![Step::Loop {
            times: None,
            steps: vec![
                Step::Timer {
                    timer: 0,
                    period_ns,
                    absolute: true,
                },
                Step::Run(Length::Fixed(work_ns)),
            ],
        }]),
    }
}

/// Shards of one CPU, CPUs that pause, and changes to waiting tasks all the time: races between CPUs that steal and
/// a kernel that changes its mind.
fn storm(setup: &mut Setup, random: &mut Random) {
    let cpus = setup.machine.cpus();
    setup.machine.llc_of = (0..cpus).collect();
    setup.faults.pause = 0.3;
    setup.duration_ns /= 4;
    let count = setup.tasks.len();
    for _ in 0..300 {
        let mut action = Generator::new(setup, random, count).action();
        if let ActionKind::Kill { .. } | ActionKind::CpuOffline(_) = action.what {
            action.what = ActionKind::Nice {
                task: random.between(0, count as u64) as usize,
                nice: 0,
            };
        }
        setup.actions.push(action);
    }
}

fn machine(random: &mut Random) -> Machine {
    let cpus = *random.pick(&[1, 2, 2, 3, 4, 4, 6]);
    let per_llc = *random.pick(&[1, 2, 2, cpus]);
    let kernel = *random.pick(&[Kernel::V6_18, Kernel::V7_2]);
    let mut machine = Machine::simple(cpus, per_llc, kernel);
    if cpus.is_multiple_of(2) && random.chance(0.3) {
        machine.core_of = (0..cpus).map(|cpu| cpu / 2).collect();
    }
    machine
}

fn cgroups(random: &mut Random) -> Vec<Cgroup> {
    let mut cgroups = vec![Cgroup {
        name: "/".to_owned(),
        parent: None,
        weight: 100,
        max: None,
    }];
    for number in 1..=random.between(0, 5) as usize {
        cgroups.push(Cgroup {
            name: format!("g{number}"),
            parent: Some(random.between(0, number as u64) as usize),
            weight: *random.pick(&[100, 100, 10, 500, 1, 10_000]),
            max: None,
        });
    }
    cgroups
}

fn domains(random: &mut Random) -> Vec<Domain> {
    (0..random.between(1, 4))
        .map(|number| Domain {
            name: format!("d{number}"),
            event_ns: *random.pick(&[0, 100 * US, 1_000 * US, 2_000 * US]),
            order: random.between(0, 3) as u32,
            preempt: random.chance(0.3),
        })
        .collect()
}

fn faults(random: &mut Random) -> Faults {
    Faults {
        allocation: *random.pick(&[0.0, 0.0, 0.0, 0.1]),
        lookup: *random.pick(&[0.0, 0.5]),
        timer_late: *random.pick(&[0.0, 0.0, 0.05]),
        timer_fails: 0.0,
        pause: *random.pick(&[0.0, 0.02, 0.1, 0.3]),
    }
}
