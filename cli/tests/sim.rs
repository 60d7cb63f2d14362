// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort sim` as a user meets it. Times here are simulated: the same in every run.

use std::{fs, path::Path};

use crate::common::{
    code, json, scenario, scenarios, shares, sim, stderr, stdout, succeed, Folder,
};
use serde_json::Value;

fn mean_ms(summary: &Value) -> f64 {
    summary["total"]["tardiness"]["mean_ms"].as_f64().unwrap()
}

/// Three seconds of four tasks: short enough for an unoptimised build.
const SMALL: &str = r#"{
    "global": { "duration": 3, "warmup": 1 },
    "domains": { "films": { "event": "1.2ms" } },
    "tasks": {
        "player": { "instance": 3, "player": { "load": 0.3, "domain": "films" } },
        "hog": { "hog": true }
    }
}"#;

#[test]
fn a_run_prints_what_each_task_got() {
    let folder = Folder::new("run");
    let text = succeed(&["run", &folder.write("small.json", SMALL)]);
    assert!(text.starts_with("small, coop: 2.000 s, 1 CPU, "), "{text}");
    for column in [
        "share",
        "tardiness",
        "longest wait",
        "switches",
        "frames",
        "polls",
    ] {
        assert!(text.contains(column), "{column}: {text}");
    }
    for task in ["player-0 ", "player-2 ", "hog ", "all "] {
        assert!(
            text.lines().any(|line| line.starts_with(task)),
            "{task}: {text}"
        );
    }
}

#[test]
fn a_run_is_its_scenario_and_its_seed() {
    let folder = Folder::new("seed");
    let text = SMALL.replace(
        "\"hog\": true",
        "\"run\": {\"exponential\": \"2ms\"}, \"yield\": \"\"",
    );
    let file = folder.write("small.json", &text);
    let first = succeed(&["run", &file, "--json", "--seed", "2"]);
    assert_eq!(first, succeed(&["run", &file, "--json", "--seed", "2"]));
    assert_ne!(first, succeed(&["run", &file, "--json", "--seed", "3"]));
}

#[test]
fn the_kernel_makes_a_difference_to_the_stock_scheduler() {
    let folder = Folder::new("kernel");
    let file = folder.write(
        "small.json",
        &SMALL.replace("\"instance\": 3", "\"instance\": 9"),
    );
    let switches = |kernel: &str| {
        let summary = json(&["run", &file, "--as", "eevdf", "--kernel", kernel, "--json"]);
        summary["total"]["switches_per_s"].as_f64().unwrap()
    };
    // Slices end at ticks, 250 a second, or by a timer after 0.7 ms.
    assert!(
        (245.0..260.0).contains(&switches("6.18")),
        "{}",
        switches("6.18")
    );
    assert!(
        (1400.0..1440.0).contains(&switches("7.2")),
        "{}",
        switches("7.2")
    );
}

#[test]
fn a_report_is_a_page_a_trace_and_the_numbers() {
    let folder = Folder::new("report");
    let file = folder.write("small.json", SMALL);
    let report = folder.path("a/report");
    let printed = json(&["run", &file, "--json", "--report", &report]);
    let read = |name: &str| fs::read_to_string(Path::new(&report).join(name)).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&read("summary.json")).unwrap(),
        printed
    );
    let page = read("index.html");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("<svg") && !page.contains("http"));
    let trace: Value = serde_json::from_str(&read("trace.json")).unwrap();
    let records = trace["traceEvents"].as_array().unwrap();
    let ran_us: f64 = records
        .iter()
        .filter(|it| it["ph"] == "X" && it["pid"] == 1 && it["name"] == "hog")
        .map(|it| it["dur"].as_f64().unwrap())
        .sum();
    // The trace has the warm-up too, the summary has not.
    let share = shares(&printed)
        .into_iter()
        .find(|(name, _)| name == "hog")
        .unwrap()
        .1;
    let traced = ran_us / 3e6 * 100.0;
    assert!((traced - share).abs() < 2.0, "{traced} {share}");
}

