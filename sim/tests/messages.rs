// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks that send each other messages, on several CPUs: where they run, and how many messages one wake-up is worth.

use crate::common::planted::{plant, side_by_side};
use crate::common::summaries::{row, summary_under, SEEDS};
use consort_sim::consort::{Consort, Library};
use consort_sim::mutate::Mutation;
use consort_sim::report::Summary;

fn summary(library: &Library, text: &str, seed: u64) -> Summary {
    summary_under(Box::new(Consort::new(library)), text, Some(seed))
}

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

/// So many pairs, of so many CPUs.
const PAIRS: [(usize, usize); 3] = [(4, 4), (8, 8), (4, 8)];

/// Whether of a hundred wake-ups less than one takes a task elsewhere.
fn share_a_cpu(library: &Library, (number, cpus): (usize, usize), seed: u64) -> bool {
    let all = summary(library, &pairs(number, cpus), seed).total;
    let (elsewhere, wakeups) = (all.migrations_per_s, all.wakeups_per_s);
    println!("{number} of {cpus} CPUs, seed {seed}: {elsewhere} of {wakeups} wake-ups a second");
    100.0 * elsewhere < wakeups
}

/// Whichever CPU becomes free first would take whoever has just woken, and its own would have to look elsewhere, and so on.
#[test]
fn two_that_send_each_other_messages_share_a_cpu() {
    for seed in SEEDS {
        for pairs in PAIRS {
            assert!(share_a_cpu(&Library::built_in(), pairs, seed), "{pairs:?}");
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

/// Whether each sender goes on for about three shortest slices of 0.5 ms, and all have the same.
fn go_on(library: &Library, seed: u64) -> bool {
    let senders = senders(&summary(library, &crowd(4, 10, &[]), seed));
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    let mut all = true;
    for (ran_ms, percent) in senders {
        all &= (1.0..1.6).contains(&ran_ms);
        (least, most) = (least.min(percent), most.max(percent));
    }
    println!("seed {seed}: {least} to {most} %");
    all && least > 0.95 * most
}

/// Whether beside a reservation no sender does: of its period of 30 ms no slice is longer than a part.
fn end_beside_reservations(library: &Library, seed: u64) -> bool {
    let reserved = r#""reserved": {"hog": true, "reserve": {"class": "guaranteed", "rate": 0.25, "period": "30ms"}}"#;
    let senders = senders(&summary(library, &crowd(4, 10, &[reserved]), seed));
    senders.iter().all(|(ran_ms, _)| *ran_ms < 0.8)
}

#[test]
fn one_that_sends_messages_goes_on_for_a_protected_slice() {
    for seed in SEEDS {
        assert!(go_on(&Library::built_in(), seed));
    }
}

#[test]
fn beside_reservations_senders_have_slices_like_others() {
    for seed in SEEDS {
        assert!(end_beside_reservations(&Library::built_in(), seed));
    }
}

type Holds = fn(&Library) -> bool;

/// Each with what does not hold then.
const BUGS: [(Mutation, Holds); 5] = [
    (
        Mutation {
            name: "no-reader-waits-for-its-sender",
            file: "kernel/bpf/message.h",
            from: "return c->compare_at_ns != NEVER_NS;",
            to: "return 0;",
        },
        |it| share_a_cpu(it, PAIRS[1], 1),
    ),
    (
        Mutation {
            name: "any-newly-woken-one-goes-first",
            file: "kernel/bpf/choose.h",
            from: "if (reader_goes_first(c, choice, place))",
            to: "if (0)",
        },
        |it| share_a_cpu(it, PAIRS[1], 1),
    ),
    (
        Mutation {
            name: "no-sender-goes-on",
            file: "kernel/bpf/choose.h",
            from: "if (!has_sent(c) || now_ns - c->began_ns >= protected_ns)",
            to: "if (1)",
        },
        |it| go_on(it, 1),
    ),
    (
        Mutation {
            name: "senders-go-on-for-ever",
            file: "kernel/bpf/choose.h",
            from: "if (!has_sent(c) || now_ns - c->began_ns >= protected_ns)",
            to: "if (!has_sent(c))",
        },
        |it| go_on(it, 1),
    ),
    (
        Mutation {
            name: "protected-beside-reservations",
            file: "kernel/bpf/queue.h",
            from: "pl->protected_ns = slice_beside_ns(pl->protected_ns, tunables.min_slice_ns,",
            to: "(void)slice_beside_ns(pl->protected_ns, tunables.min_slice_ns,",
        },
        |it| end_beside_reservations(it, 1),
    ),
];

#[test]
fn each_bug_planted_in_messages_is_seen() {
    side_by_side(&BUGS, |(bug, holds)| {
        assert!(!holds(&plant(bug)), "{} is not seen", bug.name);
    });
}
