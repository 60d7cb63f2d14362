// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios that draws at large come to too seldom: a few things on purpose, with nothing else to hide them.

use super::generator::Generator;
use crate::kernel::{root_weight, weight_of};
use crate::random::Random;
use crate::rates::{Rates, Reserve};
use crate::setup::*;
use consort_rates::classes::Classes;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
/// Below the guaranteed class' half of a CPU, all together.
const RATES: u64 = 450_000;

/// Makes another scenario of some. Drawn apart from the rest, so that the others stay as they were.
pub(super) fn seldom(setup: &mut Setup) {
    let Some(mut random) = draw(setup.seed) else {
        return;
    };
    begin_anew(setup, &mut random);
    match random.between(0, 5) {
        0 => reserved_members(setup, &mut random),
        1 => reservations_of_members(setup, &mut random),
        2 => short_pauses(setup, &mut random),
        3 => turns(setup, &mut random),
        _ => extremes(setup, &mut random),
    }
    if random.chance(0.3) {
        absent_cpus(setup, &mut random);
    }
}

fn draw(seed: u64) -> Option<Random> {
    let mut random = Random::derived(seed, 0x5e_1d0e);
    random.chance(0.25).then_some(random)
}

/// Nobody is there, and nothing happens from outside: more is promised where nothing changes.
fn begin_anew(setup: &mut Setup, random: &mut Random) {
    let cpus = *random.pick(&[1, 1, 2, 3, 4]);
    let per_llc = *random.pick(&[1, 2, cpus]);
    setup.machine = Machine::simple(cpus, per_llc, setup.machine.kernel);
    setup.tasks.clear();
    setup.actions.clear();
    setup.pi_locks.clear();
    setup.rates = None;
    if random.chance(0.7) {
        setup.faults = Faults::default();
    }
}

fn cycle(steps: Vec<Step>) -> Step {
    Step::Loop { times: None, steps }
}

fn add<'s>(setup: &'s mut Setup, name: &str, program: Program) -> &'s mut Task {
    let number = setup.tasks.len();
    setup
        .tasks
        .push(Task::new(&format!("{name}{number}"), program));
    &mut setup.tasks[number]
}

fn hogs(setup: &mut Setup, random: &mut Random, most: u64) {
    for _ in 0..random.between(0, most + 1) {
        add(setup, "hog", Program::Hog);
    }
}

/// One that works for a while, and sleeps inside of poll or outside of it; some sleep for longer than anybody else works.
fn sleeping_member(setup: &Setup, random: &mut Random) -> Program {
    let mut generator = Generator::new(setup, random, 1);
    let domain = generator.domain();
    let poll = match generator.random.between(0, 4) {
        0 => Step::Poll {
            due: Due::Never,
            best_effort: Some((generator.random.between(0, 4) as u32, 0)),
        },
        _ => Step::Poll {
            due: Due::In(generator.length(30 * MS)),
            best_effort: None,
        },
    };
    let mut steps = vec![Step::Run(generator.length(3 * MS)), poll];
    if generator.random.chance(0.3) {
        steps.push(Step::Sleep(generator.length(40 * MS)));
    }
    Program::Steps(vec![Step::Join(domain), cycle(steps)])
}

/// Members and others, some of whom hold reservations all the time: the level of the classes comes and goes with them.
fn reserved_members(setup: &mut Setup, random: &mut Random) {
    let count = random.between(1, 6) as usize;
    for _ in 0..count {
        let program = match random.chance(0.8) {
            true => sleeping_member(setup, random),
            false => Generator::new(setup, random, 1).periodic(),
        };
        add(setup, "member", program);
    }
    let most = u64::from(setup.machine.cpus());
    hogs(setup, random, most);
    let of_each = RATES / count as u64;
    let mut reserved = Vec::new();
    for task in 0..count {
        let rate = random.between(of_each / 10, of_each);
        let period_ns = random.between(5, 100) * MS;
        let reserve = Reserve {
            class: 0,
            rate,
            period_ns,
        };
        if random.chance(0.6) {
            reserved.push((task, reserve));
        }
    }
    // Without memory for its classes no daemon begins.
    setup.faults.allocation = 0.0;
    setup.rates = Some(Rates {
        classes: Classes::by_default(setup.machine.cpus()),
        reserved,
    });
}

