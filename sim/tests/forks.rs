// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where new tasks begin (kernel/bpf/fork.h).

use crate::common::planted::plant;
use crate::common::summaries::{summary_under, SEEDS};
use consort_sim::consort::{Consort, Library};
use consort_sim::mutate::Mutation;

/// What each of 32 tasks has in the half second after one task has forked them, of 16 caches whose CPUs are all busy.
fn shares_of_new(library: &Library, seed: u64) -> Vec<f64> {
    let forks: String = (0..32)
        .map(|it| format!(r#""fork{it}": {{"loop": 1, "fork": "new"}}, "#))
        .collect();
    let text = format!(
        r#"{{"global": {{"duration": "1500ms", "warmup": "1s"}}, "machine": {{"cpus": 64, "llc": 16}},
            "tasks": {{"old": {{"hog": true, "instance": 64}}, "new": {{"hog": true, "instance": 0}},
                      "maker": {{"phases": {{"wait": {{"loop": 1, "sleep": "1s"}}, {forks}
                                             "end": {{"loop": 1, "sleep": "10s"}}}}}}}}}}"#
    );
    let summary = summary_under(Box::new(Consort::new(library)), &text, Some(seed));
    let new = summary.tasks.iter().filter(|it| it.name.starts_with("new"));
    new.map(|it| it.share_percent).collect()
}

/// They have what all others have, 66.7 %: in their maker's cache they would have a third of that, until they have left it one
/// at a time.
#[test]
fn new_tasks_begin_where_there_is_less_to_do() {
    let built_in = Library::built_in();
    let bug = Mutation {
        name: "new-tasks-begin-where-their-maker-is",
        file: "kernel/bpf/consort.bpf.c",
        from: "cpu = cpu_for_new(p, cpu);",
        to: "cpu_for_new(p, cpu);",
    };
    for seed in SEEDS {
        let shares = shares_of_new(&built_in, seed);
        assert!(
            shares.len() == 32 && shares.iter().all(|it| *it > 56.0),
            "{shares:?}"
        );
    }
    let shares = shares_of_new(&plant(&bug), SEEDS[0]);
    let least = shares.into_iter().fold(f64::INFINITY, f64::min);
    assert!(least < 45.0, "{least}");
}
