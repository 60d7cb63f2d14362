// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has gone on for long is no credit for later, and those who have what they can use keep it.

use crate::common::summaries::{row, share, summary};

/// Two tasks of a cgroup had a CPU each beside light ones of another: a third is not owed what these two could not use.
#[test]
fn what_few_tasks_could_not_use_is_not_owed_when_more_come() {
    for after_s in [1, 12] {
        let text = format!(
            r#"{{"global": {{"duration": {}, "warmup": {after_s}}}, "machine": {{"cpus": 3}},
                "cgroups": {{"/web": {{"weight": 200}}, "/batch": {{"weight": 200}}}},
                "tasks": {{"handler": {{"instance": 3, "loop": -1, "run": 210, "sleep": 3776, "taskgroup": "/web"}},
                           "batch": {{"instance": 2, "hog": true, "taskgroup": "/batch"}},
                           "late": {{"delay": "{after_s}.7s", "hog": true, "taskgroup": "/batch"}}}}}}"#,
            after_s + 2
        );
        let wait_ms = row(&summary(&text, 1), "handler").wait_max_ms;
        assert!(
            wait_ms < 10.0,
            "after {after_s} s: {wait_ms} ms, a slice is 2"
        );
    }
}

/// All that wait began at the same time: the minimum stands for a round of them.
#[test]
fn a_heavy_task_keeps_its_cpu_beside_hundreds_of_light_ones() {
    let text = r#"{"global": {"duration": 3, "warmup": 1}, "machine": {"cpus": 8},
        "tasks": {"many": {"instance": 200, "hog": true}, "heavy": {"instance": 2, "hog": true, "priority": -20}}}"#;
    // Of all instances.
    let percent = share(&summary(text, 1), "heavy");
    assert!(percent > 2.0 * 98.0, "{percent}");
}

/// Where tasks wait that weigh next to nothing, one that comes from another cache is not behind them.
#[test]
fn a_sleeper_that_changes_caches_does_not_wait_for_the_lightest() {
    let text = r#"{"global": {"duration": 24, "warmup": 21}, "machine": {"cpus": 4, "llc": 2},
        "cgroups": {"/all": {"weight": 100}},
        "tasks": {"lightest": {"instance": 2, "hog": true, "priority": 19, "taskgroup": "/all"},
                  "heavy": {"hog": true, "priority": -10},
                  "hog": {"instance": 3, "hog": true, "taskgroup": "/all"},
                  "sleeper": {"instance": 2, "delay": 21, "loop": -1, "run": 3471, "sleep": 13907, "taskgroup": "/all"}}}"#;
    let wait_ms = row(&summary(text, 1), "sleeper").wait_max_ms;
    assert!(wait_ms < 20.0, "{wait_ms}");
}

/// Equals over two caches, beside the lightest: none brings a lead from one cache that is many slices in the other.
#[test]
fn equals_of_two_caches_do_not_wait_for_the_lightest() {
    let text = r#"{"global": {"duration": 6, "warmup": 1}, "machine": {"cpus": 4, "llc": 2},
        "cgroups": {"/all": {"weight": 1000}},
        "tasks": {"bound": {"instance": 2, "hog": true, "taskgroup": "/all", "cpus": [1]},
                  "player": {"instance": 4, "player": {"domain": "films", "load": 0.05}, "taskgroup": "/all"},
                  "lightest": {"instance": 2, "hog": true, "priority": 19, "taskgroup": "/all"},
                  "hog": {"instance": 4, "hog": true, "taskgroup": "/all"}}}"#;
    let wait_ms = row(&summary(text, 1), "hog").wait_max_ms;
    assert!(wait_ms < 25.0, "{wait_ms}");
}

