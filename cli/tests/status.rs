// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort status`, beside a daemon whose scheduler is a fake.

use std::{
    io::Read,
    process::{Command, Stdio},
};

use crate::daemon::{gettid, join, stall, Daemon};
use crate::said::{code, consort, stderr, stdout};

#[test]
fn status_tells_of_ejections_and_of_safe_mode() {
    let daemon = Daemon::start();
    let status = || stdout(&consort(&daemon.config.socket, &["status"]));
    assert!(!status().contains("ejected"));
    daemon.eject_and_await(stall("hog[77] failed to run for 30.001s"));
    let text = status();
    for part in [
        "ejected      1 time,",
        "runnable task stall: hog[77] failed to run",
        "ejections/",
        "granularity  20ms",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(!text.contains("safe mode"), "{text}");

    daemon.eject_and_await(stall("cat[78] failed to run for 30.002s"));
    let text = status();
    for part in ["in safe mode", "ejected      2 times", "cat[78]"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(!text.contains("granularity"), "{text}");
    let refused = consort(&daemon.config.socket, &["set", "granularity", "10ms"]);
    assert_eq!(code(&refused), 1);
    assert!(
        stderr(&refused).contains("safe mode"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn status_shows_counters_domains_and_programs() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);

    let output = consort(&daemon.config.socket, &["status", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let status: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(status["version"], 1);
    assert_eq!(status["counters"]["polls"], 42);
    assert_eq!(status["domains"][0]["name"], "video");
    let clients = status["clients"].as_array().unwrap();
    assert!(clients
        .iter()
        .any(|client| client["members"][0]["tid"] == gettid()));

    let shown = |args: &[&str]| stdout(&consort(&daemon.config.socket, args));
    let text = shown(&["status"]);
    for part in [
        "running, all tasks",
        "granularity  20ms",
        "1 program with 1 member thread in 1 domain\n",
        "video",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    // Counters are for those who ask, and are explained; columns are straight.
    assert!(!text.contains("polls"), "{text}");
    let counters = shown(&["status", "--counters"]);
    assert!(
        counters.contains("polls that entered the kernel"),
        "{counters}"
    );
    assert!(!text.contains('\x1b'), "no colours in a pipe: {text:?}");
    let class_line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    assert_eq!(class_line("class ").find("admits").unwrap() + 6, {
        let line = class_line("guaranteed");
        line.find("0.5000").unwrap() + 6 + 2 + 6
    });
}

/// On a terminal, which script(1) makes: coloured, and shown again at its top until interrupted.
#[test]
fn a_watched_status_is_shown_again_in_its_place() {
    const SHOWN_ANEW: &str = "\x1b[H\x1b[2J";
    let daemon = Daemon::start();
    let command = format!("{} status --watch", env!("CARGO_BIN_EXE_consort"));
    let mut watching = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("CONSORT_SOCKET", &daemon.config.socket)
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut terminal = watching.stdout.take().unwrap();
    let (mut text, mut part) = (String::new(), [0; 4096]);
    while text.matches(SHOWN_ANEW).count() < 2 {
        let length = terminal.read(&mut part).unwrap();
        assert!(length > 0, "it ended after:\n{text}");
        text += &String::from_utf8_lossy(&part[..length]);
    }
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(text.contains("running, all tasks"), "{text}");
    assert!(text.contains("\x1b[1m"), "no colours: {text:?}");
}

#[test]
fn status_tells_of_each_member_how_late_it_is_and_why_it_was_demoted() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    let row = || {
        let text = stdout(&consort(&daemon.config.socket, &["status"]));
        let tid = format!(" {} ", gettid());
        let found = text
            .lines()
            .find(|line| line.contains(&tid) && line.contains("video"));
        found
            .unwrap_or_else(|| panic!("no row in:\n{text}"))
            .to_owned()
    };
    assert!(row().contains("  -  "), "{}", row());
    daemon.host.record().tardiness = Some(consort_kernel::Tardiness {
        events: 123,
        mean_ns: 45_600,
        p99_ns: 1_200_000,
        max_ns: 3_456_000,
        demotions: 7,
        why: consort_abi::CONSORT_WHY_POLLED_LATE,
        why_late_ns: 2_500_000,
    });
    let text = row();
    for part in [
        "123",
        "45.6 us",
        "1.20 ms",
        "3.46 ms",
        "7",
        "polled 2.500 ms after its yield-by time",
    ] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}

/// The same numbers as in JSON, those that do not change between two looks.
#[test]
fn status_tells_of_each_user_what_it_holds_and_has_asked() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    assert_eq!(program.ask(&join(gettid(), 1, "video")).error, libc::EEXIST);
    let look = |args: &[&str]| stdout(&consort(&daemon.config.socket, args));
    let told: serde_json::Value = serde_json::from_str(&look(&["status", "--json"])).unwrap();
    let user = &told["users"][0];
    let text = look(&["status"]);
    let table: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with("user "))
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_ascii_whitespace().collect())
        .collect();
    let [headings, row] = &table[..] else {
        panic!("no table of one user in:\n{text}");
    };
    let shown = |heading: &str| {
        let column = headings.iter().position(|found| *found == heading);
        row[column.unwrap()].parse::<u64>().unwrap()
    };
    assert_eq!(shown("user"), user["uid"].as_u64().unwrap());
    assert_eq!(
        (shown("domains"), shown("pages"), shown("refused")),
        (1, 3, 1)
    );
    // What was asked to tell that is counted, too.
    assert!(shown("messages") > user["messages"].as_u64().unwrap());
    assert!(shown("bytes") > user["bytes"].as_u64().unwrap());
    // Of the command and of the program, whether the one that found the daemon ready is seen to have gone or not.
    assert!((4..=6).contains(&shown("descriptors")), "{text}");
    assert!(["us", "ms"].contains(row.last().unwrap()), "{text}");
}
