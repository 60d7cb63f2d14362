// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reserved rates in scenarios: what was reserved is received, what cannot be promised is refused.

use crate::common::summaries;
use consort_sim::models::{Algorithm, RateControlled};
use consort_sim::report::Summary;
use consort_sim::{consort, Scheduler};

fn summary(text: &str) -> Summary {
    summary_under(consort(), text)
}

fn summary_under(scheduler: Box<dyn Scheduler>, text: &str) -> Summary {
    summaries::summary_under(scheduler, text, None)
}

fn share(summary: &Summary, task: &str) -> f64 {
    let row = summary.tasks.iter().find(|row| row.name == task);
    row.unwrap_or_else(|| panic!("no task {task}"))
        .share_percent
}

#[test]
fn a_reserved_rate_is_received_beside_twenty_hogs() {
    let summary = summary(
        r#"{ "global": { "duration": 6, "warmup": 1 },
             "tasks": { "a": { "hog": true, "reserve": { "class": "guaranteed", "rate": 0.3 } },
                        "b": { "hog": true, "reserve": { "class": "guaranteed", "rate": 0.2 } },
                        "hog": { "instance": 20, "hog": true } } }"#,
    );
    // Half of the CPU is guaranteed, and the quarter that is for adaptive programs is divided by capacities.
    for (task, percent) in [("a", 40.0), ("b", 26.7)] {
        assert!(
            (share(&summary, task) - percent).abs() < 0.5,
            "{task}: {}",
            share(&summary, task)
        );
    }
    assert!(summary.refusals.is_empty(), "{:?}", summary.refusals);
}

/// Masks that overlap, with one or two places of a CPU that others wait in.
#[test]
fn a_reserved_rate_is_received_beside_hogs_of_another_mask() {
    for others in [
        "",
        r#""pin": { "hog": true, "cpus": [0] }, "pin1": { "hog": true, "cpus": [1] },"#,
    ] {
        let summary = summary(&format!(
            r#"{{ "global": {{ "duration": 6, "warmup": 1 }}, "machine": {{ "cpus": 8 }},
                 "tasks": {{ "hog": {{ "instance": 8, "hog": true, "cpus": [0, 1, 2, 3] }}, {others}
                             "a": {{ "hog": true, "cpus": [0, 1],
                                    "reserve": {{ "class": "guaranteed", "rate": 0.5 }} }} }} }}"#
        ));
        let percent = share(&summary, "a");
        assert!(percent > 49.9, "{others}: {percent}");
    }
}

/// What reservations leave is divided alike, wherever these begin: neither a cache that has made room for more than it has now, nor
/// one whose reserved tasks have been promised too much to move, keeps others from their part.
#[test]
fn what_reservations_leave_is_divided_alike() {
    for rates in [
        [0.8, 0.8, 0.45, 0.45],
        [0.8, 0.45, 0.8, 0.45],
        [0.8, 0.45, 0.45, 0.8],
    ] {
        let reserved: String = rates
            .iter()
            .enumerate()
            .map(|(i, rate)| {
                let class = if *rate > 0.5 { "guaranteed" } else { "adaptive" };
                format!(
                    r#""r{i}": {{ "hog": true, "reserve": {{ "class": "{class}", "rate": {rate} }} }},"#
                )
            })
            .collect();
        let summary = summary(&format!(
            r#"{{ "global": {{ "duration": 12, "warmup": 4 }}, "machine": {{ "cpus": 4, "llc": 2 }},
                 "tasks": {{ {reserved} "hog": {{ "instance": 10, "hog": true }} }} }}"#
        ));
        // Two have a CPU each, two what is left of half the machine, and ten the quarter that is nobody's.
        for row in &summary.tasks {
            let due = match row.name.strip_prefix('r') {
                Some(number) if rates[number.parse::<usize>().unwrap()] > 0.5 => 100.0,
                Some(_) => 50.0,
                None => 10.0,
            };
            let off = (row.share_percent - due).abs();
            assert!(
                off < 0.1 * due,
                "{rates:?}: {} has {}",
                row.name,
                row.share_percent
            );
        }
    }
}