#[test]
fn cooperation_and_the_stock_scheduler_side_by_side() {
    let folder = Folder::new("compare");
    let file = folder.write(
        "small.json",
        &SMALL.replace("\"instance\": 3", "\"instance\": 8"),
    );
    let report = folder.path("report");
    let text = succeed(&["compare", "eevdf", "coop", &file, "--report", &report]);
    assert!(text.starts_with("A: small, eevdf: "), "{text}");
    for line in [
        "B: small, coop: ",
        "player-7 A ",
        "player-7 B ",
        "hog A ",
        "all B ",
    ] {
        assert!(
            text.lines().any(|it| it.starts_with(line)),
            "{line}: {text}"
        );
    }
    let read = |name: &str| fs::read_to_string(Path::new(&report).join(name)).unwrap();
    let summary = |name| serde_json::from_str::<Value>(&read(name)).unwrap();
    let (eevdf, coop) = (summary("a/summary.json"), summary("b/summary.json"));
    assert!(
        mean_ms(&coop) * 4.0 < mean_ms(&eevdf),
        "{} {}",
        mean_ms(&coop),
        mean_ms(&eevdf)
    );
    assert!(read("index.html").contains("small, eevdf") && read("a/trace.json").contains("CPU 0"));
}

#[test]
fn tunables_are_a_configuration() {
    let folder = Folder::new("tunables");
    let file = folder.write(
        "hogs.json",
        r#"{"global": {"duration": 1}, "tasks": {"h": {"instance": 2, "hog": true}}}"#,
    );
    let switches = |configuration: &str| {
        let summary = json(&["run", &file, "--as", configuration, "--json"]);
        summary["total"]["switches_per_s"].as_f64().unwrap()
    };
    let (short, long) = (
        switches("min-slice=1ms,granularity=1ms"),
        switches("fair,granularity=20ms"),
    );
    assert!(
        (950.0..1050.0).contains(&short) && (95.0..105.0).contains(&long),
        "{short} {long}"
    );
    let quantum = switches("rr,quantum=100ms");
    assert!((9.0..12.0).contains(&quantum), "{quantum}");
}

/// The examples are what users begin with: each runs under everything, breaks no promise, and shows what it says.
#[test]
fn every_example_runs_under_every_scheduler() {
    let mut seen = 0;
    for entry in fs::read_dir(scenarios()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let short = shortened(&path);
        for configuration in ["coop", "fair", "eevdf", "rr", "rc", "frc"] {
            let output = sim(&["run", &short.1, "--as", configuration, "--json"]);
            let name = path.display();
            assert_eq!(
                code(&output),
                0,
                "{name} as {configuration}: {}",
                stderr(&output)
            );
            let summary: Value = serde_json::from_str(&stdout(&output)).unwrap();
            let total: f64 = shares(&summary).iter().map(|(_, share)| share).sum();
            let most = 100.0 * summary["cpus"].as_f64().unwrap();
            assert!(
                total > most / 2.0 && total < most + 0.01,
                "{name} as {configuration}: {total}"
            );
        }
        seen += 1;
    }
    assert!(seen >= 6, "{seen} examples");
}

/// The scenario, a few seconds of it.
fn shortened(path: &Path) -> (Folder, String) {
    let name = path.file_stem().unwrap().to_str().unwrap();
    let folder = Folder::new(&format!("short-{name}"));
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("\"duration\": "), "{name} has a duration");
    let text = text
        .replace("\"duration\": 22", "\"duration\": 5")
        .replace("\"duration\": 12", "\"duration\": 5");
    let file = folder.write(&format!("{name}.json"), &text);
    (folder, file)
}

