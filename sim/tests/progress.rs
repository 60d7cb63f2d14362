// SPDX-License-Identifier: MIT OR Apache-2.0
//! Domains by progress with members that announce no due events: they take turns, whenever they came and whatever they announced
//! before.

use crate::common::summaries::{row, share, summary, SEEDS};

const NEVER_DUE: &str =
    r#""rest": { "loop": -1, "run": 400, "poll": { "due": "never", "priority": 0 } }"#;

/// Two members that have never announced any, and a third one, `last`, that becomes like them.
fn assert_turns(last: &str) {
    for seed in SEEDS {
        let text = format!(
            r#"{{ "global": {{ "duration": 8, "warmup": 2 }}, "domains": {{ "d": {{ "order": "progress" }} }},
                 "tasks": {{ "two": {{ "instance": 2, "phases": {{ "join": {{ "join": "d" }}, {NEVER_DUE} }} }},
                             "last": {{ {last} {NEVER_DUE} }} }} }} }}"#
        );
        let summary = summary(&text, seed);
        let had = share(&summary, "last");
        assert!((had - 33.3).abs() < 1.0, "{had}");
        let wait_ms = row(&summary, "last").wait_max_ms;
        assert!(wait_ms < 250.0, "waits {wait_ms} ms, for two turns of 100");
    }
}

#[test]
fn a_member_that_comes_later_has_its_turn() {
    assert_turns(r#""delay": 1000000, "phases": { "join": { "join": "d" },"#);
}

#[test]
fn a_member_that_has_announced_events_before_has_its_turn() {
    assert_turns(
        r#""phases": { "join": { "join": "d" }, "films": { "loop": 100, "run": 400, "poll": "5ms" },"#,
    );
}