/// Tasks without reservations divide what is left of all caches, wherever the reservations are.
#[test]
fn tasks_without_reservations_are_served_alike_in_all_caches() {
    let summary = summary(
        r#"{ "global": { "duration": 13, "warmup": 3 }, "machine": { "cpus": 64, "llc": 8 },
             "tasks": { "hog": { "instance": 72, "hog": true },
                        "reserved": { "instance": 16, "hog": true,
                                      "reserve": { "class": "guaranteed", "rate": 0.5 } } } }"#,
    );
    let shares = |kind: &str| -> Vec<f64> {
        let rows = summary.tasks.iter();
        rows.filter(|row| row.name.starts_with(kind))
            .map(|row| row.share_percent)
            .collect()
    };
    // Their class is worth more than a CPU to each of the sixteen, and the others have the 48 that remain.
    let (hogs, reserved) = (shares("hog"), shares("reserved"));
    assert_eq!((hogs.len(), reserved.len()), (72, 16));
    assert!(
        hogs.iter().all(|it| (60.0..72.0).contains(it)),
        "{hogs:.1?}"
    );
    assert!(reserved.iter().all(|it| *it > 80.0), "{reserved:.1?}");
}

/// Wherever small reservations begin they are divided over the caches, and so is what the others have beside them: light and
/// heavy ones.
#[test]
fn all_have_their_share_beside_small_reservations() {
    let summary = summary(
        r#"{ "global": { "duration": 6, "warmup": 2 }, "machine": { "cpus": 16, "llc": 4 },
             "tasks": { "reserved": { "instance": 8, "hog": true,
                                      "reserve": { "class": "guaranteed", "rate": 0.1 } },
                        "hog": { "instance": 23, "hog": true },
                        "light": { "instance": 14, "hog": true, "priority": 10 } } }"#,
    );
    let light = 110.0 / 1024.0;
    let hog = 800.0 / (23.0 + 14.0 * light);
    for row in &summary.tasks {
        let due = match row.name.split('-').next() {
            Some("reserved") => 100.0,
            Some("hog") => hog,
            _ => hog * light,
        };
        let off = (row.share_percent - due).abs();
        assert!(off < 0.1 * due, "{} has {}", row.name, row.share_percent);
    }
}

/// As the daemon does, the simulated one says what the shortest period is: no slice is longer than a 64th of it.
#[test]
fn a_short_period_cuts_slices() {
    let longest_wait_ms = |period: &str| {
        let summary = summary(&format!(
            r#"{{ "global": {{ "duration": 3, "warmup": 1 }},
                 "tasks": {{ "a": {{ "hog": true, "reserve": {{ "class": "guaranteed", "rate": 0.25, "period": "{period}" }} }},
                             "b": {{ "hog": true, "reserve": {{ "class": "guaranteed", "rate": 0.25, "period": "1s" }} }} }} }}"#
        ));
        summary.total.wait_max_ms
    };
    let (fine, coarse) = (longest_wait_ms("30ms"), longest_wait_ms("1s"));
    assert!(fine < 0.6 && coarse > 1.5, "{fine} {coarse}");
}

/// A short period does not wait for a slice of each long one of its class; by virtual time alone it does.
#[test]
fn whose_period_ends_first_goes_first() {
    let longest_wait_ms = |order: &str| {
        let summary = summary(&format!(
            r#"{{ "global": {{ "duration": 6, "warmup": 1 }},
                 "classes": {{ "all": {{ "capacity": "60%", "order": "{order}" }} }},
                 "tasks": {{ "video": {{ "reserve": {{ "class": "all", "rate": 0.3, "period": "30ms" }}, "phases": {{
                               "frame": {{ "loop": -1, "run": "8ms", "timer": {{ "ref": "unique", "period": "30ms" }} }} }} }},
                             "small": {{ "instance": 60, "hog": true, "reserve": {{ "class": "all", "rate": 0.004, "period": "1s" }} }},
                             "hog": {{ "hog": true }} }} }}"#
        ));
        let video = summary
            .tasks
            .iter()
            .find(|row| row.name == "video")
            .unwrap();
        video.wait_max_ms
    };
    let (by_period_ms, by_vtime_ms) = (longest_wait_ms("period"), longest_wait_ms("frc"));
    assert!(
        by_period_ms * 5.0 < by_vtime_ms,
        "{by_period_ms} ms by periods, {by_vtime_ms} ms by virtual time"
    );
}

