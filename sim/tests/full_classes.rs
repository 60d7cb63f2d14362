// SPDX-License-Identifier: MIT OR Apache-2.0
//! Full classes on several CPUs, where somebody is always a little behind: each promise is kept, and in time.

use crate::common::planted::plant;
use crate::common::summaries;
use consort_sim::consort::{Consort, Library};
use consort_sim::mutate::Mutation;
use consort_sim::report::Summary;

/// A hog with a reservation: its name, class, rate, period in ms, and the CPUs that it may use; none: all.
fn reserved(name: &str, class: &str, rate: f64, period_ms: u64, cpus: &[u32]) -> String {
    let mask = match cpus {
        [] => String::new(),
        some => format!(r#""cpus": {some:?}, "#),
    };
    format!(
        r#""{name}": {{ "hog": true, {mask}"reserve": {{ "class": "{class}", "rate": {rate}, "period": "{period_ms}ms" }} }},"#
    )
}

/// A run in which all that is asked for is given.
fn summary(library: &Library, text: &str) -> Summary {
    let summary = summaries::summary_under(Box::new(Consort::new(library)), text, None);
    assert!(summary.refusals.is_empty(), "{:?}", summary.refusals);
    summary
}

/// What each of one class is due may be more than half a CPU, or a twentieth: the small ones, which wait more often, do not take
/// what the large ones have been promised.
#[test]
fn every_promise_of_a_full_class_is_kept_on_several_cpus() {
    for (cpus, caches, guaranteed, adaptive) in [
        (2, 1, &[0.9, 0.05][..], &[0.4][..]),
        (3, 1, &[0.9, 0.2, 0.299, 0.1], &[0.299, 0.15]),
        (4, 1, &[0.7, 0.7, 0.25, 0.25], &[]),
        // One of the other class cannot use what that has: the large ones had 74 % of their rates, the others 210.
        (6, 1, &[0.9, 0.05, 0.1, 0.9, 0.2, 0.2, 0.3, 0.1], &[0.75]),
        (8, 1, &[0.7, 0.9, 0.9, 0.9, 0.2], &[0.2, 0.9, 0.099]),
        (8, 2, &[0.9, 0.9, 0.7, 0.5, 0.3], &[0.9, 0.2, 0.2]),
        (16, 4, &[0.7; 8], &[0.25; 8]),
    ] {
        let promised: Vec<(String, f64)> = [("guaranteed", guaranteed), ("adaptive", adaptive)]
            .iter()
            .flat_map(|(class, rates)| {
                let named = |(i, rate): (usize, &f64)| (format!("{class}{i}"), *rate);
                rates.iter().enumerate().map(named).collect::<Vec<_>>()
            })
            .collect();
        let tasks: String = promised
            .iter()
            .enumerate()
            .map(|(i, (name, rate))| {
                let class = name.trim_end_matches(char::is_numeric);
                reserved(name, class, *rate, [5, 30, 100][i % 3], &[])
            })
            .collect();
        let summary = summary(
            &Library::built_in(),
            &format!(
                r#"{{ "global": {{ "duration": 5, "warmup": 2 }}, "machine": {{ "cpus": {cpus}, "llc": {caches} }},
                 "tasks": {{ {tasks} "hog": {{ "instance": {}, "hog": true }} }} }}"#,
                2 * cpus
            ),
        );
        for (name, rate) in promised {
            let had = summaries::share(&summary, &name) / 100.0;
            assert!(
                had > 0.985 * rate,
                "{cpus} CPUs, {caches} caches: {name} had {had:.3} of {rate}"
            );
        }
    }
}

/// The same where one of them may not run everywhere, at any place in the list: the others had 95 % of their rates.
#[test]
fn every_promise_of_a_full_class_is_kept_beside_a_masked_one() {
    let promised = [
        ("guaranteed", 0.299),
        ("guaranteed", 0.299),
        ("guaranteed", 0.7),
        ("guaranteed", 0.05),
        ("guaranteed", 0.1),
        ("guaranteed", 0.351),
        ("adaptive", 0.299),
        ("adaptive", 0.1),
        ("adaptive", 0.05),
        ("adaptive", 0.299),
        ("adaptive", 0.251),
    ];
    for masked in 0..promised.len() {
        let tasks: String = promised
            .iter()
            .enumerate()
            .map(|(i, (class, rate))| {
                let cpus = if i == masked { &[1, 2][..] } else { &[] };
                reserved(&format!("reserved{i}"), class, *rate, 100, cpus)
            })
            .collect();
        let summary = summary(
            &Library::built_in(),
            &format!(
                r#"{{ "global": {{ "duration": 5, "warmup": 2 }}, "machine": {{ "cpus": 4 }},
                 "tasks": {{ {tasks} "hog": {{ "instance": 4, "hog": true }} }} }}"#
            ),
        );
        for (i, (_, rate)) in promised.iter().enumerate() {
            let had = summaries::share(&summary, &format!("reserved{i}")) / 100.0;
            assert!(
                had > 0.985 * rate,
                "{masked} masked: {i} had {had:.3} of {rate}"
            );
        }
    }
}

