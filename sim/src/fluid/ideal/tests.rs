// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases worked out by hand, and what holds for all.

use super::*;
use crate::random::Random;

/// (cgroup, weight, most, CPUs)
type Task<'a> = (usize, f64, f64, Option<&'a [Cpu]>);

fn shares(cpus: usize, groups: &[(usize, f64)], tasks: &[Task<'_>]) -> Vec<f64> {
    let root = (None, 1.0);
    let groups = groups
        .iter()
        .map(|(parent, weight)| (Some(*parent), *weight));
    let mut ideal = Ideal::new(cpus, std::iter::once(root).chain(groups));
    let claims: Vec<Claim> = tasks
        .iter()
        .map(|&(group, weight, most, cpus)| Claim {
            group,
            weight,
            most,
            set: ideal.set_of(cpus),
        })
        .collect();
    ideal.shares(&claims)
}

fn assert_near(shares: &[f64], expected: &[f64]) {
    assert_eq!(shares.len(), expected.len());
    for (share, wanted) in shares.iter().zip(expected) {
        assert!(
            (share - wanted).abs() < 1e-6,
            "{shares:?}, not {expected:?}"
        );
    }
}

#[test]
fn weights_divide_a_cpu() {
    let tasks = [(0, 1.0, 1.0, None), (0, 3.0, 1.0, None)];
    assert_near(&shares(1, &[], &tasks), &[0.25, 0.75]);
}

#[test]
fn one_task_has_one_cpu_and_the_rest_is_the_others() {
    let tasks = [
        (0, 100.0, 1.0, None),
        (0, 1.0, 1.0, None),
        (0, 1.0, 1.0, None),
    ];
    assert_near(&shares(2, &[], &tasks), &[1.0, 0.5, 0.5]);
}

#[test]
fn who_asks_for_little_leaves_the_rest() {
    let tasks = [
        (0, 1.0, 0.1, None),
        (0, 1.0, 1.0, None),
        (0, 2.0, 1.0, None),
    ];
    assert_near(&shares(1, &[], &tasks), &[0.1, 0.3, 0.6]);
}

#[test]
fn what_one_leaves_is_its_siblings_before_anybody_elses() {
    // Half of the CPU for the cgroup, though one in it asks for a tenth only.
    let tasks = [
        (1, 1.0, 0.1, None),
        (1, 1.0, 1.0, None),
        (0, 1.0, 1.0, None),
    ];
    assert_near(&shares(1, &[(0, 1.0)], &tasks), &[0.1, 0.4, 0.5]);
    // A cgroup that does not use its half leaves it to the others.
    let tasks = [
        (1, 1.0, 0.1, None),
        (1, 1.0, 0.2, None),
        (0, 1.0, 1.0, None),
    ];
    assert_near(&shares(1, &[(0, 1.0)], &tasks), &[0.1, 0.2, 0.7]);
}

#[test]
fn nested_weights_multiply() {
    // /a has 1/3: /a/x 10000 to /a/y 1.
    let groups = [(0, 1.0), (1, 100.0), (1, 0.01), (0, 1.0), (0, 1.0)];
    let tasks = [2, 3, 4, 5].map(|group| (group, 1.0, 1.0, None));
    let x = 1.0 / 3.0 * 10000.0 / 10001.0;
    assert_near(
        &shares(1, &groups, &tasks),
        &[x, 1.0 / 3.0 - x, 1.0 / 3.0, 1.0 / 3.0],
    );
}

#[test]
fn pinned_threads_share_with_who_may_go_elsewhere() {
    let mut tasks: Vec<Task<'_>> = Vec::new();
    let cpus: [[Cpu; 1]; 4] = [[0], [1], [2], [3]];
    tasks.extend(cpus.iter().map(|cpu| (1, 1.0, 1.0, Some(&cpu[..]))));
    tasks.extend((0..4).map(|_| (2, 1.0, 1.0, None)));
    assert_near(&shares(4, &[(0, 1.0), (0, 1.0)], &tasks), &[0.5; 8]);
}

#[test]
fn a_mask_that_does_not_bind_changes_nothing() {
    let seven: Vec<Cpu> = (0..7).collect();
    for (weight, a, b) in [(1.0, 0.5, 0.5), (3.0, 0.75, 0.25)] {
        let masked = (0..8).map(|_| (1, 1.0, 1.0, Some(&seven[..])));
        let free = (0..8).map(|_| (2, 1.0, 1.0, None));
        let tasks: Vec<Task<'_>> = masked.chain(free).collect();
        let expected = [[a; 8], [b; 8]].concat();
        assert_near(&shares(8, &[(0, weight), (0, 1.0)], &tasks), &expected);
    }
    // It binds where seven CPUs are less than the weights say.
    let masked = (0..8).map(|_| (1, 1.0, 1.0, Some(&seven[..])));
    let free = (0..8).map(|_| (2, 1.0, 1.0, None));
    let tasks: Vec<Task<'_>> = masked.chain(free).collect();
    let expected = [[7.0 / 8.0; 8], [1.0 / 8.0; 8]].concat();
    assert_near(&shares(8, &[(0, 99.0), (0, 1.0)], &tasks), &expected);
}

#[test]
fn a_cpuset_is_a_machine_of_its_own() {
    let (half, rest): ([Cpu; 4], [Cpu; 4]) = ([0, 1, 2, 3], [4, 5, 6, 7]);
    let six = (0..6).map(|_| (0, 1.0, 1.0, Some(&half[..])));
    let four = (0..4).map(|_| (0, 1.0, 1.0, Some(&rest[..])));
    let tasks: Vec<Task<'_>> = six.chain(four).collect();
    let expected = [vec![2.0 / 3.0; 6], vec![1.0; 4]].concat();
    assert_near(&shares(8, &[], &tasks), &expected);
}

#[test]
fn who_may_go_elsewhere_makes_room() {
    // Two on CPU 0 alone, one anywhere: that one has CPU 1.
    let tasks = [
        (0, 1.0, 1.0, Some(&[0][..])),
        (0, 1.0, 1.0, Some(&[0][..])),
        (0, 1.0, 1.0, None),
    ];
    assert_near(&shares(2, &[], &tasks), &[0.5, 0.5, 1.0]);
    // A chain: {0}, {0,1}, {1,2} and one of CPU 2 only that weighs three.
    let tasks = [
        (0, 1.0, 1.0, Some(&[0][..])),
        (0, 1.0, 1.0, Some(&[0, 1][..])),
        (0, 1.0, 1.0, Some(&[1, 2][..])),
        (0, 3.0, 1.0, Some(&[2][..])),
    ];
    assert_near(
        &shares(3, &[], &tasks),
        &[2.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0, 1.0],
    );
}

#[test]
fn a_pinned_cgroup_pours_where_its_tasks_are() {
    // The cgroup's weight lies half on CPU 0 and half on CPU 1, as load on run queues does.
    let tasks = [
        (1, 1.0, 1.0, Some(&[0][..])),
        (1, 1.0, 1.0, Some(&[1][..])),
        (0, 1.0, 1.0, Some(&[0][..])),
    ];
    let third = 1.0 / 3.0;
    assert_near(&shares(2, &[(0, 1.0)], &tasks), &[third, 1.0, 2.0 * third]);
}

#[test]
fn extremes_are_no_problem() {
    let mut tasks: Vec<Task<'_>> = (0..900).map(|_| (0, 1.0, 1.0, None)).collect();
    tasks.push((0, weight_of_nice(19), 1.0, None));
    let all = 900.0 + weight_of_nice(19);
    let got = shares(1, &[], &tasks);
    assert!(
        (got[0] - 1.0 / all).abs() < 1e-12 && (got[900] * all - weight_of_nice(19)).abs() < 1e-9
    );
    assert_near(&shares(2, &[], &[]), &[]);
    assert_near(&shares(2, &[], &[(0, 1.0, 0.0, None)]), &[0.0]);
}

/// A machine, a tree and tasks from a seed.
fn random(seed: u64) -> (Ideal, Vec<Claim>) {
    let mut random = Random::derived(seed, 0xf1);
    let cpus = *random.pick(&[1, 1, 2, 3, 4, 8, 16]);
    let mut groups = vec![(None, 1.0)];
    for at in 1..=random.between(0, 8) as usize {
        let parent = random.between(0, at as u64) as usize;
        groups.push((
            Some(parent),
            weight_of_cgroup(*random.pick(&[1, 50, 100, 300, 10_000])),
        ));
    }
    let count = groups.len() as u64;
    let mut ideal = Ideal::new(cpus, groups);
    let claims = (0..random.between(1, 40)).map(|_| {
        let mut some: Vec<Cpu> = (0..cpus as Cpu).filter(|_| random.chance(0.4)).collect();
        some.push(random.between(0, cpus as u64) as Cpu);
        let mask = random.chance(0.4).then_some(&some[..]);
        Claim {
            group: random.between(0, count) as usize,
            weight: weight_of_nice(random.between(0, 40) as i32 - 20),
            most: *random.pick(&[1.0, 1.0, 0.5, 0.05]),
            set: ideal.set_of(mask),
        }
    });
    let claims = claims.collect();
    (ideal, claims)
}

#[test]
fn what_is_poured_fits_and_leaves_nothing_that_somebody_could_use() {
    for seed in 0..2000 {
        let (ideal, claims) = random(seed);
        let shares = ideal.shares(&claims);
        let mut sums = vec![0.0; ideal.sets.len()];
        for (claim, share) in claims.iter().zip(&shares) {
            assert!(
                (0.0..=claim.most + 1e-6).contains(share),
                "seed {seed}: {share}"
            );
            sums[claim.set] += share;
        }
        let less: Vec<f64> = sums.iter().map(|sum| sum * (1.0 - 1e-7)).collect();
        assert!(
            ideal.network.flow(&less).crowd().is_none(),
            "seed {seed} does not fit"
        );
        let flow = ideal.network.flow(&sums);
        for (claim, share) in claims.iter().zip(&shares) {
            let is_full = *share >= claim.most - 1e-6;
            let mut more = sums.clone();
            more[claim.set] += 1e-6;
            let fits = flow.has_room(claim.set) && ideal.network.flow(&more).crowd().is_none();
            assert!(is_full || !fits, "seed {seed}: {claim:?} has {share}");
        }
    }
}

/// Nobody is behind a sibling by the weights, but who has all it can use, or whose own CPUs are full.
#[test]
fn siblings_that_could_have_more_are_equal_by_weight() {
    for seed in 0..2000 {
        let (ideal, claims) = random(seed);
        let shares = ideal.shares(&claims);
        for (one, x) in claims.iter().zip(&shares) {
            for (other, y) in claims.iter().zip(&shares) {
                let are_alike = one.group == other.group && one.set == other.set;
                let is_behind = x / one.weight < y / other.weight - 1e-6;
                let is_full = *x >= one.most - 1e-6;
                assert!(
                    !are_alike || !is_behind || is_full,
                    "seed {seed}: {one:?} {x} {other:?} {y}"
                );
            }
        }
    }
}

/// Level by level, from the root, as the books have it: the same where there are no masks.
fn nested(ideal: &Ideal, claims: &[Claim]) -> Vec<f64> {
    fn want(ideal: &Ideal, claims: &[Claim], group: usize) -> f64 {
        let own = claims
            .iter()
            .filter(|it| it.group == group)
            .map(|it| it.most);
        let kids = (1..ideal.groups.len()).filter(|at| ideal.groups[*at].parent == Some(group));
        own.sum::<f64>() + kids.map(|kid| want(ideal, claims, kid)).sum::<f64>()
    }
    fn divide(ideal: &Ideal, claims: &[Claim], group: usize, cpus: f64, shares: &mut [f64]) {
        let mut items: Vec<(f64, f64, Result<usize, usize>)> = Vec::new();
        let own = claims
            .iter()
            .enumerate()
            .filter(|(_, it)| it.group == group);
        items.extend(own.map(|(at, it)| (it.weight, it.most, Ok(at))));
        let kids = (1..ideal.groups.len()).filter(|at| ideal.groups[*at].parent == Some(group));
        items
            .extend(kids.map(|kid| (ideal.groups[kid].weight, want(ideal, claims, kid), Err(kid))));
        items.retain(|(_, most, _)| *most > 0.0);
        // Who is full first: by what it can use for its weight.
        items.sort_by(|one, other| (one.1 / one.0).total_cmp(&(other.1 / other.0)));
        let mut weights: f64 = items.iter().map(|it| it.0).sum();
        let mut left = cpus;
        for (weight, most, item) in items {
            let part = most.min(left * weight / weights);
            (left, weights) = (left - part, weights - weight);
            match item {
                Ok(at) => shares[at] = part,
                Err(kid) => divide(ideal, claims, kid, part, shares),
            }
        }
    }
    let mut shares = vec![0.0; claims.len()];
    divide(ideal, claims, 0, ideal.cpus as f64, &mut shares);
    shares
}

#[test]
fn without_masks_it_is_what_dividing_level_by_level_gives() {
    for seed in 0..2000 {
        let (ideal, mut claims) = random(seed);
        claims.iter_mut().for_each(|claim| claim.set = 0);
        let (poured, divided) = (ideal.shares(&claims), nested(&ideal, &claims));
        for (one, other) in poured.iter().zip(&divided) {
            assert!(
                (one - other).abs() < 1e-5,
                "seed {seed}: {poured:?}, not {divided:?}"
            );
        }
    }
}
