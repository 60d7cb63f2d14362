// SPDX-License-Identifier: GPL-2.0 OR MIT
//! pipeline.h: levels stay within their marks, a filled pipeline changes stages once in a step, a starved stage is helped.

use super::*;
use proptest::prelude::*;

/// A pipeline all of whose stages always want the CPU: each takes an item, and puts one.
struct Pipeline {
    g: Group,
    /// Behind each stage but the last.
    levels: Vec<i64>,
    now_ns: u64,
}

impl Pipeline {
    /// Marks and steps of all stages but the last.
    fn new(terms: &[(u32, u32)], bootstrap: u32) -> Self {
        let mut g = Group::new(FUNCTION_PIPELINE, terms.len() + 1);
        for (number, &(high, step)) in terms.iter().enumerate() {
            (g.role(number).high, g.role(number).step) = (high, step);
        }
        g.role(terms.len()).step = 1;
        g.function.bootstrap = bootstrap;
        Self {
            g,
            levels: vec![0; terms.len()],
            now_ns: MS,
        }
    }

    fn can_run(&self, stage: usize) -> bool {
        stage == 0 || self.levels[stage - 1] > 0
    }

    /// The stage that goes first of those that wait.
    fn first(&mut self) -> usize {
        for (number, level) in self.levels.iter().enumerate() {
            self.g.function.roles[number].state[0] = *level;
        }
        unsafe { core_pipeline_look(&mut *self.g.function, self.now_ns) };
        let able = (0..=self.levels.len())
            .filter(|&it| self.can_run(it))
            .collect::<Vec<_>>();
        let key = |g: &mut Group, number, now_ns| {
            g.publish(number, now_ns);
            (g.member(number).due_ns > now_ns, g.member(number).key)
        };
        able.into_iter()
            .min_by_key(|&it| key(&mut self.g, it, self.now_ns))
            .unwrap()
    }

    /// One item more of the one that goes first.
    fn run(&mut self) -> usize {
        let stage = self.first();
        if stage > 0 {
            self.levels[stage - 1] -= 1;
        }
        if stage < self.levels.len() {
            self.levels[stage] += 1;
        }
        self.now_ns += MS;
        stage
    }

    fn is_full(&mut self, stage: usize) -> bool {
        let high = i64::from(self.g.role(stage).high);
        self.levels.get(stage).is_some_and(|&it| it >= high)
    }
}

fn terms() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec(
        (1..20u32).prop_flat_map(|high| (Just(high), 1..=high)),
        1..6,
    )
}

proptest! {
    /// Somebody always has something to do whose queue is not full: nobody goes on beyond its mark.
    #[test]
    fn levels_stay_within_their_marks(terms in terms()) {
        let mut p = Pipeline::new(&terms, 0);
        for _ in 0..2_000 {
            let stage = p.first();
            prop_assert!(!p.is_full(stage), "{stage} fills a queue of {:?}", p.levels);
            p.run();
            let fits = p.levels.iter().zip(&terms).all(|(&level, it)| level <= i64::from(it.0));
            prop_assert!(fits, "{:?} of {terms:?}", p.levels);
        }
    }

    /// All queues have come to their marks before anybody drains the last one, and nobody is left out after that.
    #[test]
    fn a_pipeline_is_filled_first_and_keeps_pace(terms in terms()) {
        let mut p = Pipeline::new(&terms, 0);
        let last = terms.len();
        let fill: usize = (0..last).map(|it| (it + 1) * terms[it].0 as usize).sum();
        let mut were_full = vec![false; last];
        let mut turns = 0;
        while p.run() != last {
            (0..last).for_each(|it| were_full[it] |= p.is_full(it));
            turns += 1;
            prop_assert!(turns <= fill);
        }
        prop_assert!(were_full.iter().all(|&it| it), "{were_full:?}");
        let before: i64 = p.levels.iter().sum();
        let mut made = vec![0i64; last + 1];
        (0..3_000).for_each(|_| made[p.run()] += 1);
        let most = before.max(p.levels.iter().sum());
        prop_assert!(made.iter().all(|&it| (it - made[last]).abs() <= most), "{made:?}");
    }

    /// Whatever stages say of their levels, each has a place in the order, and it is its own.
    #[test]
    fn places_in_the_order_are_stages_own(terms in terms(), said in prop::collection::vec(any::<i64>(), 8)) {
        let mut p = Pipeline::new(&terms, 0);
        for (number, level) in said.iter().enumerate() {
            p.g.function.roles[number].state[0] = *level;
        }
        unsafe { core_pipeline_look(&mut *p.g.function, MS) };
        let mut ranks: Vec<u32> = (0..=terms.len()).map(|it| p.g.role(it).rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        prop_assert_eq!(ranks.len(), terms.len() + 1);
        prop_assert!(ranks.iter().all(|&it| it < 4 * ROLES_MAX));
    }

    /// Plans wait until the last stage's queue has come to the bootstrap level, and begin as much later.
    #[test]
    fn plans_begin_when_there_is_something_to_show(terms in terms(), part in 0.0..1.0f64) {
        let last = terms.len();
        let bootstrap = 1 + (part * f64::from(terms[last - 1].0 - 1)) as u32;
        let mut p = Pipeline::new(&terms, bootstrap);
        p.g.give_plan(last, &[(0, MS)], 40 * MS);
        unsafe { core_function_start(&mut *p.g.function, p.now_ns, p.now_ns) };
        let mut at_ns = p.now_ns;
        while p.g.function.is_booted == 0 {
            prop_assert!(p.levels[last - 1] <= i64::from(bootstrap));
            at_ns = p.now_ns;
            p.run();
        }
        prop_assert_eq!(p.g.function.zero_ns, at_ns);
    }
}

/// How often another stage runs than before, of so many items.
fn changes(step: u32) -> usize {
    let mut p = Pipeline::new(&[(12, step), (12, step)], 0);
    (0..1_000).for_each(|_| {
        p.run();
    });
    let stages: Vec<usize> = (0..3_000).map(|_| p.run()).collect();
    stages.windows(2).filter(|it| it[0] != it[1]).count()
}

#[test]
fn a_filled_pipeline_changes_stages_once_in_a_step() {
    for step in [1, 2, 3, 4, 6, 12] {
        // In each step all three stages have their turn, of as many items.
        let most = 3_000 / step as usize + 3;
        assert!(
            changes(step) <= most,
            "{} changes in steps of {step}",
            changes(step)
        );
    }
}

#[test]
fn a_starved_stage_has_another_one_run_in_its_interval() {
    let mut p = Pipeline::new(&[(4, 1), (4, 1)], 0);
    p.g.give_plan(2, &[(0, 5 * MS)], 0);
    unsafe { core_function_start(&mut *p.g.function, p.now_ns, p.now_ns) };
    p.g.publish(2, p.now_ns);
    // Nothing is there: the first stage, then the second one, and the last one itself.
    for stage in [0, 1, 2] {
        assert_eq!(p.first(), stage);
        assert!(p.g.member(stage).due_ns <= p.now_ns, "{stage} is not due");
        assert_eq!(p.run(), stage);
    }
}
