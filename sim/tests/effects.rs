// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of the public interfaces have their effect on an overloaded CPU: each is compared with what there is without it,
//! within the same scenario. Classes' orders and periods of reservations are in rates.rs.

use crate::common::summaries::{row, share, summary, SEEDS};
use consort_sim::report::Summary;

fn counter(summary: &Summary, name: &str) -> u64 {
    let found = summary.counters.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}

/// Both values hold with every seed: `much` is more than `times` the other.
fn assert_much_more(times: f64, what: &str, both: impl Fn(u64) -> (f64, f64)) {
    for seed in SEEDS {
        let (much, little) = both(seed);
        assert!(
            much > times * little,
            "{what}, seed {seed}: {much} is not {times} times {little}"
        );
    }
}

/// A member with best-effort work without end: `poll` is what it says after each event.
fn member(run: &str, poll: &str) -> String {
    format!(
        r#"{{ "phases": {{ "begin": {{ "join": "d", "run": "100us", "poll": "1ms" }},
             "work": {{ "loop": -1, "run": {run}, "poll": {{ {poll} }} }} }} }}"#
    )
}

const HALF_MS: &str = r#"{ "uniform": ["300us", "700us"] }"#;

/// Two members, always busy, and a hog beside them.
fn two_members(order: &str, one: &str, other: &str) -> String {
    format!(
        r#"{{ "global": {{ "duration": 6, "warmup": 1 }},
             "domains": {{ "d": {{ "event": "1ms", "order": "{order}" }} }},
             "tasks": {{ "one": {}, "other": {}, "hog": {{ "hog": true }} }} }}"#,
        member(HALF_MS, one),
        member(HALF_MS, other)
    )
}

fn shares_of_two(order: &str, one: &str, other: &str, seed: u64) -> (f64, f64) {
    let summary = summary(&two_members(order, one, other), seed);
    (share(&summary, "one"), share(&summary, "other"))
}

const MORE_IMPORTANT: &str = r#""priority": 1, "key": 9"#;
const LESS_IMPORTANT: &str = r#""priority": 2, "key": 0"#;
const SMALLER_KEY: &str = r#""priority": 1, "key": 3"#;

#[test]
fn priorities_decide_among_members() {
    assert_much_more(20.0, "priority", |seed| {
        shares_of_two("program", MORE_IMPORTANT, LESS_IMPORTANT, seed)
    });
}

#[test]
fn keys_decide_among_members_of_equal_priority() {
    assert_much_more(20.0, "key", |seed| {
        let (larger, smaller) = shares_of_two("program", MORE_IMPORTANT, SMALLER_KEY, seed);
        (smaller, larger)
    });
}

/// What members publish decides nothing where the scheduler measures.
#[test]
fn by_service_members_have_the_same_whatever_they_publish() {
    for (one, other) in [
        (MORE_IMPORTANT, LESS_IMPORTANT),
        (MORE_IMPORTANT, SMALLER_KEY),
        (r#""due": "4ms", "priority": 1"#, r#""priority": 2"#),
    ] {
        for seed in SEEDS {
            let (one, other) = shares_of_two("service", one, other, seed);
            assert!((one / other - 1.0).abs() < 0.02, "{one} {other}");
        }
    }
}

const OFTEN_DUE: &str = r#""due": "4ms", "priority": 1"#;
const RARELY_DUE: &str = r#""due": "40ms", "priority": 2"#;

/// The member that has had fewer due events goes first: it has what the other one has by its priority.
#[test]
fn by_progress_who_was_due_less_often_goes_first() {
    assert_much_more(3.0, "progress", |seed| {
        let (often, rarely) = shares_of_two("progress", OFTEN_DUE, RARELY_DUE, seed);
        (rarely, often)
    });
    assert_much_more(10.0, "program", |seed| {
        shares_of_two("program", OFTEN_DUE, RARELY_DUE, seed)
    });
}

/// Players with a film of their own each: to show one picture of it takes 2, 4 or 6 chunks. They want twice the CPU.
fn films(order: &str) -> String {
    let film = |chunks: usize| {
        let chunk = |number| {
            format!(
                r#""run{number}": "1ms", "poll{number}": {{ "due": "never", "priority": 1 }}, "#
            )
        };
        let chunks: String = (0..chunks).map(chunk).collect();
        format!(
            r#"{{ "phases": {{ "begin": {{ "join": "d", "run": "100us", "poll": "1ms" }},
                 "picture": {{ "loop": -1, {chunks} "poll": {{ "due": {{ "timer": "unique", "period": "6ms" }} }},
                   "run": "50us" }} }} }}"#
        )
    };
    format!(
        r#"{{ "global": {{ "duration": 6, "warmup": 1 }},
             "domains": {{ "d": {{ "event": "1ms", "order": "{order}" }} }},
             "tasks": {{ "short": {}, "middle": {}, "long": {} }} }}"#,
        film(2),
        film(4),
        film(6)
    )
}