/// Full classes on several CPUs: how many, classes, rates and periods in ms, other hogs, and more than anybody waits, in ms.
type Full = (u64, &'static [(&'static str, f64, u64)], &'static str, f64);

const FULL: [Full; 3] = [
    (
        4,
        &[
            ("guaranteed", 0.9, 30),
            ("guaranteed", 0.5, 30),
            ("guaranteed", 0.3, 30),
            ("guaranteed", 0.2, 30),
            ("adaptive", 0.8, 30),
        ],
        r#""hog": { "instance": 6, "hog": true }"#,
        15.0,
    ),
    (
        2,
        &[
            ("guaranteed", 0.7, 200),
            ("guaranteed", 0.299, 200),
            ("adaptive", 0.298, 10),
        ],
        r#""hog": { "instance": 4, "hog": true }, "bound": { "hog": true, "cpus": [0] }"#,
        10.0,
    ),
    (
        2,
        &[
            ("guaranteed", 0.7, 100),
            ("guaranteed", 0.2, 100),
            ("guaranteed", 0.05, 100),
            ("guaranteed", 0.049, 100),
            ("adaptive", 0.298, 100),
        ],
        r#""hog": { "hog": true }, "bound": { "hog": true, "cpus": [0] }"#,
        100.0,
    ),
];

fn longest_wait_ms(library: &Library, (cpus, promised, others, _): Full) -> f64 {
    let tasks: String = promised
        .iter()
        .enumerate()
        .map(|(i, (class, rate, period_ms))| {
            reserved(&format!("reserved{i}"), class, *rate, *period_ms, &[])
        })
        .collect();
    let text = format!(
        r#"{{ "global": {{ "duration": 8, "warmup": 2 }}, "machine": {{ "cpus": {cpus} }},
             "tasks": {{ {tasks} {others} }} }}"#
    );
    let summary = summary(library, &text);
    let rows = summary.tasks.iter();
    let waits: Vec<f64> = rows
        .filter(|row| row.name.starts_with("reserved"))
        .map(|row| row.wait_max_ms)
        .collect();
    assert_eq!(waits.len(), promised.len());
    waits.into_iter().fold(0.0, f64::max)
}

/// A reservation that is a little behind does not keep its CPU until it has caught up: in a full class somebody always is, and
/// the others would wait for more than a period.
#[test]
fn in_a_full_class_everybody_has_its_turn_within_a_period() {
    for full in FULL {
        let waited_ms = longest_wait_ms(&Library::built_in(), full);
        assert!(waited_ms < full.3, "{full:?}: {waited_ms} ms");
    }
}

#[test]
fn a_reservation_that_always_catches_up_first_is_seen() {
    let library = plant(&Mutation {
        name: "owed-as-soon-as-behind",
        file: "core/decide/period.h",
        from: "n->vtime + n->period_vtime / 2, period_promised",
        to: "n->vtime, period_promised",
    });
    for full in &FULL[1..] {
        let waited_ms = longest_wait_ms(&library, *full);
        assert!(waited_ms > full.3, "{full:?}: {waited_ms} ms");
    }
}

/// What a reservation of 10 % has in percent that may run on one of two CPUs only, beside one of 70 and four hogs.
fn masked_has(library: &Library) -> f64 {
    let summary = summary(
        library,
        &format!(
            r#"{{ "global": {{ "duration": 8, "warmup": 2 }}, "machine": {{ "cpus": 2 }},
                 "tasks": {{ {} {} "hog": {{ "instance": 4, "hog": true }} }} }}"#,
            reserved("masked", "guaranteed", 0.1, 100, &[1]),
            reserved("other", "guaranteed", 0.7, 100, &[])
        ),
    );
    summaries::share(&summary, "masked")
}

/// A masked reservation is always the first of its class in its place. What it has beyond its part of the CPU it repays, however
/// often it went first, to those that waited.
#[test]
fn a_masked_reservation_takes_what_others_wait_for_once() {
    let had = masked_has(&Library::built_in());
    assert!((10.0..25.0).contains(&had), "{had} %");
}

#[test]
fn a_masked_reservation_whose_lead_is_forgotten_is_seen() {
    let had = masked_has(&plant(&Mutation {
        name: "forgets-a-masked-lead",
        file: "kernel/bpf/divide.h",
        from: "\t\tbound_ns += tunables.granularity_ns / LEAD_MORE;",
        to: "\t\t(void)bound_ns;",
    }));
    assert!(had > 40.0, "{had} %");
}
