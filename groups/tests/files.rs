// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are right, and files that are wrong with all that is said of them: lines of these that begin with `#!`.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use consort_groups::{
    function::{Function, Stage},
    read,
    variable::Value,
    Description, FILE_BYTES_MAX, MEMBERS_MAX,
};
use consort_rates::rate::Rate;

fn folder(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name);
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

fn film() -> Description {
    let text = fs::read_to_string(&folder("right")[0]).unwrap();
    read("film.toml", "film", &text).unwrap()
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_what_would_be_valid() {
    let paths = folder("wrong");
    assert!(paths.len() > 20);
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let said = text.lines().filter_map(|line| line.strip_prefix("#! "));
        let expected: Vec<String> = said.map(|line| format!("f.toml:{line}")).collect();
        let problems = read("f.toml", "f", &text).unwrap_err().to_string();
        assert_eq!(problems, expected.join("\n"), "{}", path.display());
    }
}

#[test]
fn a_whole_file_is_understood() {
    let film = film();
    assert_eq!(film.name, "player");
    let names: Vec<&str> = film
        .groups
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["film", "stages", "screen", "server", "rest", "talk", "control"]
    );
    let whole = film.group("film").unwrap();
    assert_eq!(film.own_rate(whole), Some(Rate(300_000)));
    let stages = film.group("stages").unwrap();
    assert_eq!(film.payer(stages), Some(whole));
    let in_pipeline: Vec<Option<Stage>> =
        stages.members.iter().map(|one| one.terms.stage).collect();
    let stage = |high| Some(Stage { high, step: 1 });
    assert_eq!(in_pipeline, [stage(8), stage(2), stage(8), None]);
    let state: Vec<_> = stages.members[0].state.iter().collect();
    assert_eq!(state[1].first, Value::Boolean(false));
    assert!(stages.members[2].state.is_empty());
    assert_eq!(stages.members[2].control.len(), 1);
    assert_eq!(stages.members[2].terms.interval_ns, Some(4_000_000));
    let server = &stages.members[3];
    let follows = server.terms.follows.as_ref().unwrap();
    assert_eq!(
        (follows.whom.as_str(), follows.at_most_ns),
        ("show", 3_000_000)
    );
    let rule = server.rule.as_ref().unwrap();
    assert_eq!(rule.parent.as_deref(), Some("xinit"));
    let screen = film.group("screen").unwrap();
    assert_eq!(screen.members[0].terms.interval_ns, Some(2_000_000));
    assert_eq!(screen.members[0].state[0].first, Value::Duration(5_000_000));
    let periods = film.group("control").unwrap();
    assert_eq!(periods.members[1].count, 3);
    assert_eq!(periods.members[0].terms.budget_ns, Some(1_000_000));
    assert!(matches!(film.group("talk").unwrap().function, Function::Coop(coop) if coop.preempt));
}

#[test]
fn the_file_names_what_names_no_other() {
    let text = "[group.a]\nmembers = [\"x\"]";
    assert_eq!(read("v.toml", "video", text).unwrap().name, "video");
    let problems = read("v v.toml", "v v", text).unwrap_err().to_string();
    assert!(
        problems.starts_with("v v.toml:1: name: \"v v\" cannot"),
        "{problems}"
    );
}

/// A file of `count` members.
fn file_of(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|number| format!("\"m{number}\"")).collect();
    format!("[group.a]\nmembers = [{}]", names.join(", "))
}

#[test]
fn ten_thousand_members_are_refused_at_once() {
    let began = Instant::now();
    let problems = read("f.toml", "f", &file_of(10_000))
        .unwrap_err()
        .to_string();
    assert_eq!(
        problems,
        format!(
            "f.toml:2: group.a.members: 10000 members: expected at most {MEMBERS_MAX} in a file; one name may stand for many \
             threads, by `count`"
        )
    );
    let many = "[group.a]\nmembers = [\"x\"]\n".to_owned() + &"#".repeat(FILE_BYTES_MAX);
    let problems = read("f.toml", "f", &many).unwrap_err().to_string();
    assert!(problems.contains("expected at most 98304"), "{problems}");
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn as_many_members_as_may_be_are_read() {
    let read = read("f.toml", "f", &file_of(MEMBERS_MAX)).unwrap();
    assert_eq!(read.groups[0].members.len(), MEMBERS_MAX);
}

/// Who makes the same mistake a thousand times reads it ten times.
#[test]
fn not_all_of_many_problems_are_shown() {
    let wrong: Vec<String> = (0..100).map(|number| format!("k{number} = 1")).collect();
    let problems = read("f.toml", "f", &wrong.join("\n")).unwrap_err();
    let shown = problems.to_string();
    assert_eq!(shown.lines().count(), 11, "{shown}");
    assert!(shown.ends_with("f.toml: and 91 more"), "{shown}");
}
