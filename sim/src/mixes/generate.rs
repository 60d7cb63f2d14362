// SPDX-License-Identifier: MIT OR Apache-2.0
//! An everyday mix from a seed: a machine of 1 to 16 CPUs, and what people run on one.

use super::everyday;
use super::maker::Maker;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::setup::{Kernel, Machine, Setup};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

type Kind = (&'static str, fn(&mut Maker<'_>));

const KINDS: [Kind; 8] = [
    ("desktop", everyday::desktop),
    ("audio", everyday::audio),
    ("build", everyday::build),
    ("browser", everyday::browser),
    ("server", everyday::server),
    ("containers", everyday::containers),
    ("turns", everyday::turns),
    ("extremes", everyday::extremes),
];

/// Which part of the seeds is of promises. They are drawn apart: the others are what they were before there were any.
const PROMISES: f64 = 0.1;

/// The mix of a seed; always the same.
pub fn generate(seed: u64) -> Scenario {
    let mut random = Random::derived(seed, 0x3a_4d15);
    let (kind, make) = match Random::derived(seed, 0x9e_0415e).chance(PROMISES) {
        true => ("promises", everyday::promises as fn(&mut Maker<'_>)),
        false => *random.pick(&KINDS),
    };
    let machine = machine(&mut random);
    // Most faults show within seconds; what is saved up does not.
    let duration_ns = match random.between(0, 25) {
        0 => random.between(60, 100) * S,
        1..=3 => random.between(15, 30) * S,
        _ => random.between(3_000, 8_000) * MS,
    };
    let mut setup = Setup::empty(machine, duration_ns);
    setup.seed = seed;
    make(&mut Maker::new(&mut setup, &mut random));
    Scenario {
        name: format!("{kind}-{seed}"),
        setup,
        warmup_ns: 0,
    }
}

fn machine(random: &mut Random) -> Machine {
    let cpus = *random.pick(&[1, 1, 1, 2, 2, 3, 4, 4, 6, 8, 12, 16]);
    // Several caches now and then.
    let per_llc = match random.chance(0.25) {
        true => *random.pick(&[2, 4, 8]),
        false => cpus,
    };
    Machine::simple(
        cpus,
        per_llc.min(cpus),
        *random.pick(&[Kernel::V6_18, Kernel::V7_2]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fluid::is_defined;
    use std::collections::BTreeSet;

    #[test]
    fn each_seed_is_a_mix_whose_ideal_is_known() {
        let mut kinds = BTreeSet::new();
        let (mut many, mut late, mut masked, mut members) = (0, 0, 0, 0);
        let mut promised = 0;
        for seed in 0..400 {
            let mix = generate(seed);
            mix.setup
                .check()
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let has_promises = mix.setup.rates.is_some();
            assert_eq!(is_defined(&mix.setup), !has_promises, "seed {seed}");
            assert_eq!(mix, generate(seed));
            kinds.insert(mix.name.split('-').next().map(str::to_owned));
            let tasks = &mix.setup.tasks;
            many += usize::from(tasks.len() >= 100);
            late += usize::from(tasks.iter().any(|task| task.start_ns > Some(0)));
            masked += usize::from(tasks.iter().any(|task| task.affinity.is_some()));
            promised += usize::from(has_promises);
            members += usize::from(tasks.iter().any(|task| task.may_join()));
        }
        assert_eq!(kinds.len(), KINDS.len() + 1);
        assert!((20..80).contains(&promised), "{promised}");
        assert!(
            many > 10 && late > 100 && masked > 30 && members > 150,
            "{many} {late} {masked} {members}"
        );
    }
}
