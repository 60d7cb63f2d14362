// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups as a user meets them, beside a daemon whose scheduler is a fake.

use std::{fs, path::Path, process::Command};

use crate::daemon::{Daemon, Folder};
use crate::said::{code, consort, stderr, stdout};
use serde_json::Value;

const FILM: &str = "\
[group.film]
function = \"pipeline\"
class = \"guaranteed\"
rate = 0.3
period = \"33ms\"
state = { queued = 0, busy = true }
control = { wanted = 3, wait = \"2ms\" }
members = [\"read\", { name = \"show-it\", interval = \"4ms\" }]
";

/// A folder with a file.
fn file(name: &str, text: &str) -> (Folder, String) {
    let folder = Folder::new();
    let path = folder.0.join(name);
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn done(socket: &Path, args: &[&str]) -> String {
    let output = consort(socket, args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    stdout(&output)
}

#[test]
fn a_file_is_applied_shown_and_deleted() {
    let daemon = Daemon::start();
    let socket = &daemon.config.socket;
    let (_folder, path) = file("film.toml", FILM);
    let check = done(socket, &["apply", "--check", &path]);
    assert!(
        check.contains("is right: 1 group, 2 members\n+ group film: pipeline"),
        "{check}"
    );
    assert!(check.contains("\nnot looked at: whether"), "{check}");
    assert!(daemon.host.record().groups.is_empty());
    let applied = done(socket, &["apply", &path]);
    assert_eq!(
        applied,
        "+ group film: pipeline bootstrap=0\n+ member film/read\n+ member film/show-it\n"
    );
    assert_eq!(daemon.host.record().groups.len(), 1);
    assert_eq!(done(socket, &["apply", &path]), "film: nothing to change\n");
    assert_eq!(done(socket, &["apply", "--quiet", &path]), "");
    fs::write(&path, FILM.replace("0.3", "0.4")).unwrap();
    let changed = done(socket, &["apply", &path]);
    assert_eq!(
        changed,
        "~ group film rate: 0.3 of guaranteed in 33ms -> 0.4 of guaranteed in 33ms\n"
    );
    let shown = done(socket, &["show"]);
    for part in [
        "film of user",
        "film: pipeline bootstrap=0, 0.4 of guaranteed in 33.0 ms",
        "nobody runs: no thread has a member's name",
        "show-it: interval=4ms high=8 step=1, no thread yet",
    ] {
        assert!(shown.contains(part), "{part} is missing in:\n{shown}");
    }
    let json: Value = serde_json::from_str(&done(socket, &["show", "film", "--json"])).unwrap();
    assert_eq!(
        json["files"][0]["groups"][0]["members"][1]["name"],
        "show-it"
    );
    let other = consort(socket, &["show", "none"]);
    assert_eq!(code(&other), 1);
    assert!(stderr(&other).contains("no group file \"none\""));
    assert_eq!(done(socket, &["delete", "film"]), "- group film\n");
    assert_eq!(done(socket, &["show"]), "no group files\n");
    let again = consort(socket, &["delete", "film"]);
    assert_eq!(code(&again), 1);
    assert!(
        stderr(&again).contains("consort show"),
        "{}",
        stderr(&again)
    );
}

#[test]
fn a_wrong_file_is_explained_without_a_daemon() {
    let nowhere = Folder::new();
    let socket = nowhere.0.join("none.sock");
    let (_folder, path) = file(
        "film.toml",
        "[group.film]\nfunction = \"fifo\"\nmembers = [\"x\"]\nsteps = 3\n",
    );
    let output = consort(&socket, &["apply", "--check", &path]);
    assert_eq!(code(&output), 2);
    let expected = format!(
        "consort: {path}:2: group.film.function: \"fifo\" is no decision function: expected fair, coop, period, plan, \
         pipeline, follow or user:NAME\n{path}:4: group.film.steps: unknown key: expected function, parent, class, rate, period, state, \
         control or members\n"
    );
    assert_eq!(stderr(&output), expected);
    let (_folder, path) = file("film.toml", FILM);
    let right = done(&socket, &["apply", "--check", &path]);
    assert_eq!(right, format!("{path} is right: 1 group, 2 members\n"));
    // A file that says nothing of its name, and is called what none can be.
    let (_folder, path) = file("my film.toml", FILM);
    let output = consort(&socket, &["apply", "--check", &path]);
    assert!(
        stderr(&output).contains("\"my film\" cannot be the name"),
        "{}",
        stderr(&output)
    );
    done(&socket, &["apply", "--check", "--name", "film", &path]);
    let output = consort(&socket, &["apply", "/nonexistent/film.toml"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("cannot read /nonexistent"));
    let output = consort(&socket, &["apply", &path, "--name", "film"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
}

/// However many members, the answer is quick and says the number.
#[test]
fn ten_thousand_members_are_refused() {
    let names: Vec<String> = (0..10_000).map(|number| format!("\"m{number}\"")).collect();
    let (_folder, path) = file(
        "many.toml",
        &format!("[group.a]\nmembers = [{}]", names.join(", ")),
    );
    let daemon = Daemon::start();
    let output = consort(&daemon.config.socket, &["apply", &path]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("10000 members: expected at most 2048"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn plans_are_loaded_and_moved() {
    let daemon = Daemon::start();
    let socket = &daemon.config.socket;
    let (_folder, path) = file("film.toml", FILM);
    done(socket, &["apply", &path]);
    let (_frames, frames) = file("frames.csv", "delay_ms,length_ms\n0\n33.4\n33.3,6.5\n");
    let loaded = done(
        socket,
        &[
            "plan", "load", &frames, "--member", "show-it", "--repeat", "100ms",
        ],
    );
    assert!(
        loaded.contains("show-it has a plan of 3 frames, 73200us"),
        "{loaded}"
    );
    {
        let record = daemon.host.record();
        let (intervals, repeat_ns) = &record.groups.values().next().unwrap().plans[&1];
        let times: Vec<(u64, u64)> = intervals
            .iter()
            .map(|one| (one.start_ns, one.end_ns))
            .collect();
        let expected = [
            (0, 4_000_000),
            (33_400_000, 37_400_000),
            (66_700_000, 73_200_000),
        ];
        assert_eq!((&times[..], *repeat_ns), (&expected[..], 100_000_000));
    }
    for args in [
        &["plan", "trigger", "show-it"][..],
        &["plan", "pause", "read"],
        &["plan", "seek", "read", "2s"],
        &["plan", "resume", "show-it"],
        &["plan", "unload", "show-it"],
    ] {
        assert_eq!(done(socket, args), "", "{args:?}");
    }
    let (_frames, close) = file("close.csv", "0,20\n20,20\n");
    let refused = consort(socket, &["plan", "load", &close, "--member", "show-it"]);
    assert!(
        stderr(&refused).contains("frame 1 needs 20ms of 33ms, and the rate has 9900us")
            || stderr(&refused)
                .contains("frames 1 to 2 need 33ms of 33ms, and the rate has 9900us"),
        "{}",
        stderr(&refused)
    );
    done(
        socket,
        &[
            "plan", "load", &close, "--member", "show-it", "--anyway", "--quiet",
        ],
    );
    let early = [
        "plan", "load", &frames, "--member", "show-it", "--anyway", "--repeat", "1ms",
    ];
    let refused = consort(socket, &early);
    assert!(
        stderr(&refused).contains("anew after 1ms, before its end: expected "),
        "{}",
        stderr(&refused)
    );
    let nowhere = socket.with_extension("none");
    let right = done(&nowhere, &["plan", "load", &frames, "--check"]);
    assert!(right.contains("is right: 3 frames"), "{right}");
    let (_frames, wrong) = file("wrong.csv", "soon\n");
    let output = consort(&nowhere, &["plan", "load", &wrong, "--check"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("wrong.csv:1: delay_ms: \"soon\""));
}

/// Whole programs of such accessors are in client/tests; here each has what the file says.
#[test]
fn accessors_have_names_and_types_of_the_file() {
    let socket = Path::new("/nonexistent");
    let (_folder, path) = file("film.toml", FILM);
    for (language, parts) in [
        (
            "c",
            &[
                "#ifndef FILM_GROUPS_H",
                "film_show_it_announce(struct consort_member **member)",
                "consort_announce(\"show-it\", member)",
                "film_read_set_queued(struct consort_member *member, int64_t value)",
                "film_read_set_busy(struct consort_member *member, bool value)",
                "uint64_t film_read_get_wait_ns(struct consort_member *member)",
                "return 2000000;",
            ][..],
        ),
        (
            "rust",
            &[
                "pub struct ShowIt(consort::Announced)",
                "announced.set_state(1, 1)?",
                "fn set_busy(&self, value: bool)",
                "fn wait_ns(&self) -> Result<u64, consort::Error>",
            ],
        ),
        (
            "python",
            &[
                "class ShowIt(libconsort.Announced)",
                "def set_busy(self, value)",
                "self.control(1)",
            ],
        ),
    ] {
        let text = done(socket, &["accessors", &path, "--language", language]);
        for part in parts {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }
}

/// Standard input is a file as well.
#[test]
fn a_file_may_come_from_a_pipe() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_consort"))
        .args(["apply", "--check", "-"])
        .env("CONSORT_SOCKET", "/nonexistent")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), FILM.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        stdout(&output).contains("standard input is right"),
        "{}",
        stdout(&output)
    );
}