/// Nor is anybody forgiven what it had beyond its rate by giving it back, and reserving it again.
#[test]
fn who_renews_a_reservation_gains_nothing() {
    for order in ["period", "frc"] {
        let summary = summary(&format!(
            r#"{{ "global": {{ "duration": 6, "warmup": 1 }},
                 "classes": {{ "all": {{ "capacity": "50%", "order": "{order}" }} }},
                 "tasks": {{ "video": {{ "reserve": {{ "class": "all", "rate": 0.3, "period": "33ms" }}, "phases": {{
                               "frame": {{ "loop": -1, "run": "8ms", "timer": {{ "ref": "unique", "period": "30ms" }} }} }} }},
                             "small": {{ "instance": 4, "phases": {{ "again": {{ "loop": -1,
                               "reserve": {{ "class": "all", "rate": 0.05, "period": "1ms" }}, "run": "300us", "release": "" }} }} }},
                             "hog": {{ "hog": true }} }} }}"#
        ));
        let video = &summary.tasks[0];
        assert!(
            video.share_percent > 26.5 && video.wait_max_ms < 4.0,
            "{order}: {} % of the CPU, waits of {} ms",
            video.share_percent,
            video.wait_max_ms
        );
    }
}

/// Nor does a thread gain by a pause after each bit of work: its class is charged for it all the same.
#[test]
fn pauses_after_each_bit_of_work_gain_a_class_nothing() {
    for (run_us, sleep_us) in [(400, 20), (1000, 50), (2000, 10)] {
        let summary = summary(&format!(
            r#"{{
            "global": {{ "duration": 2 }},
            "classes": {{ "guaranteed": {{ "capacity": 0.25 }} }},
            "tasks": {{
                "greedy": {{
                    "reserve": {{ "class": "guaranteed", "rate": 0.2, "period": "33ms" }},
                    "loop": -1, "run": {run_us}, "sleep": {sleep_us}
                }},
                "hog": {{ "hog": true }}
            }} }}"#
        ));
        let greedy = share(&summary, "greedy");
        assert!((24.0..26.0).contains(&greedy), "{run_us} us: {greedy}");
    }
}

