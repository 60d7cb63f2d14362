// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reserved rates of tasks that may not run everywhere, and what is left beside them.

use crate::common::summaries::{share, summary};
use consort_sim::report::Summary;

/// A hog that has reserved, on some CPUs only. No CPUs: on all.
struct Reserved {
    name: &'static str,
    class: &'static str,
    rate: f64,
    cpus: &'static [u32],
}

const fn reserved(
    name: &'static str,
    class: &'static str,
    rate: f64,
    cpus: &'static [u32],
) -> Reserved {
    Reserved {
        name,
        class,
        rate,
        cpus,
    }
}

fn run(cpus: u32, caches: u32, reserved: &[Reserved], others: &str) -> Summary {
    let tasks: Vec<String> = reserved
        .iter()
        .map(|task| {
            let mask = match task.cpus {
                [] => String::new(),
                cpus => format!(r#", "cpus": {cpus:?}"#),
            };
            format!(
                r#""{}": {{"hog": true, "reserve": {{"class": "{}", "rate": {}}}{mask}}}"#,
                task.name, task.class, task.rate
            )
        })
        .collect();
    let text = format!(
        r#"{{"global": {{"duration": 9, "warmup": 3}}, "machine": {{"cpus": {cpus}, "llc": {caches}}},
            "tasks": {{{}, {others}}}}}"#,
        tasks.join(", ")
    );
    summary(&text, 1)
}

fn of_instance(summary: &Summary, name: &str) -> f64 {
    let row = summary.tasks.iter().find(|row| row.name == name);
    row.unwrap_or_else(|| panic!("no {name}")).share_percent
}

fn assert_kept(what: &str, summary: &Summary, reserved: &[Reserved]) {
    for task in reserved {
        let percent = share(summary, task.name);
        assert!(
            percent >= 98.0 * task.rate,
            "{what}: {} has {percent} % of {}",
            task.name,
            task.rate
        );
    }
}

const G: &str = "guaranteed";
const A: &str = "adaptive";
const HOGS: &str = r#""hogs": {"instance": 8, "hog": true}"#;

#[test]
fn a_promise_on_one_cpu_is_kept_beside_hogs_there_and_promises_elsewhere() {
    let promised = [
        reserved("pinned", G, 0.9, &[0]),
        reserved("free", G, 0.3, &[]),
        reserved("other", A, 0.3, &[]),
    ];
    let beside = format!(r#"{HOGS}, "there": {{"instance": 2, "hog": true, "cpus": [0]}}"#);
    let summary = run(4, 1, &promised, &beside);
    assert_kept("pinned", &summary, &promised);
    // What is left of the CPU is divided, not taken.
    let there = of_instance(&summary, "there-0");
    assert!(there > 1.5, "{there}");
}

#[test]
fn small_promises_on_one_cpu_are_not_less_than_one_that_has_all_cpus() {
    let promised = [
        reserved("a", A, 0.499, &[1]),
        reserved("b", G, 0.1, &[1]),
        reserved("c", G, 0.1, &[]),
        reserved("d", G, 0.2, &[]),
    ];
    let beside = r#""hogs": {"instance": 2, "hog": true}, "there": {"instance": 2, "hog": true, "cpus": [1]},
        "elsewhere": {"hog": true, "cpus": [0]}"#;
    assert_kept("two CPUs", &run(2, 1, &promised, beside), &promised);
}

#[test]
fn full_classes_are_not_less_beside_hogs_of_single_cpus() {
    let promised = [
        reserved("g0", G, 0.5, &[]),
        reserved("g1", G, 0.5, &[]),
        reserved("g2", G, 0.5, &[]),
        reserved("g3", G, 0.5, &[]),
        reserved("a0", A, 0.25, &[]),
        reserved("a1", A, 0.25, &[]),
        reserved("a2", A, 0.25, &[]),
        reserved("a3", A, 0.25, &[]),
    ];
    let pins: Vec<String> = (0..4)
        .map(|cpu| format!(r#""pin{cpu}": {{"instance": 3, "hog": true, "cpus": [{cpu}]}}"#))
        .collect();
    for others in [
        pins.join(", "),
        format!("{HOGS}, {}", pins[0]),
        format!("{HOGS}, {}", pins.join(", ")),
    ] {
        assert_kept(&others, &run(4, 1, &promised, &others), &promised);
    }
}

#[test]
fn those_of_one_mask_are_spread_over_its_cpus() {
    let two = [
        reserved("a", G, 0.9, &[0, 1]),
        reserved("b", G, 0.9, &[0, 1]),
    ];
    let beside = format!(r#"{HOGS}, "there": {{"instance": 4, "hog": true, "cpus": [0, 1]}}"#);
    assert_kept("two of 0.9", &run(4, 1, &two, &beside), &two);

    let over = [
        reserved("a", G, 0.9, &[0, 1]),
        reserved("b", G, 0.9, &[0, 1, 2, 3]),
        reserved("c", A, 0.3, &[]),
    ];
    let beside = r#""hogs": {"instance": 10, "hog": true}, "there": {"instance": 2, "hog": true, "cpus": [0, 1]}"#;
    assert_kept("masks in masks", &run(8, 2, &over, beside), &over);
}

/// One reservation anywhere must not leave some of equal tasks with a third of what the others have.
#[test]
fn equal_tasks_of_a_mask_are_equal_beside_a_reservation() {
    let summary = run(
        4,
        1,
        &[reserved("r", G, 0.2, &[3])],
        r#""masked": {"instance": 4, "hog": true, "cpus": [1, 2]}"#,
    );
    for number in 0..4 {
        let percent = of_instance(&summary, &format!("masked-{number}"));
        assert!(
            (percent - 50.0).abs() < 3.0,
            "masked-{number} has {percent} %"
        );
    }
}

#[test]
fn a_reserved_task_of_one_cpu_is_served_in_time() {
    let text = r#"{"global": {"duration": 9, "warmup": 2}, "machine": {"cpus": 4},
        "tasks": {"audio": {"run": "1ms", "timer": {"ref": "unique", "period": "5ms"}, "cpus": [0],
                            "reserve": {"class": "guaranteed", "rate": 0.3, "period": "5ms"}},
                  "there": {"instance": 2, "hog": true, "cpus": [0]},
                  "hogs": {"instance": 8, "hog": true}}}"#;
    let summary = summary(text, 1);
    let audio = summary.tasks.iter().find(|row| row.name == "audio");
    let wait_ms = audio.map_or(f64::INFINITY, |row| row.wait_max_ms);
    // A slice of each place that the CPU chooses from.
    assert!(wait_ms < 3.0, "{wait_ms}");
}