#[test]
fn cgroups_get_what_they_weigh() {
    let file = scenario("cgroups.json");
    for configuration in ["fair", "eevdf"] {
        let summary = json(&["run", &file, "--as", configuration, "--json"]);
        let shares = shares(&summary);
        let of = |prefix: &str| -> f64 {
            let tasks = shares.iter().filter(|(name, _)| name.starts_with(prefix));
            tasks.map(|(_, share)| share).sum()
        };
        // Three to one; inside the smaller one, the player takes what it needs and two to one is left.
        assert!(
            (of("build") - 75.0).abs() < 1.0,
            "{configuration}: {shares:?}"
        );
        let ratio = of("game") / of("inner");
        assert!((1.8..2.2).contains(&ratio), "{configuration}: {shares:?}");
    }
}

#[test]
fn liars_gain_nothing() {
    let (_folder, file) = shortened(Path::new(&scenario("liar.json")));
    let summary = json(&["run", &file, "--json"]);
    let shares = shares(&summary);
    let of = |name: &str| {
        shares
            .iter()
            .find(|(it, _)| it == name)
            .map(|(_, share)| *share)
    };
    for liar in ["mute", "polite"] {
        let share = of(liar).unwrap();
        assert!(
            (1.0..100.0 / 12.0 + 0.5).contains(&share),
            "{liar}: {shares:?}"
        );
    }
    let latest = summary["total"]["tardiness"]["max_ms"].as_f64().unwrap();
    assert!(latest < 3.2, "{latest}");
}