/// The same with the class `all` in the given order.
fn in_order(order: &str, text: &str) -> String {
    let (all, with) = (
        r#""capacity": "90%""#,
        format!(r#""capacity": "90%", "order": "{order}""#),
    );
    assert_eq!(text.matches(all).count(), 1, "{text}");
    text.replace(all, &with)
}

fn rc_model() -> Box<dyn Scheduler> {
    Box::new(RateControlled::new(Algorithm::Rc, None))
}

/// 004 section 2.1: who ran on a CPU that nobody else wanted waits for it later, in a class that goes by the clock, and as
/// long as under 004's own algorithm.
#[test]
fn rc_punishes_who_ran_alone_and_the_other_orders_do_not() {
    let text = include_str!("../scenarios/punishment.json");
    let wait_ms = |summary: Summary| {
        let early = summary.tasks.iter().find(|row| row.name == "early");
        early.unwrap().wait_max_ms
    };
    let of_order = |order| wait_ms(summary(&in_order(order, text)));
    let (rc, model) = (of_order("rc"), wait_ms(summary_under(rc_model(), text)));
    assert!(
        (rc / model - 1.0).abs() < 0.03,
        "{rc} ms, the model {model}"
    );
    for order in ["period", "frc"] {
        let ms = of_order(order);
        assert!(ms < rc / 100.0, "{order}: {ms} ms, rc {rc}");
    }
}

/// A punctual task has its rate in each period, and one that comes late makes up for it as under 004's own algorithm. (That one
/// has one level: nobody is in another class here.)
#[test]
fn rc_gives_the_rates_that_the_model_gives() {
    let text = r#"{ "global": { "duration": 12, "warmup": 1 },
        "classes": { "all": { "capacity": "90%" } },
        "tasks": {
            "film": { "reserve": { "class": "all", "rate": 0.25, "period": "40ms" }, "phases": {
                "frame": { "loop": -1, "run": "8ms", "timer": { "ref": "unique", "period": "40ms", "mode": "absolute" } } } },
            "early": { "hog": true, "reserve": { "class": "all", "rate": 0.4, "period": "50ms" } },
            "late": { "delay": "5s", "hog": true, "reserve": { "class": "all", "rate": 0.1, "period": "200ms" } } } }"#;
    let (tree, model) = (
        summary(&in_order("rc", text)),
        summary_under(rc_model(), text),
    );
    for (tree, model) in tree.tasks.iter().zip(&model.tasks) {
        let apart = (tree.share_percent - model.share_percent).abs();
        assert!(
            apart < 0.3,
            "{}: {} %, the model {}",
            tree.name,
            tree.share_percent,
            model.share_percent
        );
    }
    let film = &tree.tasks[0];
    assert!(
        (film.share_percent - 20.0).abs() < 0.3,
        "{}",
        film.share_percent
    );
    assert!(film.tardiness.max_ms < 40.0, "{}", film.tardiness.max_ms);
}

#[test]
fn what_a_class_has_not_left_is_refused_with_the_numbers() {
    let summary = summary(
        r#"{ "global": { "duration": 1 },
             "tasks": { "a": { "hog": true, "reserve": { "class": "guaranteed", "rate": 0.4 } },
                        "b": { "hog": true, "reserve": { "class": "guaranteed", "rate": 0.2 } } } }"#,
    );
    let [refusal] = summary.refusals.as_slice() else {
        panic!("{:?}", summary.refusals);
    };
    assert!(
        refusal.starts_with("b: class guaranteed") && refusal.contains("0.1 are left"),
        "{refusal}"
    );
}

#[test]
fn a_credit_moves_the_share_and_comes_back() {
    let text = |recollects: bool| {
        let back = if recollects {
            r#""recollect": "other","#
        } else {
            ""
        };
        format!(
            r#"{{ "global": {{ "duration": 8, "warmup": 4 }},
                 "classes": {{ "all": {{ "capacity": "90%" }} }},
                 "tasks": {{
                   "one": {{ "reserve": {{ "class": "all", "rate": 0.6 }}, "phases": {{
                      "first": {{ "run": "500ms", "lend": {{ "to": "other", "rate": 0.4 }}, "sleep": "1s", {back} "run1": "1us" }},
                      "then": {{ "loop": -1, "run": "1s" }} }} }},
                   "other": {{ "hog": true, "reserve": {{ "class": "all", "rate": 0.3 }} }} }} }}"#
        )
    };
    let lent = summary(&text(false));
    assert!(
        (share(&lent, "one") - 22.2).abs() < 0.5,
        "{}",
        share(&lent, "one")
    );
    let back = summary(&text(true));
    assert!(
        (share(&back, "one") - 66.7).abs() < 0.5,
        "{}",
        share(&back, "one")
    );
}

#[test]
fn more_than_there_is_cannot_be_lent() {
    let summary = summary(
        r#"{ "global": { "duration": 1 },
             "tasks": { "a": { "reserve": { "class": "guaranteed", "rate": 0.1 }, "phases": {
                            "p": { "loop": 1, "lend": { "to": "b", "rate": 0.2 }, "run": "1ms" } }, "loop": 1 },
                        "b": { "hog": true } } }"#,
    );
    assert_eq!(summary.refusals.len(), 1, "{:?}", summary.refusals);
    assert!(
        summary.refusals[0].contains("cannot lend 0.2"),
        "{:?}",
        summary.refusals
    );
}
