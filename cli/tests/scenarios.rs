// SPDX-License-Identifier: MIT OR Apache-2.0
//! What scenarios say, and what `consort sim` makes of it: machines, faults, mistakes.

use std::fs;

use crate::common::{code, json, scenario, shares, sim, stderr, stdout, succeed, Folder};
use serde_json::Value;

/// Begin and end in us of the slices on a CPU's track, in order of time.
fn slices(trace: &Value, cpu: u64) -> Vec<(f64, f64)> {
    let records = trace["traceEvents"].as_array().unwrap().iter();
    let on_cpu = records.filter(|it| it["ph"] == "X" && it["pid"] == 1 && it["tid"] == cpu + 1);
    let slice = |it: &Value| {
        let from_us = it["ts"].as_f64().unwrap();
        (from_us, from_us + it["dur"].as_f64().unwrap())
    };
    let mut slices: Vec<_> = on_cpu.map(slice).collect();
    slices.sort_by(|one, other| one.0.total_cmp(&other.0));
    slices
}

#[test]
fn who_runs_on_a_cpu_that_goes_offline_stops_there() {
    let folder = Folder::new("hotplug");
    let report = folder.path("report");
    for configuration in ["coop", "eevdf"] {
        let file = scenario("hotplug.json");
        let args = [
            "run",
            &file,
            "--as",
            configuration,
            "--report",
            &report,
            "--json",
        ];
        let summary = json(&args);
        for (name, share) in shares(&summary) {
            assert!(
                share <= 100.0,
                "{configuration}: {name} had {share} % of a CPU"
            );
        }
        // Two CPUs are away for two seconds each, of 24 in all, and nobody else waits for work.
        let idle = summary["idle_percent"].as_f64().unwrap();
        assert!(idle < 2.0, "{configuration}: {idle} % idle");
        let text = fs::read_to_string(folder.path("report/trace.json")).unwrap();
        let trace: Value = serde_json::from_str(&text).unwrap();
        for cpu in 0..4 {
            for pair in slices(&trace, cpu).windows(2) {
                assert!(
                    pair[0].1 <= pair[1].0 + 0.001,
                    "{configuration}: CPU {cpu}: {pair:?}"
                );
            }
        }
        // It is asked to go at 1 s, and back at 3 s.
        let away = slices(&trace, 2).into_iter().find(|(from_us, to_us)| {
            (1_010_000.0..2_990_000.0).contains(from_us) || (*from_us < 1e6 && *to_us > 1.01e6)
        });
        assert_eq!(away, None, "{configuration}");
        let records = trace["traceEvents"].as_array().unwrap();
        let offline: Vec<_> = records
            .iter()
            .filter(|it| it["name"] == "offline")
            .collect();
        let tracks: Vec<_> = offline
            .iter()
            .map(|it| it["tid"].as_u64().unwrap())
            .collect();
        assert_eq!(tracks, [3, 2], "{configuration}");
    }
}

#[test]
fn cpus_that_are_possible_and_never_there_do_nothing() {
    let folder = Folder::new("possible");
    let text = r#"{ "global": { "duration": 3 }, "machine": { "cpus": 2, "possible": 4 },
        "tasks": { "hog": { "instance": 3, "hog": true },
            "sleeper": { "instance": 4, "run": "1ms", "sleep": "5ms" } },
        "actions": [ { "at": "2s", "cpu_online": 3 } ] }"#;
    let file = folder.write("possible.json", text);
    for configuration in ["coop", "eevdf", "rr", "rc"] {
        let report = folder.path("report");
        let args = [
            "run",
            &file,
            "--as",
            configuration,
            "--report",
            &report,
            "--json",
        ];
        let summary = json(&args);
        // Two CPUs for two seconds, and three for one.
        let total: f64 = shares(&summary).iter().map(|(_, share)| share).sum();
        assert!((225.0..233.4).contains(&total), "{configuration}: {total}");
        assert!(summary["idle_percent"].as_f64().unwrap() < 3.0);
        let text = fs::read_to_string(folder.path("report/trace.json")).unwrap();
        let trace: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(slices(&trace, 2), [], "{configuration}");
        let first = slices(&trace, 3).first().map(|slice| slice.0).unwrap();
        assert!((2e6..2.02e6).contains(&first), "{configuration}: {first}");
    }
}

/// Standard error of a run that must fail so.
fn fail(expected: i32, text: &str) -> String {
    let folder = Folder::new("refused");
    let output = sim(&["run", &folder.write("bad.json", text)]);
    assert_eq!(code(&output), expected, "{text}: {}", stderr(&output));
    stderr(&output)
}