/// Hogs that have a CPU each are behind lighter ones, which come far with each slice: a sleeper that is bound to a hog's CPU
/// is where the hogs are, not where the lighter ones.
#[test]
fn sleepers_of_one_cpu_do_not_wait_for_a_hog_that_has_all_of_it() {
    let text = r#"{"global": {"duration": 6, "warmup": 1}, "machine": {"cpus": 4},
        "tasks": {"hog": {"instance": 2, "hog": true},
                  "sleeper": {"instance": 4, "loop": -1, "run": 1006, "sleep": 19227},
                  "bound": {"instance": 2, "loop": -1, "run": 1292, "sleep": 13937, "cpus": [0]},
                  "lighter": {"instance": 3, "hog": true, "priority": 5}}}"#;
    let wait_ms = row(&summary(text, 1), "bound").wait_max_ms;
    assert!(wait_ms < 15.0, "{wait_ms}");
}

/// Of a cgroup's tasks a heavy one has a CPU of one cache: the others have as much beside it as in the other one.
#[test]
fn equals_beside_a_heavy_task_of_their_cgroup_have_equal_parts() {
    for (path, equals) in [
        ("/all", 5),
        ("/all", 6),
        ("/all/nested", 5),
        ("/all/nested", 7),
    ] {
        let text = format!(
            r#"{{"global": {{"duration": 7, "warmup": 2}}, "machine": {{"cpus": 4, "llc": 2}},
                "cgroups": {{"/all": {{"weight": 100}}}},
                "tasks": {{"heavy": {{"hog": true, "priority": -10, "taskgroup": "{path}"}},
                           "equal": {{"instance": {equals}, "hog": true, "taskgroup": "{path}"}}}}}}"#
        );
        let summary = summary(&text, 1);
        assert!(share(&summary, "heavy") > 98.0);
        let due_percent = 300.0 / f64::from(equals);
        for task in summary.tasks.iter().filter(|it| it.name.contains("equal")) {
            let error = task.share_percent / due_percent - 1.0;
            assert!(
                error.abs() < 0.25,
                "{path}, {equals}: {} of {due_percent} %",
                task.share_percent
            );
        }
    }
}

/// A cgroup of weight 1 has had a slice beside one of 10000, for which that one is owed 10000. It weighs as much from then on: it is
/// ahead by the one slice.
#[test]
fn a_cgroup_that_becomes_heavy_is_ahead_by_what_it_has_had() {
    let text = r#"{"global": {"duration": 4, "warmup": "2100ms"}, "machine": {"cpus": 1},
        "cgroups": {"/light": {"weight": 1}, "/heavy": {"weight": 10000}},
        "tasks": {"light": {"hog": true, "taskgroup": "/light"}, "heavy": {"hog": true, "taskgroup": "/heavy"}},
        "actions": [{"at": "2s", "cgroup_weight": 10000, "cgroup": "/light"}]}"#;
    let summary = summary(text, 1);
    // The light one had 23 %, after a wait of a second and more.
    for name in ["light", "heavy"] {
        let percent = share(&summary, name);
        assert!((percent - 50.0).abs() < 1.0, "{name}: {percent}");
    }
}

/// A reservation that is more of its class than a CPU runs all the time, and is owed no more: one of a short period has its turns.
#[test]
fn a_large_reservation_is_not_owed_what_one_task_cannot_use() {
    let text = r#"{"global": {"duration": 6, "warmup": 1}, "machine": {"cpus": 2, "llc": 1},
        "tasks": {"large": {"hog": true, "reserve": {"class": "guaranteed", "rate": 0.7, "period": "100ms"}},
                  "small": {"hog": true, "reserve": {"class": "guaranteed", "rate": 0.1, "period": "30ms"}},
                  "other": {"hog": true, "reserve": {"class": "adaptive", "rate": 0.475, "period": "30ms"}},
                  "hog": {"instance": 4, "hog": true}}}"#;
    let summary = summary(text, 1);
    // It was 71.
    let wait_ms = row(&summary, "small").wait_max_ms;
    assert!(wait_ms < 30.0, "{wait_ms} ms of 30");
    for (name, least) in [("large", 70.0), ("small", 10.0), ("other", 47.5)] {
        let percent = share(&summary, name);
        assert!(percent >= least, "{name}: {percent}");
    }
}