/// By progress all show as many pictures, whatever these cost, and one that has been begun is done before others are: of two
/// switches for each picture one is for its due time.
#[test]
fn by_progress_everybody_has_as_many_due_events() {
    for seed in SEEDS {
        let summary = summary(&films("progress"), seed);
        let of = |name| share(&summary, name);
        let pictures = [of("short") / 2.05, of("middle") / 4.05, of("long") / 6.05];
        let [least, most] =
            [f64::min, f64::max].map(|it| pictures.into_iter().reduce(it).unwrap_or(0.0));
        assert!(most / least < 1.01, "seed {seed}: {pictures:?}");
        let switches = summary
            .groups
            .iter()
            .map(|row| row.switches_per_s)
            .sum::<f64>();
        // A percent of the CPU is 10 ms in a second.
        let shown_per_s: f64 = pictures.iter().map(|percent| percent * 10.0).sum();
        assert!(
            switches < 2.2 * shown_per_s,
            "seed {seed}: {switches} for {shown_per_s}"
        );
    }
}

/// Twelve of them whose pictures take 4 to 12 chunks: due times of others do not end the turn of one that has begun a picture.
#[test]
fn by_progress_pictures_are_done_one_after_the_other() {
    let film = |number: usize| {
        let chunk = |chunk| {
            format!(r#""run{chunk}": "1ms", "poll{chunk}": {{ "due": "never", "priority": 1 }}, "#)
        };
        let chunks: String = (0..[4, 6, 8, 12][number % 4]).map(chunk).collect();
        format!(
            r#""player{number}": {{ "phases": {{ "begin": {{ "join": "d", "run": "100us", "poll": "1ms" }},
                 "picture": {{ "loop": -1, {chunks} "poll": {{ "due": {{ "timer": "unique", "period": "42ms" }} }},
                   "run": "50us" }} }} }}"#
        )
    };
    let films: Vec<String> = (0..12).map(film).collect();
    let text = format!(
        r#"{{ "global": {{ "duration": 6, "warmup": 1 }},
             "domains": {{ "d": {{ "event": "1ms", "order": "progress" }} }},
             "tasks": {{ {} }} }}"#,
        films.join(", ")
    );
    for seed in SEEDS {
        let summary = summary(&text, seed);
        let switches: f64 = summary.tasks.iter().map(|row| row.switches_per_s).sum();
        // The mean picture takes 7.5 chunks, and 50 us.
        assert!(
            switches < 1.1 * 1000.0 / 7.55,
            "seed {seed}: {switches} a second"
        );
    }
}