#[test]
fn loops_that_take_no_time_are_refused_with_task_and_phase() {
    for (task, place) in [
        (r#"{ "loop": -1, "sleep": 0 }"#, "tasks.a: "),
        (r#"{ "loop": -1, "run": 0, "sleep": "0us" }"#, "tasks.a: "),
        (r#"{ "run": { "uniform": [0, 0] } }"#, "tasks.a: "),
        (r#"{ "poll": 0 }"#, "tasks.a: "),
        (r#"{ "lock": "l", "unlock": "l" }"#, "tasks.a: "),
        (
            r#"{ "phases": { "p": { "run": 5 }, "q": { "loop": -1, "sleep": { "series": [0, 0] } } } }"#,
            "tasks.a.phases.q: ",
        ),
        (
            r#"{ "phases": { "p": { "loop": 9, "sleep": 0 }, "q": { "fork": "b" } } }"#,
            "tasks.a: ",
        ),
    ] {
        let text = format!(r#"{{ "tasks": {{ "a": {task}, "b": {{ "hog": true }} }} }}"#);
        let error = fail(2, &text);
        assert!(
            error.contains(place) && error.contains("nothing that takes time"),
            "{error}"
        );
    }
}

/// What a program may do, it may do again and again: the run ends all the same, and nobody else is kept off.
#[test]
fn busy_loops_end_with_the_run() {
    let folder = Folder::new("busy");
    for task in [
        r#"{ "yield": "" }"#,
        r#"{ "phases": { "p": { "loop": 1000000000000, "sleep": 0 }, "q": { "run": 5 } } }"#,
        r#"{ "phases": { "p": { "loop": 1000000000000, "lock": "l", "unlock": "l" }, "q": { "run": 5 } } }"#,
        r#"{ "phases": { "p": { "loop": 1000000000000, "signal": "c" }, "q": { "run": 5, "lock": "l",
            "wait": { "ref": "c", "mutex": "l" } } } }"#,
        r#"{ "barrier": "alone" }"#,
        r#"{ "poll": { "due": { "raw": 0 }, "priority": 3 } }"#,
    ] {
        for cpus in [1, 2] {
            let text = format!(
                r#"{{ "global": {{ "duration": "300ms" }}, "machine": {{ "cpus": {cpus} }},
                    "tasks": {{ "a": {task}, "b": {{ "cpus": [0], "run": "1ms", "sleep": "9ms" }} }} }}"#
            );
            let file = folder.write("busy.json", &text);
            for configuration in ["coop", "eevdf"] {
                let summary = json(&["run", &file, "--as", configuration, "--json"]);
                let window_s = summary["window_s"].as_f64().unwrap();
                assert!((0.3..0.301).contains(&window_s), "{task}: {window_s}");
                let share = shares(&summary)[1].1;
                assert!(
                    (8.0..12.0).contains(&share),
                    "{task}, {cpus}, {configuration}: {share}"
                );
            }
        }
    }
}

#[test]
fn slips_in_the_names_of_domains_are_told() {
    let domains = r#""domains": { "films": { "event": "1ms" }, "audio": {} }"#;
    for task in [
        r#"{ "player": { "domain": "flims" } }"#,
        r#"{ "phases": { "p": { "join": "flims", "run": 5 } } }"#,
        r#"{ "mute_liar": "flims" }"#,
        r#"{ "polite_liar": { "domain": "flims" } }"#,
        r#"{ "garbage": "flims" }"#,
    ] {
        let error = fail(
            2,
            &format!(r#"{{ {domains}, "tasks": {{ "a": {task} }} }}"#),
        );
        let expected = "is \"flims\", expected the name of a domain: audio, films\n";
        assert!(error.ends_with(expected), "{error}");
    }
    let folder = Folder::new("domains");
    let text =
        r#"{ "global": { "duration": 1 }, "tasks": { "a": { "player": { "domain": "new" } } } }"#;
    succeed(&["run", &folder.write("new.json", text)]);
}

#[test]
fn a_refused_reservation_is_said_and_fails() {
    let folder = Folder::new("reserve");
    let reserve = r#""reserve": { "class": "all", "rate": 0.4 }"#;
    let first = format!(r#""a": {{ "hog": true, {reserve} }}, "b": {{ "hog": true, {reserve} }}"#);
    let later = format!(
        r#""a": {{ "hog": true, {reserve} }}, "b": {{ "phases": {{ "p": {{ {reserve}, "run": "2s" }} }} }}"#
    );
    for tasks in [first, later] {
        let text = format!(
            r#"{{ "global": {{ "duration": 1 }}, "classes": {{ "all": {{ "capacity": "50%" }} }},
                "tasks": {{ {tasks} }} }}"#
        );
        let file = folder.write("reserve.json", &text);
        let report = folder.path("report");
        for configuration in ["coop", "rc"] {
            let run = |more: &[&str]| sim(&[&["run", &file, "--as", configuration], more].concat());
            let output = run(&[]);
            assert_eq!(code(&output), 9, "{}", stderr(&output));
            assert!(
                stderr(&output).contains("1 reservation was refused"),
                "{}",
                stderr(&output)
            );
            assert!(
                stdout(&output).contains("refused: b: class all admits"),
                "{}",
                stdout(&output)
            );
            let output = run(&["--json", "--report", &report]);
            assert_eq!(code(&output), 9);
            let summary: Value = serde_json::from_str(&stdout(&output)).unwrap();
            assert_eq!(summary["refused_reservations"], 1);
            assert!(summary["refusals"][0]
                .as_str()
                .unwrap()
                .starts_with("b: class all"));
            let page = fs::read_to_string(folder.path("report/index.html")).unwrap();
            assert!(page.contains("refused: b: class all"));
        }
        let output = sim(&["compare", "eevdf", "coop", &file]);
        assert_eq!(code(&output), 9, "{}", stderr(&output));
    }
}

#[test]
fn twelve_lines_of_a_plot_look_different_and_have_names() {
    let folder = Folder::new("plot");
    let text =
        r#"{ "global": { "duration": 2 }, "tasks": { "p": { "instance": 12, "hog": true } } }"#;
    let report = folder.path("report");
    succeed(&["run", &folder.write("p.json", text), "--report", &report]);
    let page = fs::read_to_string(folder.path("report/index.html")).unwrap();
    let plot = page
        .split("<svg")
        .find(|svg| svg.contains("each task over time"))
        .unwrap();
    let lines = plot.split("<polyline class=\"").skip(1);
    let looks: Vec<&str> = lines.map(|line| line.split('"').next().unwrap()).collect();
    assert_eq!(
        looks.len(),
        24,
        "a line and an entry of the legend for each"
    );
    assert_eq!(looks[..12], looks[12..], "as the legend says");
    let different: std::collections::BTreeSet<&str> = looks.iter().copied().collect();
    assert_eq!(different.len(), 12, "{looks:?}");
    for task in 0..12 {
        assert!(plot.contains(&format!("p-{task}</text>")), "{task}");
    }
    for class in different.iter().flat_map(|look| look.split(' ')) {
        assert!(page.contains(&format!(".{class}{{stroke")), "{class}");
    }
}

#[test]
fn timers_that_cannot_be_started_are_counted_and_traced() {
    let folder = Folder::new("timers");
    let report = folder.path("report");
    for (probability, fails) in [("0", false), ("0.5", true)] {
        let text = format!(
            r#"{{ "global": {{ "duration": 1 }}, "faults": {{ "timer_fails": {probability} }},
                "tasks": {{ "h": {{ "instance": 3, "hog": true }} }} }}"#
        );
        let file = folder.write("timers.json", &text);
        // Whether the scheduler keeps its promises then is another matter: exit code 0 or 8.
        let output = sim(&["run", &file, "--json", "--report", &report]);
        let summary: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(summary["faults"].as_u64() > Some(0), fails, "{probability}");
        let text = fs::read_to_string(folder.path("report/trace.json")).unwrap();
        assert_eq!(text.contains("\"timer_start\""), fails, "{probability}");
    }
}

