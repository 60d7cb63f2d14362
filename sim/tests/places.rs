// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two places of a CPU, its shard's and its own: neither starves the other.

use crate::common::summaries::{row, share, summary, SEEDS};

/// A task that has waited for too long in a CPU's own place runs before those of its shard that virtual time would run next.
#[test]
fn the_longest_waiter_is_served_in_the_place_of_one_cpu() {
    const BOUND_TO_ONE: &str = r#"{ "global": { "duration": 20 }, "machine": { "cpus": 2, "llc": 1 },
        "tasks": { "light": { "cpus": [0], "hog": true, "priority": 19 },
                   "heavy": { "instance": 4, "hog": true, "priority": -20 } } }"#;
    for seed in SEEDS {
        let wait_max_ms = row(&summary(BOUND_TO_ONE, seed), "light").wait_max_ms;
        assert!(
            wait_max_ms < 1600.0,
            "seed {seed}: it waits {wait_max_ms} ms"
        );
    }
}

/// Reserved tasks are in one of a CPU's two places, and all others in the other one: each place has its part.
#[test]
fn a_reservation_has_its_rate_beside_the_other_place_of_its_cpu() {
    const RESERVED: &str =
        r#""hog": true, "reserve": { "class": "guaranteed", "rate": 0.4, "period": "20ms" }"#;
    let in_own_place = format!(
        r#"{{ "film": {{ "cpus": [1], {RESERVED} }}, "hog": {{ "instance": 5, "hog": true }} }}"#
    );
    let in_shard = format!(
        r#"{{ "film": {{ {RESERVED} }}, "hog": {{ "cpus": [0], "hog": true }}, "other": {{ "cpus": [1], "hog": true }} }}"#
    );
    for tasks in [in_own_place, in_shard] {
        for seed in SEEDS {
            let scenario = format!(
                r#"{{ "global": {{ "duration": 6 }}, "machine": {{ "cpus": 2, "llc": 1 }}, "tasks": {tasks} }}"#
            );
            let summary = summary(&scenario, seed);
            let film = share(&summary, "film");
            assert!(film > 40.0, "seed {seed}: {film} % of 40");
            // What is bound to the same CPU keeps a quarter of it: `flexible` and the classes that nobody uses.
            assert!(share(&summary, "hog") > 20.0, "{:?}", summary.groups);
        }
    }
}