/// Two members that do not poll for a while, one that is due every 10 ms, and a hog.
fn slow_to_poll(options: &str, run: &str) -> String {
    format!(
        r#"{{ "global": {{ "duration": 6, "warmup": 1 }}, "domains": {{ "d": {{ {options} }} }},
             "tasks": {{ "slow": {{ "instance": 2, {}, "hog": {{ "hog": true }},
                         "ticker": {{ "phases": {{ "begin": {{ "join": "d", "run": "100us" }},
                           "tick": {{ "loop": -1, "run": "200us", "poll": {{ "due": {{ "timer": "unique", "period": "10ms" }} }} }} }} }} }} }}"#,
        &member(run, r#""due": "200ms", "priority": 1"#)[1..]
    )
}

const WITHIN_GRACE: &str = r#"{ "uniform": ["1500us", "1900us"] }"#;
const BEYOND_GRACE: &str = r#"{ "uniform": ["5ms", "6ms"] }"#;

/// A due event waits for another member's event, unless the domain was made with `preempt`.
#[test]
fn preempt_takes_the_cpu_at_due_times() {
    assert_much_more(10.0, "mean tardiness", |seed| {
        let tardiness_ms = |options| {
            let summary = summary(&slow_to_poll(options, WITHIN_GRACE), seed);
            row(&summary, "ticker").tardiness.mean_ms
        };
        (
            tardiness_ms(r#""event": "2ms""#),
            tardiness_ms(r#""event": "2ms", "preempt": true"#),
        )
    });
}

/// A member that is due just after another one began its own due event waits for that event, and for nothing that follows it. The
/// drifter comes to be due at any time after the ticker.
#[test]
fn preempt_waits_for_no_more_than_a_due_event() {
    const DRIFTER: &str = r#""drifter": { "phases": { "begin": { "join": "d", "run": "100us" },
         "tick": { "loop": -1, "run": "200us", "poll": { "due": { "timer": "unique", "period": "10100us" } } } } },
         "hog": "#;
    for seed in SEEDS {
        let scenario = slow_to_poll(r#""event": "2ms", "preempt": true"#, BEYOND_GRACE);
        let summary = summary(&scenario.replacen(r#""hog": "#, DRIFTER, 1), seed);
        for task in ["ticker", "drifter"] {
            let max_ms = row(&summary, task).tardiness.max_ms;
            assert!(max_ms < 0.3, "seed {seed}: {task} is late by {max_ms} ms");
        }
    }
}

/// A member that is preempted at due times is not asked to poll, and breaks no contract by not polling.
#[test]
fn preempt_demotes_nobody() {
    for seed in SEEDS {
        let overruns = |options| {
            let summary = summary(&slow_to_poll(options, BEYOND_GRACE), seed);
            counter(&summary, "overruns")
        };
        assert!(overruns(r#""event": "2ms""#) > 100);
        assert_eq!(overruns(r#""event": "2ms", "preempt": true"#), 0);
    }
}

/// How long others wait for a member that does not poll is up to the longest event that the domain declares.
#[test]
fn the_declared_event_bounds_what_others_wait() {
    assert_much_more(5.0, "longest tardiness", |seed| {
        let tardiness_ms = |options| {
            let summary = summary(&slow_to_poll(options, BEYOND_GRACE), seed);
            row(&summary, "ticker").tardiness.max_ms
        };
        // Nothing declared is 2 ms.
        (tardiness_ms(""), tardiness_ms(r#""event": "200us""#))
    });
}

/// And so is who counts as late: events within the declared one are no offence.
#[test]
fn who_polls_within_the_declared_event_is_not_demoted() {
    assert_much_more(20.0, "overruns", |seed| {
        let overruns = |options| {
            let summary = summary(&slow_to_poll(options, WITHIN_GRACE), seed);
            counter(&summary, "overruns") as f64
        };
        (
            overruns(r#""event": "200us""#),
            overruns(r#""event": "2ms""#),
        )
    });
}

/// One that is due every 10 ms beside three hogs; `begins` comes first.
fn ticker_beside_hogs(begins: &str, poll: &str) -> String {
    format!(
        r#"{{ "global": {{ "duration": 8, "warmup": 2 }}, "domains": {{ "d": {{}} }},
             "tasks": {{ "hog": {{ "instance": 3, "hog": true }},
                         "ticker": {{ "phases": {{ "begin": {{ {begins} "run": "100us" }},
                           "tick": {{ "loop": -1, "run": {{ "uniform": ["1ms", "3ms"] }}, {poll} }} }} }} }} }}"#
    )
}

const POLL: &str = r#""poll": { "due": { "timer": "unique", "period": "10ms" } }"#;
const TIMER: &str = r#""timer": { "ref": "unique", "period": "10ms" }"#;

/// A member that publishes its due times is on time; a task that has not joined, or has left, waits for its turn.
#[test]
fn joining_gives_timeliness_and_leaving_takes_it() {
    let tardiness_ms = |begins, poll, seed| {
        let summary = summary(&ticker_beside_hogs(begins, poll), seed);
        row(&summary, "ticker").tardiness.mean_ms
    };
    let joined_ms = |seed| tardiness_ms(r#""join": "d","#, POLL, seed);
    assert_much_more(5.0, "never joined", |seed| {
        (tardiness_ms("", TIMER, seed), joined_ms(seed))
    });
    assert_much_more(5.0, "left", |seed| {
        let left_ms = tardiness_ms(
            r#""join": "d", "run1": "1ms", "leave": "","#,
            r#""timer": { "ref": "unique", "period": "10ms" }"#,
            seed,
        );
        (left_ms, joined_ms(seed))
    });
}

/// Sleeping anywhere but in poll is against the contract: a member that does so is demoted until it polls, and late.
#[test]
fn poll_is_where_a_member_sleeps() {
    assert_much_more(5.0, "sleeps elsewhere", |seed| {
        let seen = |poll| {
            let summary = summary(&ticker_beside_hogs(r#""join": "d","#, poll), seed);
            let tardiness_ms = row(&summary, "ticker").tardiness.mean_ms;
            (tardiness_ms, counter(&summary, "blocks"))
        };
        let (elsewhere, in_poll) = (seen(TIMER), seen(POLL));
        assert!(
            elsewhere.1 == 1 && in_poll.1 == 0,
            "{elsewhere:?} {in_poll:?}"
        );
        (elsewhere.0, in_poll.0)
    });
}

/// Members poll without a system call until others are to run: they are told when that is, and in time.
#[test]
fn polls_enter_the_kernel_where_others_are_to_run() {
    let in_kernel_percent = |others: &str, seed| {
        let text = format!(
            r#"{{ "global": {{ "duration": 4, "warmup": 1 }}, "domains": {{ "d": {{}} }},
                 "tasks": {{ "one": {} {others} }} }}"#,
            member(HALF_MS, MORE_IMPORTANT)
        );
        let summary = summary(&text, seed);
        assert_eq!(counter(&summary, "overruns"), 0);
        row(&summary, "one").polls_in_kernel_percent
    };
    assert_much_more(5.0, "polls in the kernel", |seed| {
        let alone = in_kernel_percent("", seed);
        (
            in_kernel_percent(r#", "hog": { "hog": true }"#, seed),
            alone.max(1.0),
        )
    });
}

fn hogs(number: usize, tunables: &str, actions: &str) -> String {
    format!(
        r#"{{ "global": {{ "duration": 6, "warmup": 2 }}, "tunables": {{ {tunables} }}, "actions": [{actions}],
             "tasks": {{ "hog": {{ "hog": true, "instance": {number} }} }} }}"#
    )
}

#[test]
fn granularity_sets_how_long_turns_are() {
    let switches = |tunables, actions| {
        let summary = summary(&hogs(2, tunables, actions), 1);
        summary.total.switches_per_s
    };
    let (fine, coarse) = (r#""granularity": "2ms""#, r#""granularity": "20ms""#);
    let times = switches(fine, "") / switches(coarse, "");
    assert!((9.0..11.0).contains(&times), "{times}");
    // Set while they run.
    let set = r#"{ "at": "1s", "tunables": { "granularity": "2ms" } }"#;
    let times = switches(coarse, set) / switches(coarse, "");
    assert!((9.0..11.0).contains(&times), "{times}");
}

/// However many there are: then the granularity is not kept.
#[test]
fn min_slice_is_the_shortest_turn() {
    let seen = |tunables, actions| {
        let summary = summary(&hogs(40, tunables, actions), 1);
        (summary.total.switches_per_s, summary.total.wait_max_ms)
    };
    let (short, long) = (r#""min_slice": "100us""#, r#""min_slice": "2ms""#);
    let (of_short, of_long) = (seen(short, ""), seen(long, ""));
    let times = of_short.0 / of_long.0;
    assert!((15.0..21.0).contains(&times), "{times}");
    assert!(of_long.1 > 10.0 * of_short.1, "{of_long:?} {of_short:?}");
    let set = r#"{ "at": "1s", "tunables": { "min_slice": "100us" } }"#;
    let times = seen(long, set).0 / of_long.0;
    assert!((15.0..21.0).contains(&times), "{times}");
}

/// What is set counts also on a CPU to which nobody comes, and from which nobody goes.
#[test]
fn pinned_hogs_follow_what_is_set() {
    let switches = |actions: &str| {
        let text = format!(
            r#"{{ "global": {{ "duration": 4, "warmup": 2 }}, "machine": {{ "cpus": 2 }},
                 "tunables": {{ "granularity": "20ms" }}, "actions": [{actions}],
                 "tasks": {{ "pinned": {{ "hog": true, "instance": 2, "cpus": [1] }},
                             "other": {{ "run": "1ms", "sleep": "3ms" }} }} }}"#
        );
        row(&summary(&text, 1), "pinned").switches_per_s
    };
    let set = r#"{ "at": "1s", "tunables": { "granularity": "2ms" } }"#;
    let times = switches(set) / switches("");
    assert!(times > 5.0, "{times}");
}

/// Members whose turn it is not when they are due, so soon after the event before, borrow within the window.
#[test]
fn the_window_lets_due_events_run_on_time() {
    // Three of one domain, due a third of their period apart.
    let ticker = |sleep_us: u64| {
        format!(
            r#""tick-{sleep_us}": {{ "phases": {{ "begin": {{ "join": "d", "run": "100us", "sleep": {sleep_us} }},
                 "tick": {{ "loop": -1, "run": {{ "uniform": ["1ms", "2ms"] }}, "poll": {{ "due": "2ms" }},
                   "run2": {{ "uniform": ["1ms", "2ms"] }},
                   "poll2": {{ "due": {{ "timer": "unique", "period": "22ms", "mode": "absolute" }} }} }} }} }}"#
        )
    };
    let tickers = [1000, 8300, 15600].map(ticker).join(", ");
    assert_much_more(8.0, "mean tardiness", |seed| {
        let tardiness_ms = |window| {
            let text = format!(
                r#"{{ "global": {{ "duration": 8, "warmup": 2 }}, "tunables": {{ "window": "{window}" }},
                     "domains": {{ "d": {{}} }},
                     "tasks": {{ "hog": {{ "instance": 3, "hog": true }}, {tickers} }} }}"#
            );
            summary(&text, seed).total.tardiness.mean_ms
        };
        (tardiness_ms("0us"), tardiness_ms("6ms"))
    });
}

/// Two that ask for all of a class, and four hogs outside.
fn two_for_one_class(class: &str) -> Summary {
    summary(
        &format!(
            r#"{{ "global": {{ "duration": 5, "warmup": 1 }}, "classes": {{ "c": {{ {class} }} }},
                 "tasks": {{ "one": {{ "hog": true, "reserve": {{ "class": "c", "rate": 0.4 }} }},
                             "two": {{ "hog": true, "reserve": {{ "class": "c", "rate": 0.4 }} }},
                             "hog": {{ "instance": 4, "hog": true }} }} }}"#
        ),
        1,
    )
}

fn assert_shares(summary: &Summary, expected: &[(&str, f64)]) {
    for (name, percent) in expected {
        let had = share(summary, name);
        assert!((had - percent).abs() < 0.5, "{name}: {had} not {percent}");
    }
}

#[test]
fn capacity_and_overbooking_say_what_a_class_gives() {
    // The second one is refused, and shares with the hogs.
    let plain = two_for_one_class(r#""capacity": "40%""#);
    assert_eq!(plain.refused_reservations, 1);
    assert_shares(&plain, &[("one", 40.0), ("two", 12.0), ("hog", 48.0)]);
    let overbooked = two_for_one_class(r#""capacity": "40%", "overbooking": 1"#);
    assert_eq!(overbooked.refused_reservations, 0);
    assert_shares(&overbooked, &[("one", 20.0), ("two", 20.0), ("hog", 60.0)]);
    let larger = two_for_one_class(r#""capacity": "80%""#);
    assert_eq!(larger.refused_reservations, 0);
    assert_shares(&larger, &[("one", 40.0), ("two", 40.0), ("hog", 20.0)]);
}

#[test]
fn released_one_shares_with_all_others() {
    let seen = |then: &str| {
        summary(
            &format!(
                r#"{{ "global": {{ "duration": 5, "warmup": 2 }},
                     "tasks": {{ "one": {{ "reserve": {{ "class": "guaranteed", "rate": 0.4 }}, "phases": {{
                                   "first": {{ "run": "100ms", {then} "run1": "1us" }},
                                   "then": {{ "loop": -1, "run": "1s" }} }} }},
                                 "hog": {{ "instance": 4, "hog": true }} }} }}"#
            ),
            1,
        )
    };
    // The adaptive class sleeps.
    assert_shares(&seen(""), &[("one", 66.7)]);
    assert_shares(&seen(r#""release": "","#), &[("one", 20.0)]);
    let less = r#""reserve": { "class": "adaptive", "rate": 0.1 },"#;
    assert_shares(&seen(less), &[("one", 50.0)]);
}

#[test]
fn a_part_of_what_was_lent_comes_back() {
    let seen = |back: &str| {
        summary(
            &format!(
                r#"{{ "global": {{ "duration": 7, "warmup": 4 }}, "classes": {{ "all": {{ "capacity": "90%" }} }},
                     "tasks": {{ "one": {{ "reserve": {{ "class": "all", "rate": 0.6 }}, "phases": {{
                                   "first": {{ "run": "300ms", "lend": {{ "to": "other", "rate": 0.4 }}, "sleep": "1s",
                                               {back} "run1": "1us" }},
                                   "then": {{ "loop": -1, "run": "1s" }} }} }},
                                 "other": {{ "hog": true, "reserve": {{ "class": "all", "rate": 0.3 }} }} }} }}"#
            ),
            1,
        )
    };
    assert_shares(&seen(""), &[("one", 22.2)]);
    let part = r#""recollect": { "from": "other", "rate": 0.1 },"#;
    assert_shares(&seen(part), &[("one", 33.3)]);
    assert_shares(&seen(r#""recollect": "other","#), &[("one", 66.7)]);
}