/// The same by the scheduler's own calls, that give and take reservations at any time.
fn reservations_of_members(setup: &mut Setup, random: &mut Random) {
    const ONE: u32 = 1 << 20;
    let count = random.between(1, 6) as usize;
    for _ in 0..count {
        let program = sleeping_member(setup, random);
        add(setup, "member", program);
    }
    let most = u64::from(setup.machine.cpus());
    hogs(setup, random, most);
    let mut call = |at_ns, call| {
        setup.actions.push(Action {
            at_ns,
            what: ActionKind::Call(call),
        });
    };
    let classes = Call::Classes {
        capacities: vec![ONE / 2, ONE / 4],
        orders: Vec::new(),
        flexible: ONE / 4,
    };
    call(0, classes);
    for reservation in 0..random.between(1, 4) as usize {
        let class = random.between(0, 2) as u32;
        let rate = random.between(u64::from(ONE) / 100, u64::from(ONE) / 4) as u32;
        call(MS, Call::Reserve { class, rate });
        for _ in 0..random.between(1, 4) {
            let task = random.between(0, count as u64) as usize;
            let at_ns = random.between(2 * MS, setup.duration_ns / 2);
            call(at_ns, Call::AddToReservation { reservation, task });
        }
        if random.chance(0.3) {
            let at_ns = random.between(setup.duration_ns / 2, setup.duration_ns);
            call(at_ns, Call::EndReservation { reservation });
        }
    }
}

/// Some 100 us of work, pauses that are shorter than that, beside others that always have work.
fn short_pauses(setup: &mut Setup, random: &mut Random) {
    let are_equal = random.chance(0.6);
    for _ in 0..random.between(1, 6) {
        let generator = Generator::new(setup, random, 1);
        let run_ns = generator.random.between(50, 800) * US;
        let pause_ns = generator.random.between(1, 201) * US;
        let steps = vec![
            Step::Run(Length::Uniform {
                min_ns: run_ns / 2,
                max_ns: run_ns,
            }),
            Step::Sleep(Length::Uniform {
                min_ns: 0,
                max_ns: pause_ns,
            }),
        ];
        let domain = generator.random.chance(0.2).then(|| {
            let domains = setup.domains.len() as u64;
            generator.random.between(0, domains) as usize
        });
        let program = domain.map(Step::Join).into_iter().chain([cycle(steps)]);
        let nice = match are_equal {
            true => 0,
            false => *random.pick(&[0, 0, -5, 5, 10]),
        };
        add(setup, "pauses", Program::Steps(program.collect())).nice = nice;
    }
    let most = 2 * u64::from(setup.machine.cpus());
    hogs(setup, random, most);
    punctual(setup, random);
}

/// Members of whom few want the CPU at the same time, as they wait for each other or begin one after another.
fn turns(setup: &mut Setup, random: &mut Random) {
    let domain = random.between(0, setup.domains.len() as u64) as usize;
    let count = random.between(2, 7);
    let run_ns = random.between(200, 2_500) * US;
    let pause_ns = random.between(0, 2 * count) * run_ns;
    let meet = random.chance(0.3);
    for number in 0..count {
        let poll = Step::Poll {
            due: Due::In(Length::Fixed(pause_ns)),
            best_effort: None,
        };
        let mut steps = vec![Step::Run(Length::Fixed(run_ns)), poll];
        if meet {
            let tasks = count as u32;
            steps.push(Step::Barrier { barrier: 0, tasks });
        }
        let program = vec![
            Step::Sleep(Length::Fixed(number * run_ns)),
            Step::Join(domain),
            cycle(steps),
        ];
        add(setup, "turn", Program::Steps(program));
    }
    let most = 2 * u64::from(setup.machine.cpus());
    hogs(setup, random, most);
    if !meet {
        punctual(setup, random);
    }
}

