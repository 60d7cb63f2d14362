// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks that send each other messages, on several CPUs: where they run, and how many messages one wake-up is worth.

use crate::common::summaries::{row, summary, SEEDS};
use consort_sim::report::Summary;

/// As many pairs as these CPUs, of so many: one of a pair works while the other one waits for its message.
fn pairs(number: usize, cpus: usize) -> String {
    let mask: Vec<_> = (0..number).collect();
    let pair = |n: usize| {
        format!(
            r#""ping{n}": {{"cpus": {mask:?}, "loop": -1, "run": 20, "put": "there{n}", "take": "back{n}"}},
               "pong{n}": {{"cpus": {mask:?}, "loop": -1, "take": "there{n}", "run": 20, "put": "back{n}"}}"#
        )
    };
    let queues = |n: usize| format!(r#""there{n}": 1, "back{n}": 1"#);
    let all = |each: &dyn Fn(usize) -> String| {
        let parts: Vec<_> = (0..number).map(each).collect();
        parts.join(", ")
    };
    format!(
        r#"{{"global": {{"duration": 1}}, "machine": {{"cpus": {cpus}, "llc": 1}},
            "queues": {{{}}}, "tasks": {{{}}}}}"#,
        all(&queues),
        all(&pair)
    )
}

/// Whichever CPU becomes free first would take whoever has just woken, and its own would have to look elsewhere, and so on.
#[test]
fn two_that_send_each_other_messages_share_a_cpu() {
    for seed in SEEDS {
        for (number, cpus) in [(4, 4), (8, 8), (4, 8)] {
            let summary = summary(&pairs(number, cpus), seed);
            let all = &summary.total;
            assert!(
                100.0 * all.migrations_per_s < all.wakeups_per_s,
                "{number} of {cpus} CPUs, seed {seed}: {} of {} wake-ups a second elsewhere",
                all.migrations_per_s,
                all.wakeups_per_s
            );
        }
    }
}

/// Groups of senders and readers, beside others: each sender sends each reader of its group a message in turn.
fn crowd(groups: usize, of_a_kind: usize, others: &[&str]) -> String {
    let mut queues = Vec::new();
    let mut tasks: Vec<_> = others.iter().map(|it| (*it).to_owned()).collect();
    for group in 0..groups {
        let puts: Vec<_> = (0..of_a_kind)
            .map(|n| format!(r#""p{n}": {{"run": 8, "put": "q{group}.{n}"}}"#))
            .collect();
        for n in 0..of_a_kind {
            queues.push(format!(r#""q{group}.{n}": 100"#));
            tasks.push(format!(
                r#""reader{group}.{n}": {{"loop": -1, "take": "q{group}.{n}", "run": 5}},
                   "sender{group}.{n}": {{"loop": -1, "phases": {{{}}}}}"#,
                puts.join(", ")
            ));
        }
    }
    format!(
        r#"{{"global": {{"duration": 2}}, "machine": {{"cpus": 4, "llc": 1}},
            "queues": {{{}}}, "tasks": {{{}}}}}"#,
        queues.join(", "),
        tasks.join(", ")
    )
}

/// For how long each of forty senders runs at a time, in milliseconds, and what part of a CPU it has, in percent.
fn senders(summary: &Summary) -> Vec<(f64, f64)> {
    let names = (0..40).map(|n| format!("sender{}.{}", n / 10, n % 10));
    names
        .map(|name| {
            let row = row(summary, &name);
            (
                row.share_percent * 10.0 / row.switches_per_s,
                row.share_percent,
            )
        })
        .collect()
}

/// Each is compared after a shortest slice, 0.5 ms, and may go on for three of them on four CPUs.
#[test]
fn one_that_sends_messages_goes_on_for_a_protected_slice() {
    for seed in SEEDS {
        let summary = summary(&crowd(4, 10, &[]), seed);
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        for (ran_ms, percent) in senders(&summary) {
            assert!((1.0..1.6).contains(&ran_ms), "seed {seed}: {ran_ms} ms");
            (least, most) = (least.min(percent), most.max(percent));
        }
        assert!(least > 0.95 * most, "seed {seed}: {least} to {most}");
    }
}

/// Of a period of 30 ms no slice is longer than a part.
#[test]
fn beside_reservations_senders_have_slices_like_others() {
    let reserved = r#""reserved": {"hog": true, "reserve": {"class": "guaranteed", "rate": 0.25, "period": "30ms"}}"#;
    for seed in SEEDS {
        let summary = summary(&crowd(4, 10, &[reserved]), seed);
        for (ran_ms, _) in senders(&summary) {
            assert!(ran_ms < 0.8, "seed {seed}: {ran_ms} ms");
        }
    }
}