#[test]
fn a_comparison_says_where_a_model_was_compared_with_nothing() {
    let folder = Folder::new("limits");
    let hogs = |machine: &str, more: &str| {
        let text = format!(
            r#"{{ "global": {{ "duration": 1 }}, {machine} "tasks": {{ "h": {{ "instance": 2, "hog": true {more} }} }} }}"#
        );
        folder.write("hogs.json", &text)
    };
    let none: [&str; 0] = [];
    let eevdf = "the model of EEVDF was compared with no kernel for: ";
    for (machine, more, unmeasured) in [
        ("", "", None),
        (r#""machine": { "cpus": 2 },"#, "", Some("several CPUs")),
        ("", r#", "taskgroup": "/a""#, Some("tasks in cgroups")),
        ("", r#", "priority": 3"#, Some("nice values")),
        ("", r#", "slice": "3ms""#, Some("slices that tasks ask for")),
    ] {
        let file = hogs(machine, more);
        let both = json(&["compare", "eevdf", "coop", &file, "--json"]);
        let text = succeed(&["compare", "eevdf", "coop", &file]);
        assert_eq!(both["b"]["title"], "hogs, coop");
        match unmeasured {
            None => {
                assert_eq!(both["a"]["limits"], serde_json::json!(none));
                assert!(!text.contains("note: "), "{text}");
            }
            Some(unmeasured) => {
                let expected = format!("{eevdf}{unmeasured}");
                assert_eq!(both["a"]["limits"], serde_json::json!([expected]));
                assert!(
                    text.contains(&format!("hogs, eevdf: note: {expected}\n")),
                    "{text}"
                );
            }
        }
    }
    let file = hogs(r#""machine": { "cpus": 2 },"#, "");
    let both = json(&["compare", "fair", "rr", &file, "--json"]);
    for (side, part) in [
        ("a", "on one CPU only"),
        ("b", "SCHED_RR was compared with nothing"),
    ] {
        assert!(
            both[side]["limits"][0].as_str().unwrap().contains(part),
            "{both}"
        );
    }
    let file = hogs(r#""classes": { "all": { "capacity": "50%" } },"#, "");
    let both = json(&["compare", "eevdf", "coop", &file, "--json"]);
    let limit = both["a"]["limits"][0].as_str().unwrap();
    assert!(
        limit.starts_with("this scheduler has no reservations"),
        "{limit}"
    );
}

#[test]
fn slices_that_no_task_can_ask_for_are_refused() {
    for slice in ["99us", "101ms"] {
        let text = format!(r#"{{ "tasks": {{ "a": {{ "hog": true, "slice": "{slice}" }} }} }}"#);
        assert!(fail(2, &text).contains("expected 100us to 100ms"));
    }
}
