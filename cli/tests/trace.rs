// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort trace` as a user without rights meets it: traces of simulated runs, and of programs' own events.

use std::{
    fs,
    process::{Command, Output},
};

use crate::common::{code, stderr, stdout, succeed, Folder};
use serde_json::Value;

/// Players on a CPU that has no time for all of them, for a moment.
const PLAYERS: &str = r#"{
    "global": { "duration": 3, "warmup": 1, "seed": 1 },
    "machine": { "cpus": 1, "kernel": "7.2" },
    "domains": { "films": { "event": "1.2ms" } },
    "tasks": {
        "player": {
            "instance": 8, "delay": 500000,
            "player": { "load": 0.1538, "chunk": "1ms", "domain": "films" }
        }
    }
}"#;

fn trace(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_consort"))
        .arg("trace")
        .args(args)
        .output()
        .unwrap()
}

fn told(args: &[&str]) -> String {
    let output = trace(args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// The trace of a simulated run under a configuration, and the run's own summary.
fn simulated(folder: &Folder, configuration: &str) -> (String, Value) {
    let file = folder.path("run.trace");
    let players = folder.write("players.json", PLAYERS);
    let args = [
        "run",
        &players,
        "--as",
        configuration,
        "--trace",
        &file,
        "--json",
    ];
    (file.clone(), serde_json::from_str(&succeed(&args)).unwrap())
}

fn report(file: &str, args: &[&str]) -> Value {
    serde_json::from_str(&told(&[&["report", "--json", file][..], args].concat())).unwrap()
}

fn reasons(report: &Value) -> Vec<&str> {
    let threads = report["threads"].as_array().unwrap().iter();
    let blame = threads.flat_map(|it| it["blame"].as_array().unwrap());
    blame.map(|it| it["why"].as_str().unwrap()).collect()
}

#[test]
fn a_simulated_runs_trace_says_what_its_summary_says() {
    let folder = Folder::new("trace");
    let (file, summary) = simulated(&folder, "coop");
    let report = report(&file, &[]);
    let thread = |name: &str| {
        let threads = report["threads"].as_array().unwrap();
        threads.iter().find(|it| it["command"] == name).unwrap()
    };
    for task in summary["tasks"].as_array().unwrap() {
        let of = thread(task["name"].as_str().unwrap());
        // The summary's window begins later.
        assert!(
            of["switches"].as_u64() >= task["switches"].as_u64(),
            "{of} {task}"
        );
        assert!(of["tardiness_ns"]["count"].as_u64() > Some(20), "{of}");
    }
    assert_eq!(
        (&report["simulated"], &report["whole"]),
        (&Value::Bool(true), &Value::Bool(true))
    );
    let reasons = reasons(&report);
    assert!(
        reasons.contains(&"due event") && reasons.contains(&"slice"),
        "{reasons:?}"
    );
    let text = told(&["report", "--of", "player-1", "--histograms", &file]);
    for part in [
        "who had the CPU",
        "due events of",
        "player/frame_shown",
        "####",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("ends early") && !text.contains("lost"),
        "{text}"
    );
}

#[test]
fn another_schedulers_reasons_are_not_made_up() {
    let folder = Folder::new("trace");
    let (file, _) = simulated(&folder, "eevdf");
    let report = report(&file, &[]);
    assert!(reasons(&report).iter().all(|it| *it == "stock slice"));
}

#[test]
fn exports_are_read_by_others() {
    let folder = Folder::new("trace");
    let (file, _) = simulated(&folder, "coop");
    let out = folder.path("trace.json");
    told(&["export", "--perfetto", "--to", "2s", &file, "-o", &out]);
    let all: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    let events = all["traceEvents"].as_array().unwrap();
    for phase in ["M", "X", "i", "C"] {
        assert!(events.iter().any(|it| it["ph"] == phase), "{phase}");
    }
    let csv = told(&[
        "export", "--csv", "--only", "due", "--of", "player-0", &file,
    ]);
    let mut lines = csv.lines();
    let columns = lines.next().unwrap().split(',').count();
    let all: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(all.len() > 20);
    assert!(all
        .iter()
        .all(|it| it.len() == columns && it[1] == "due" && it[5] == "player-0"));
    let times: Vec<u64> = all.iter().map(|it| it[0].parse().unwrap()).collect();
    assert!(times.is_sorted());
    let out = folder.path("trace.parquet");
    told(&["export", "--parquet", "--only", "due", &file, "-o", &out]);
    let bytes = fs::read(&out).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn recording_a_program_alone_needs_no_rights_and_exits_as_it_does() {
    let folder = Folder::new("trace");
    let file = folder.path("own.trace");
    let record = |command: &[&str]| {
        let args = ["record", "--only", "event,due", "-o", &file, "--"];
        trace(&[&args[..], command].concat())
    };
    for (command, exit) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["/nonexistent"], 127),
        (&["/"], 126),
    ] {
        let output = record(command);
        assert_eq!(code(&output), exit, "{command:?}: {}", stderr(&output));
    }
    let output = record(&[
        "sh",
        "-c",
        "test -e /proc/self/fd/$CONSORT_TRACE_FD && echo shared",
    ]);
    assert_eq!(stdout(&output), "shared\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("0 records") && stderr(&output).contains("0 lost"));
    assert!(told(&["report", &file]).starts_with("Linux "));
}

#[test]
fn what_nothing_in_the_trace_fits_is_said() {
    let folder = Folder::new("trace");
    let (file, _) = simulated(&folder, "coop");
    for (args, exit, part) in [
        (&["--of", "nosuch"][..], 1, "--of nosuch: expected"),
        (&["--label", "nosuch"], 1, "--label nosuch: expected"),
        (&["--from", "30s"], 1, "--from 30s: it ends after 2"),
        (&["--from", "3s", "--to", "1s"], 2, "--to to be later"),
    ] {
        for doing in [&["report"][..], &["export", "--csv"]] {
            let output = trace(&[doing, args, &[&file]].concat());
            assert_eq!(code(&output), exit, "{args:?}: {}", stderr(&output));
            assert!(stderr(&output).contains(part), "{}", stderr(&output));
            assert_eq!(stdout(&output), "");
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let folder = Folder::new("trace");
    let text = folder.write("text", &"not a trace\n".repeat(20));
    let missing = folder.path("missing");
    for (args, exit, part) in [
        (&["report", &missing][..], 1, "No such file"),
        (&["report", &text], 1, "it is no trace"),
        (&["export", "--csv", &text], 1, "consort trace record"),
        (&["export", &text], 2, "--perfetto"),
        (
            &["report", "--only", "swich", &text],
            2,
            "switch,wake,demote,interval,due,event",
        ),
        (&["record", "--only", "event"], 2, "behind --"),
        (&["record", "--limit", "0", "--", "true"], 2, "--limit"),
    ] {
        let output = trace(args);
        assert_eq!(code(&output), exit, "{args:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(part),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}