/// The heaviest and the lightest, bound to some CPUs or free; or in cgroups of such weights. Not both: a task that is bound to a CPU
/// and in a light cgroup beside a heavy task that may run anywhere waits for a little longer than `starvation` allows.
fn extremes(setup: &mut Setup, random: &mut Random) {
    let groups = setup.cgroups.len() as u64;
    let in_groups = random.chance(0.4);
    for _ in 0..random.between(2, 10) {
        let mut generator = Generator::new(setup, random, 1);
        let program = match generator.random.chance(0.6) {
            true => Program::Hog,
            false => generator.periodic(),
        };
        let nice = *generator.random.pick(&[-20, -20, 0, 19, 19]);
        let affinity = (!in_groups && generator.random.chance(0.5)).then(|| generator.cpus());
        let task = add(setup, "extreme", program);
        (task.nice, task.affinity) = (nice, affinity);
        if in_groups {
            task.cgroup = random.between(0, groups) as usize;
        }
    }
    for cgroup in &mut setup.cgroups[1..] {
        cgroup.weight = *random.pick(&[1, 100, 10_000]);
    }
}

/// On one CPU: a task that asks for a little less than its rate.
fn punctual(setup: &mut Setup, random: &mut Random) {
    if setup.machine.cpus() > 1 || random.chance(0.4) {
        return;
    }
    let rate = weight_of(0) / (root_weight(setup) + weight_of(0));
    let period_ns = random.between(2, 40) * MS;
    let steps = vec![
        Step::Timer {
            timer: 0,
            period_ns,
            absolute: true,
        },
        Step::Run(Length::Fixed((rate * 0.95 * period_ns as f64) as u64)),
    ];
    add(setup, "punctual", Program::Steps(vec![cycle(steps)]));
}

/// CPUs that are possible, and not there: some never come.
fn absent_cpus(setup: &mut Setup, random: &mut Random) {
    let cpus = setup.machine.cpus();
    let more = random.between(1, 5) as u32;
    let last = setup.machine.llc_of.iter().max().map_or(0, |llc| *llc);
    for cpu in cpus..cpus + more {
        // In a cache with others, or in one of its own.
        let llc = *random.pick(&[last, setup.machine.llc_of[0], last + 1]);
        let llc = llc.min(setup.machine.llc_of.iter().max().map_or(0, |llc| llc + 1));
        setup.machine.llc_of.push(llc);
        setup.machine.core_of.push(cpu);
        setup.machine.node_of.push(0);
        setup.machine.offline.push(cpu);
        if random.chance(0.3) {
            let at_ns = random.between(0, setup.duration_ns);
            let what = ActionKind::CpuOnline(cpu);
            setup.actions.push(Action { at_ns, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::explore::generate;

    /// Of sim/tests/explore.rs: what they have found is in them as they are.
    const FOUND: [u64; 3] = [
        1_795_294_000_003_113,
        1_795_295_000_006_065,
        1_795_287_000_050_672,
    ];

    #[test]
    fn seeds_that_have_found_something_stay_what_they_are() {
        assert!(FOUND.iter().all(|seed| draw(*seed).is_none()));
    }

    #[test]
    fn what_is_seldom_is_drawn() {
        let (mut absent, mut reserved, mut both) = (0, 0, 0);
        for seed in 0..1000 {
            let setup = generate(seed);
            setup
                .check()
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            absent += usize::from(!setup.machine.offline.is_empty());
            let rates = setup.rates.as_ref();
            reserved += usize::from(rates.is_some());
            both += usize::from(rates.is_some_and(|rates| {
                let tasks = rates.reserved.iter().map(|(task, _)| *task);
                tasks.into_iter().any(|task| setup.tasks[task].may_join())
            }));
        }
        assert!(
            absent > 40 && reserved > 25 && both > 20,
            "{absent} {reserved} {both}"
        );
    }
}
