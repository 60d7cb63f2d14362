// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priority inheritance: who holds what a task with a reservation waits for runs in its place. Each time beside the
//! same with ordinary locks, where it waits behind everybody else.

mod common;

use common::{assert_fine, MS};
use consort_sim::trace::{Event, Outcome, What};
use consort_sim::{consort, run, scenario};

/// When the task's timer was due, and when it was served, in ms.
fn served_ms(text: &str) -> Vec<(f64, f64)> {
    let scenario = scenario::parse("inherit.json", text).unwrap();
    let mut served = Vec::new();
    let mut note = |event: &Event| {
        if let What::Served { due_ns, .. } = event.what {
            served.push((due_ns as f64 / MS as f64, event.at_ns as f64 / MS as f64));
        }
    };
    let outcome = run(&scenario.setup, consort(), &mut note).unwrap();
    assert_fine(&outcome);
    served
}

/// With locks that inherit, and with ordinary ones.
fn both<T>(tasks: &str, measure: impl Fn(&str) -> T) -> [T; 2] {
    [true, false].map(|pi| {
        measure(&format!(
            r#"{{ "global": {{ "duration": 4, "pi_enabled": {pi} }},
                 "classes": {{ "all": {{ "capacity": 0.8 }} }}, "tasks": {{ {tasks} }} }}"#
        ))
    })
}

/// The longest time from when a task wants a lock until it has it, in ms.
fn longest_ms(text: &str) -> f64 {
    let waits = wants(text).into_iter().map(|(wants, has)| has - wants);
    waits.fold(0.0, f64::max)
}