#[test]
fn exploring_says_which_seeds_it_ran() {
    let folder = Folder::new("explore");
    let args = [
        "explore", "--first", "0", "--seeds", "9", "--jobs", "2", "--save",
    ];
    let save = folder.path("found");
    let output = sim(&[&args[..], &[&save]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "9 scenarios, from seed 0: no promise was broken\n"
    );
    assert!(!Path::new(&save).exists(), "nothing was found");
}

#[test]
fn exploring_without_a_first_seed_takes_another_one_each_time() {
    let output = succeed(&["explore", "--minutes", "0.01", "--jobs", "1"]);
    let words: Vec<&str> = output.split([' ', ':']).collect();
    let first: u64 = words[4].parse().unwrap();
    assert!(first > 1_000_000, "{output}");
}

#[test]
fn the_user_level_host_is_simulated_too() {
    let path = scenario("userlevel/killed.json");
    let outcome = json(&["run", &path, "--json"]);
    assert_eq!(outcome, json(&["run", &path, "--json"]), "the same again");
    assert!(outcome["turns"].as_u64().unwrap() > 900, "{outcome}");
    assert!(outcome["stall_ns_max"].as_u64().unwrap() <= 20_000_000);
    assert_eq!(outcome["broken"], serde_json::json!([]));
    assert!(succeed(&["run", &path]).starts_with("user level: 6 members, 1 running at a time"));
    assert_eq!(
        succeed(&["explore", "--user-level", "--first", "5", "--seeds", "20"]),
        "20 scenarios at user level, from seed 5: no rule was broken\n"
    );
    let folder = Folder::new("user-level");
    let none = r#"{"host": "user", "seed": 1, "members": 65, "period_ns": 30000000}"#;
    let output = sim(&["run", &folder.write("none.json", none)]);
    assert_eq!(code(&output), 2);
    let said = stderr(&output);
    assert!(said.contains("members is 65; expected 1 to 64"), "{said}");
    let output = sim(&["run", &path, "--csv"]);
    assert_eq!(code(&output), 2);
    let said = stderr(&output);
    assert!(said.contains("--csv has no effect"), "{said}");
    for args in [&["compare", "eevdf", "coop", &path][..], &["mixes", &path]] {
        let output = sim(args);
        assert_eq!(code(&output), 2, "{args:?}");
        let said = stderr(&output);
        assert!(said.contains("only `consort sim run`"), "{said}");
    }
}

#[test]
fn a_bad_scenario_is_refused_with_its_place() {
    let folder = Folder::new("bad");
    let file = folder.write(
        "bad.json",
        "{\n  \"tasks\": {\n    \"a\": { \"rnu\": 10 }\n  }\n}\n",
    );
    let output = sim(&["run", &file]);
    assert_eq!(code(&output), 2);
    let expected =
        format!("consort: {file}:3:12: tasks.a.rnu: is no known key, did you mean \"run\"?\n");
    assert_eq!(stderr(&output), expected);
    assert!(output.stdout.is_empty());
}

#[test]
fn other_mistakes_have_a_message_and_an_exit_code() {
    let folder = Folder::new("mistakes");
    let good = folder.write("small.json", SMALL);
    let missing = folder.path("none.json");
    let blocked = folder.path("small.json/report");
    for (args, expected, part) in [
        (&["run", &missing][..], 1, "cannot read the scenario"),
        (
            &["run", &good, "--as", "cfs"],
            2,
            "expected coop, fair, eevdf, rr, rc or frc",
        ),
        (
            &["run", &good, "--as", "rr,slice=1ms"],
            2,
            "expected one of quantum",
        ),
        (&["run", &good, "--kernel", "5.4"], 2, "6.18 or 7.2"),
        (&["run", &good, "--report", &blocked], 1, "cannot write"),
        (&["compare", "coop", &good], 2, "no scheduler is called"),
        (&["compare", "coop", "fair"], 2, "SCENARIO"),
        (&["explore", "--minutes", "0"], 2, "such as 3 or 0.5"),
        (&["explore", "--seeds", "0"], 2, "--seeds"),
        (&["run"], 2, "SCENARIO"),
        (&[], 2, "Usage"),
    ] {
        let output = sim(args);
        assert_eq!(code(&output), expected, "{args:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(part),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

/// Differences, what got worse, several seeds, and values for spreadsheets.
#[test]
fn a_comparison_prints_differences_and_their_spread() {
    let folder = Folder::new("differences");
    let file = folder.write("small.json", SMALL);
    let text = succeed(&["compare", "coop", "fair", &file]);
    let line = |text: &str, start: &str| {
        let found = text.lines().find(|line| line.starts_with(start));
        found
            .unwrap_or_else(|| panic!("no {start} in:\n{text}"))
            .to_owned()
    };
    assert!(
        line(&text, "all B-A").contains('!'),
        "on their own, players are later: {text}"
    );
    assert!(text.contains("!: B is worse"), "{text}");
    let same = succeed(&["compare", "coop", "coop", &file]);
    assert!(
        !same.contains('!') && line(&same, "all B-A").contains("0.000"),
        "{same}"
    );

    let several = succeed(&["compare", "coop", "fair", &file, "--seeds", "3"]);
    assert!(
        several.contains("3 seeds") && line(&several, "all A").contains("+-"),
        "{several}"
    );
    assert_eq!(
        several,
        succeed(&["compare", "coop", "fair", &file, "--seeds", "3"])
    );

    let csv = succeed(&["compare", "coop", "fair", &file, "--seeds", "3", "--csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    // Four tasks and their sum, twice, three times.
    assert_eq!(lines.len(), 1 + 5 * 2 * 3, "{csv}");
    let fields = lines[0].split(',').count();
    assert!(
        lines.iter().all(|line| line.split(',').count() == fields),
        "{csv}"
    );
    let one = succeed(&["run", &file, "--csv"]);
    assert!(
        csv.contains(one.lines().nth(1).unwrap()),
        "the first seed is the scenario's: {one}"
    );
}

#[test]
fn what_can_have_no_effect_is_noted() {
    let folder = Folder::new("idle");
    let text = r#"{
        "global": { "duration": 1 },
        "tasks": {
            "poller": { "instance": 2, "loop": -1, "run": 1000, "poll": { "due": "5ms" } },
            "locker": { "loop": 1, "lock": "a", "lock1": "a", "run": 1000, "unlock": "a" },
            "late": { "delay": 2000000, "run": 1000 }
        }
    }"#;
    let told = succeed(&["run", &folder.write("idle.json", text)]);
    for note in [
        "note: poller polls and joins no domain",
        "note: locker takes a lock that it holds already",
        "note: late begins after the end",
    ] {
        assert_eq!(told.matches(note).count(), 1, "{note}: {told}");
    }
}
