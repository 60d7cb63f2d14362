// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups with limits, which come, change and go.

use crate::random::Random;
use crate::setup::*;

const MS: u64 = 1_000_000;
/// Others have a limit in so many of all scenarios.
const PART: f64 = 0.15;

/// Drawn apart from the rest, so that the other scenarios stay as they were.
pub(super) fn limits(setup: &mut Setup) {
    let mut random = Random::derived(setup.seed, 0x11_3175);
    if !random.chance(PART) {
        return;
    }
    if setup.cgroups.len() == 1 {
        add_cgroup(setup, &mut random);
    }
    let groups = setup.cgroups.len() as u64;
    for _ in 0..random.between(1, 4) {
        let cgroup = random.between(1, groups) as usize;
        setup.cgroups[cgroup].max = Some(limit(&mut random));
    }
    if random.chance(0.3) {
        for _ in 0..random.between(1, 6) {
            let cgroup = random.between(1, groups) as usize;
            let max = random.chance(0.7).then(|| limit(&mut random));
            let at_ns = random.between(0, setup.duration_ns);
            let what = ActionKind::CgroupMax { cgroup, max };
            setup.actions.push(Action { at_ns, what });
        }
    }
}

/// For some of those that are there.
fn add_cgroup(setup: &mut Setup, random: &mut Random) {
    setup.cgroups.push(Cgroup {
        name: "limited".to_owned(),
        parent: Some(0),
        weight: *random.pick(&[100, 100, 10, 1000]),
        max: None,
    });
    for task in &mut setup.tasks {
        if random.chance(0.5) {
            task.cgroup = 1;
        }
    }
}

fn limit(random: &mut Random) -> Limit {
    let period_ns = *random.pick(&[100, 100, 10, 20, 50, 5, 1000]) * MS;
    let percent = *random.pick(&[1, 5, 20, 20, 50, 90, 150]);
    let quota_ns = (period_ns * percent / 100).max(MS);
    let burst_ns = match random.chance(0.3) {
        true => random.between(0, quota_ns / MS + 1) * MS,
        false => 0,
    };
    Limit {
        quota_ns,
        period_ns,
        burst_ns,
    }
}
