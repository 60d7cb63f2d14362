// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans from seeds, until one breaks a rule; that one is made small.

use super::{run, Outcome, Plan};
use std::time::{Duration, Instant};

/// A plan that breaks a rule, and what came of it.
#[derive(Clone, Debug)]
pub struct Found {
    pub plan: Plan,
    pub outcome: Outcome,
}

/// Tries so many seeds, for so long at most. Returns how many were tried, and what was found. `progress` is told how many are
/// done.
pub fn explore(
    first_seed: u64,
    seeds: u64,
    time_max: Option<Duration>,
    progress: &mut dyn FnMut(u64),
) -> (u64, Option<Found>) {
    let begun = Instant::now();
    for done in 0..seeds {
        if time_max.is_some_and(|most| begun.elapsed() >= most) {
            return (done, None);
        }
        let plan = Plan::draw(first_seed.saturating_add(done));
        let outcome = run(&plan);
        if !outcome.broken.is_empty() {
            return (done + 1, Some(shrink(Found { plan, outcome })));
        }
        progress(done + 1);
    }
    (seeds, None)
}

/// The same with fewer polls, and no fault and no binding that is not needed, as long as some rule is broken.
fn shrink(mut found: Found) -> Found {
    loop {
        let shorter = |plan: &Plan| Plan {
            polls: plan.polls - plan.polls.div_ceil(8),
            ..plan.clone()
        };
        let sound = |plan: &Plan| Plan {
            faults: Vec::new(),
            ..plan.clone()
        };
        let unbound = |plan: &Plan| Plan {
            bound_to: Vec::new(),
            ..plan.clone()
        };
        let plan = &found.plan;
        let candidates = [sound(plan), unbound(plan), shorter(plan)];
        let smaller = candidates.into_iter().find_map(|plan| {
            let is_smaller = plan != found.plan && plan.polls > 0;
            let outcome = is_smaller.then(|| run(&plan))?;
            (!outcome.broken.is_empty()).then_some(Found { plan, outcome })
        });
        match smaller {
            Some(smaller) => found = smaller,
            None => return found,
        }
    }
}
