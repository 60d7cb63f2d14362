// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often tasks change CPUs, and caches: not where they can be divided evenly, and else once in a turn.

use crate::common::planted::{plant, side_by_side};
use crate::common::summaries::summary_under;
use crate::common::{assert_fine, MS, S};
use consort_sim::consort::{Consort, Library};
use consort_sim::mutate::Mutation;
use consort_sim::report::Row;
use consort_sim::setup::*;
use consort_sim::trace::{Event, What};
use consort_sim::{consort, run};

/// A turn of migrate.h.
const TURN_NS: u64 = 50 * MS;

/// Hogs, so many for each list of CPUs; no list: all of them.
type Hogs = &'static [(usize, &'static [u32])];

struct Changes {
    llc_of: Vec<u32>,
    from_ns: u64,
    /// When which task came to another cache.
    seen: Vec<(u64, usize)>,
}

impl consort_sim::trace::Observer for Changes {
    fn event(&mut self, event: &Event) {
        if let What::Migrated { task, from, to } = event.what {
            let changes = self.llc_of[from as usize] != self.llc_of[to as usize];
            if changes && event.at_ns >= self.from_ns {
                self.seen.push((event.at_ns, task as usize));
            }
        }
    }
}

/// What each hog had, and the changes of caches from `from_ns` on.
fn changes(
    cpus: u32,
    of_a_cache: u32,
    hogs: Hogs,
    from_ns: u64,
    duration_ns: u64,
) -> (Vec<u64>, Vec<(u64, usize)>) {
    let machine = Machine::simple(cpus, of_a_cache, Kernel::V7_2);
    let mut changes = Changes {
        llc_of: machine.llc_of.clone(),
        from_ns,
        seen: Vec::new(),
    };
    let mut setup = Setup::empty(machine, duration_ns);
    for (count, on) in hogs {
        for _ in 0..*count {
            setup.tasks.push(Task {
                affinity: (!on.is_empty()).then(|| on.to_vec()),
                ..Task::new("hog", Program::Hog)
            });
        }
    }
    let outcome = run(&setup, consort(), &mut changes).unwrap();
    assert_fine(&outcome);
    let had = outcome.tasks.iter().map(|it| it.run_ns).collect();
    (had, changes.seen)
}

/// Whatever a cache holds is of use to who stays: where all have the same, be they bound to some CPUs or not, nobody goes.
#[test]
fn nobody_changes_caches_where_tasks_can_be_divided_evenly() {
    const EVEN: [(u32, u32, Hogs); 5] = [
        (4, 2, &[(8, &[])]),
        (4, 2, &[(4, &[]), (4, &[1, 2])]),
        (4, 2, &[(6, &[]), (2, &[1, 2])]),
        (8, 4, &[(8, &[]), (8, &[2, 3, 4, 5])]),
        (8, 4, &[(4, &[3, 4])]),
    ];
    for (cpus, of_a_cache, hogs) in EVEN {
        let (_, seen) = changes(cpus, of_a_cache, hogs, 3 * S, 8 * S);
        assert!(seen.is_empty(), "{cpus} CPUs, {hogs:?}: {seen:?}");
    }
}

/// Three on two CPUs of two caches: each of these places gives or takes one in a turn, and all have had two thirds.
#[test]
fn tasks_that_take_turns_in_two_caches_change_once_in_a_turn() {
    const DURATION_NS: u64 = 8 * S;
    let (had, seen) = changes(8, 4, &[(3, &[3, 4])], 0, DURATION_NS);
    let least = *had.iter().min().unwrap() as f64;
    assert!(least > 0.9 * DURATION_NS as f64 * 2.0 / 3.0, "{had:?}");
    assert!(!seen.is_empty());
    assert!(seen.len() as u64 <= DURATION_NS / TURN_NS, "{}", seen.len());
}

/// The same beside others, which may run anywhere: two places of CPUs and two of caches, of each of which one goes or to which one
/// comes in a turn.
#[test]
fn turns_beside_tasks_of_whole_caches_are_no_shorter() {
    const DURATION_NS: u64 = 8 * S;
    let (_, seen) = changes(8, 4, &[(8, &[]), (3, &[3, 4])], 0, DURATION_NS);
    let bound = 2 * DURATION_NS / TURN_NS;
    assert!(seen.len() as u64 <= bound, "{} of {bound}", seen.len());
}

/// So many CPUs with one cache; hogs on their own, in cgroups and bound to some CPUs, beside tasks that wake; and of how many
/// switches at most one is a migration.
const BUSY: [(usize, &str, f64); 5] = [
    (8, r#""hog": {"instance": 27, "hog": true}"#, 30.0),
    (16, r#""hog": {"instance": 40, "hog": true}"#, 10.0),
    (
        16,
        r#""a": {"instance": 20, "hog": true, "taskgroup": "/a"}, "b": {"instance": 20, "hog": true, "taskgroup": "/b"}"#,
        6.0,
    ),
    (
        8,
        r#""hog": {"instance": 8, "hog": true}, "some": {"instance": 11, "hog": true, "cpus": [1, 2, 3, 4, 5]}"#,
        8.0,
    ),
    (
        8,
        r#""one": {"instance": 11, "hog": true, "cpus": [1, 2, 3, 4, 5]}, "other": {"instance": 7, "hog": true, "cpus": [4, 5, 6, 7, 0]}"#,
        12.0,
    ),
];

/// Switches and migrations a second for each CPU, and what the hogs of each name had, the least and the most against their mean.
fn busy(library: &Library, cpus: usize, tasks: &str) -> (f64, f64, f64) {
    let text = format!(
        r#"{{"global": {{"duration": 4, "warmup": 1}}, "machine": {{"cpus": {cpus}}}, "cgroups": {{"/a": {{"weight": 100}}, "/b": {{"weight": 100}}}},
            "tasks": {{{tasks}, "at-times": {{"instance": 4, "run": 500, "sleep": 20000}}}}}}"#
    );
    let summary = summary_under(Box::new(Consort::new(library)), &text, Some(1));
    let hogs = || {
        summary
            .tasks
            .iter()
            .filter(|it| !it.name.starts_with("at-times"))
    };
    let mean = hogs().map(|it| it.share_percent).sum::<f64>() / hogs().count() as f64;
    let error = hogs().map(|it| (it.share_percent / mean - 1.0).abs());
    let per_cpu = |of: fn(&Row) -> f64| hogs().map(of).sum::<f64>() / cpus as f64;
    (
        per_cpu(|it| it.switches_per_s),
        per_cpu(|it| it.migrations_per_s),
        error.fold(0.0, f64::max),
    )
}

/// Without that nine switches of ten take a task that another CPU had. All hogs have the same all the same.
#[test]
fn tasks_stay_on_their_cpus_where_several_serve_one_queue() {
    side_by_side(&BUSY, |(cpus, tasks, least)| {
        let (switches, migrations, error) = busy(&Library::built_in(), *cpus, tasks);
        let text = format!("{tasks}: {migrations:.0} of {switches:.0}, {error:.4}");
        assert!(migrations * least <= switches && error < 0.01, "{text}");
    });
}

#[test]
fn that_nobody_is_hot_is_seen() {
    let bug = plant(&Mutation {
        name: "nobody-is-hot",
        file: "core/hot.h",
        from: "if (!hot_is_near(c, n))",
        to: "if (1)",
    });
    side_by_side(&BUSY, |(cpus, tasks, least)| {
        let (switches, migrations, _) = busy(&bug, *cpus, tasks);
        assert!(
            migrations * least > switches,
            "{tasks}: {migrations:.0} of {switches:.0}"
        );
    });
}
