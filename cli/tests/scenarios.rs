// SPDX-License-Identifier: MIT OR Apache-2.0
//! What scenarios say, and what `consort sim` makes of it: machines, faults, mistakes.

mod common;

use std::fs;

use common::{json, scenario, shares, Folder};
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
