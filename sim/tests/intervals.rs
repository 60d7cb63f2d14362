// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run's trace has each interval of groups' members: that it began, and that it was kept, or missed for a cause.

use crate::common::assert_fine;
use consort_sim::{consort, groups::RoleTotal, report::Recording, run, scenario};
use consort_trace::{Became, Filter, Interval, Miss, OfRole, Report, Role, Trace, What};

/// What is on one CPU, its trace, and what the scheduler itself counted.
fn traced(text: &str) -> (Trace, Vec<RoleTotal>) {
    let scenario = scenario::parse("test.json", text).unwrap();
    let mut bytes = Vec::new();
    let mut recording = Recording::new(&scenario.setup, "test", &mut bytes, 1 << 26).unwrap();
    let outcome = run(&scenario.setup, consort(), &mut recording).unwrap();
    assert_fine(&outcome);
    assert_eq!(recording.finish(outcome.end_ns).unwrap(), 0);
    (Trace::read(&bytes[..]).unwrap(), outcome.roles)
}

/// A plan, a server that follows its display, and a pair that wants the CPU all the time in the same intervals, of more than
/// their share; somebody who comes late and sleeps in its intervals, and one who is never there.
const ALL: &str = r#"{"global": {"duration": 4}, "groups": {
    "video": {"function": "plan", "begins": "240ms", "members": {
        "display": {"plan": [["0ms", "5ms"]], "repeat": "40ms"},
        "server": {"follows": "display", "for": "3ms"},
        "late": {"plan": [["20ms", "25ms"]], "repeat": "40ms"},
        "never": {"plan": [["0ms", "1ms"]], "repeat": "40ms"}}},
    "rivals": {"function": "plan", "begins": "200ms", "members": {
        "one": {"plan": [["10ms", "30ms"]], "repeat": "40ms"},
        "two": {"plan": [["11ms", "12ms"]], "repeat": "40ms"}}}},
    "tasks": {
        "display": {"timer": {"ref": "unique", "period": "40ms", "mode": "absolute"}, "run": "2ms",
                    "tell1": "submitting", "resume": "server", "tell2": "submitted"},
        "server": {"suspend": "", "run": "1ms"},
        "never": {"delay": "10s", "hog": true},
        "late": {"delay": "2s", "timer": {"ref": "unique", "period": "40ms", "mode": "absolute"}, "run": "1ms"},
        "one": {"hog": true}, "two": {"hog": true}, "hogs": {"instance": 4, "hog": true}}}"#;

fn of<'a>(report: &'a Report, total: &RoleTotal) -> &'a OfRole {
    let label = format!("{}/{}", total.group, total.task);
    let mut roles = report.roles.iter();
    let found = roles.find(|it| it.label.as_str() == label);
    found.unwrap_or_else(|| panic!("no {label} in {:?}", report.roles))
}

#[test]
fn a_trace_has_what_the_scheduler_counts() {
    let (trace, totals) = traced(ALL);
    let report = Report::of(&trace, &Filter::default());
    let mut missed = Vec::new();
    for total in &totals {
        let it = of(&report, total);
        let number = |why: Miss| it.missed.get(&why).copied().unwrap_or_default();
        let counted = &total.missed;
        let causes = [
            (Miss::Vacant, counted.vacant),
            (Miss::Asleep, counted.asleep),
            (Miss::Outside, counted.outside),
            (Miss::Share, counted.share),
            (Miss::Others, counted.others),
        ];
        assert_eq!(it.kept, total.kept, "{total:?}");
        for (why, count) in causes {
            assert_eq!(number(why), count, "{why:?} of {total:?}");
        }
        missed.extend(causes.iter().filter(|it| it.1 > 0).map(|it| it.0));
        let late_ms = it.late_ns.clone().max() as f64 / 1e6;
        assert_eq!(late_ms, total.late_max_ms, "{total:?}");
    }
    // It works for 2 ms from its frame's time on, which is when its interval begins, and sleeps then.
    let display = of(&report, &totals[0]);
    let mut completed_ns = display.completed_ns.clone();
    assert_eq!(completed_ns.count(), display.kept);
    assert!(
        (2_000_000..5_000_000).contains(&completed_ns.percentile(50)),
        "{display:?}"
    );
    let kept: u64 = totals.iter().map(|it| it.kept).sum();
    assert!(kept > 200, "{totals:?}");
    for why in [Miss::Vacant, Miss::Asleep, Miss::Others] {
        assert!(missed.contains(&why), "{why:?} is in none of {totals:?}");
    }
}

/// Each one that is kept began, within its time, and nothing else is told of it.
#[test]
fn an_interval_begins_and_ends_once() {
    let (trace, _) = traced(ALL);
    let mut begun: Vec<(Role, u64)> = Vec::new();
    let mut ended: Vec<(Role, u64)> = Vec::new();
    for record in trace.records() {
        let What::Interval(Interval {
            of,
            from_ns,
            until_ns,
            became,
        }) = record.what
        else {
            continue;
        };
        let it = (of, from_ns);
        match became {
            Became::Began { .. } => {
                assert!((from_ns..until_ns).contains(&record.at_ns), "{record:?}");
                assert!(record.tid > 0 && !begun.contains(&it), "{record:?}");
                begun.push(it);
            }
            Became::Passed { .. } => {}
            _ => {
                let has_begun = begun.contains(&it);
                assert_eq!(has_begun, became == Became::Kept, "{record:?}");
                assert!(
                    became == Became::Dropped || record.at_ns >= until_ns,
                    "{record:?}"
                );
                assert!(!ended.contains(&it), "{record:?}");
                ended.push(it);
            }
        }
    }
    assert!(begun.len() > 200 && ended.len() > 200);
}

/// A plan that a member begins anew before its interval is over: neither kept nor missed, and told as such.
#[test]
fn an_interval_whose_plan_is_set_back_is_dropped() {
    let (trace, _) = traced(
        r#"{"global": {"duration": 1}, "groups": {"video": {"function": "plan", "members": {
            "sleeper": {"plan": [["0ms", "20ms"]]}, "starter": {}}}},
        "tasks": {"sleeper": {"sleep": "1s"},
            "starter": {"loop": 5, "tell": "trigger", "sleep": "10ms"}}}"#,
    );
    let report = Report::of(&trace, &Filter::default());
    let sleeper = report.roles.iter().find(|it| it.label.name() == "sleeper");
    let sleeper = sleeper.unwrap();
    assert_eq!((sleeper.kept, sleeper.dropped), (0, 4), "{sleeper:?}");
    assert_eq!(sleeper.missed.get(&Miss::Asleep), Some(&1), "{sleeper:?}");
}
