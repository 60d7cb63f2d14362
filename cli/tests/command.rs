// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command as a user meets it, beside a daemon whose scheduler is a fake.

use std::{
    fs,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use crate::daemon::{Daemon, Folder};
use crate::said::{code, consort, stderr, stdout};
use consort_daemon::lock::Lock;
use nix::sys::socket::{
    self, accept, bind, socket, AddressFamily, Backlog, SockFlag, SockType, UnixAddr,
};

#[test]
fn without_a_daemon_each_command_says_how_to_start_one() {
    let folder = Folder::new();
    let socket = folder.0.join("none.sock");
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["set", "granularity", "10ms"],
        &["run", "--", "true"],
        &[
            "run",
            "--class",
            "guaranteed",
            "--rate",
            "0.3",
            "--",
            "true",
        ],
        &[
            "run",
            "--class",
            "guaranteed",
            "--rate",
            "0.3",
            "--domain",
            "films",
            "--",
            "true",
        ],
        &["reserve", "4711", "--class", "guaranteed", "--rate", "0.3"],
        &["release", "4711"],
        &["keep"],
        &["lend", "1", "2", "0.1"],
        &["recollect", "1", "2"],
        &["usage"],
        &["class", "list"],
        &["demo", "--host", "kernel"],
    ] {
        let output = consort(&socket, args);
        assert_eq!(code(&output), 3, "{args:?}");
        assert!(
            stderr(&output).contains("consort serve"),
            "{args:?}: {}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty());
    }
}

/// Whoever waits is told, and why that may be.
#[test]
fn a_daemon_that_does_not_answer_is_waited_for_aloud() {
    let folder = Folder::new();
    let path = folder.0.join("slow.sock");
    let listener = listen(&path);
    let slow = thread::spawn(move || {
        let connection = accept(listener.as_raw_fd()).unwrap();
        // SAFETY: nobody else has it.
        let connection = unsafe { OwnedFd::from_raw_fd(connection) };
        thread::sleep(Duration::from_secs(2));
        drop(connection);
    });
    let output = consort(&path, &["status"]);
    slow.join().unwrap();
    assert_ne!(code(&output), 0);
    let said = stderr(&output);
    let first = said.lines().next().unwrap_or_default();
    assert!(
        first.contains("did not answer within 1 s") && first.contains("waiting for 9 s more"),
        "{said}"
    );
}

fn listen(path: &Path) -> OwnedFd {
    let (kind, flags) = (SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
    let listener = socket(AddressFamily::Unix, kind, flags, None).unwrap();
    bind(listener.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    socket::listen(&listener, Backlog::new(1).unwrap()).unwrap();
    listener
}

#[test]
fn without_a_daemon_run_says_how_a_domain_cooperates_all_the_same() {
    let folder = Folder::new();
    let args = ["run", "--domain", "films", "--", "true"];
    let output = consort(&folder.0.join("none.sock"), &args);
    assert_eq!(code(&output), 3);
    let text = stderr(&output);
    assert!(text.contains("CONSORT_DOMAIN=films"), "{text}");
}

#[test]
fn a_wrong_command_line_is_explained() {
    let folder = Folder::new();
    let socket = folder.0.join("none.sock");
    for (args, part) in [
        (&["serve", "--granularity", "10"][..], "10ms"),
        (&["set", "granularity", "ten"], "unknown unit"),
        (&["set", "slice", "10ms"], "min-slice"),
        (&["run"], "COMMAND"),
        (&["run", "--domain", "two words", "--", "true"], "no spaces"),
        (&["frobnicate"], "frobnicate"),
        (&["demo", "--players", "1"], "2 to 64"),
        (&["demo", "--seconds", "4"], "5 to 600"),
        (
            &["reserve", "4711", "--class", "a", "--rate", "much"],
            "auto:LEAST-MOST",
        ),
        (&["reserve", "4711", "--class", "a"], "--rate"),
        (
            &["reserve", "0", "--class", "a", "--rate", "0.1"],
            "this command",
        ),
        (
            &["reserve", "1", "--class", "a", "--rate", "10%"],
            "starts everything else",
        ),
        (&["lend", "1", "x", "0.2"], "its number, such as 4711"),
        (&["lend", "1", "2", "much"], "0.0001 to 1"),
        (&["serve", "--restarts", "few"], "whole number"),
        (&["serve", "--restarts", "-1"], "whole number"),
        (&["sim", "run", "x.json", "--seed", "a"], "whole number"),
        (
            &[
                "reserve", "4711", "--class", "a", "--rate", "0.1", "--period", "3",
            ],
            "no unit",
        ),
        (&["run", "--rate", "0.3", "--", "true"], "--class"),
        (&["run", "--period", "33ms", "--", "true"], "--class"),
        (&["lend", "1", "2"], "RATE"),
    ] {
        let output = consort(&socket, args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(part),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn late_looks_on_at_a_process_that_there_is_and_for_some_time() {
    let folder = Folder::new();
    let socket = folder.0.join("none.sock");
    // Beyond the greatest number that the kernel gives.
    let nobody = "99999999";
    for (args, exit, part) in [
        (&["late", nobody][..], 1, "there is no process 99999999"),
        (&["late", "--for", "0s"], 2, "0s is no time"),
    ] {
        let output = consort(&socket, args);
        assert_eq!(code(&output), exit, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    let daemon = Daemon::start();
    let output = Command::new(env!("CARGO_BIN_EXE_consort"))
        .arg("status")
        .env("CONSORT_SOCKET", &daemon.config.socket)
        .stdout(closed_pipe())
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn errors_that_nobody_reads_keep_their_exit_code() {
    let folder = Folder::new();
    let status = Command::new(env!("CARGO_BIN_EXE_consort"))
        .arg("status")
        .env("CONSORT_SOCKET", folder.0.join("none.sock"))
        .stderr(closed_pipe())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
}

/// The writing end of a pipe that nobody reads.
fn closed_pipe() -> std::process::Stdio {
    let (reader, writer) = nix::unistd::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn set_says_what_holds_and_refuses_what_is_out_of_range() {
    let daemon = Daemon::start();
    let output = consort(&daemon.config.socket, &["set", "min-slice", "200us"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.starts_with("min-slice 200us, it was 500us: shorter turns"),
        "{text}"
    );
    let output = consort(&daemon.config.socket, &["set", "granularity", "30ms"]);
    assert!(
        stdout(&output).contains("it was 20ms: longer turns"),
        "{}",
        stdout(&output)
    );
    let output = consort(&daemon.config.socket, &["set", "granularity", "20ms"]);
    assert_eq!(code(&output), 0);
    assert_eq!(daemon.host.record().tunables.min_slice_ns, 200_000);
    let output = consort(&daemon.config.socket, &["set", "granularity", "2s"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("100us to 1s"),
        "{}",
        stderr(&output)
    );
    assert_eq!(daemon.host.record().tunables.granularity_ns, 20_000_000);
}

#[test]
fn what_keep_replaces_stays_beside_it() {
    let (daemon, folder) = (Daemon::start(), Folder::new());
    let file = folder.0.join("classes.toml");
    let (path, aside) = (file.to_str().unwrap(), folder.0.join("classes.toml.bak"));
    let written = "# ours\n[class.guaranteed]\ncapacity = \"50%\"\n";
    fs::write(&file, written).unwrap();
    let keep = || stdout(&consort(&daemon.config.socket, &["keep", path]));
    let text = keep();
    assert!(text.contains("classes.toml.bak"), "{text}");
    assert_eq!(fs::read_to_string(&aside).unwrap(), written);
    // Nothing has changed meanwhile: the old one is still worth more.
    let text = keep();
    assert!(!text.contains(".bak"), "{text}");
    assert_eq!(fs::read_to_string(&aside).unwrap(), written);
}

#[test]
fn run_becomes_the_command_in_the_domain_or_says_that_the_kernel_cannot() {
    let daemon = Daemon::start();
    let args = [
        "run",
        "--domain",
        "video",
        "--",
        "sh",
        "-c",
        "echo $CONSORT_DOMAIN; exit 42",
    ];
    let output = consort(&daemon.config.socket, &args);
    // The fake scheduler is everywhere, the real policy only in kernels with sched_ext.
    match Path::new("/sys/kernel/sched_ext").exists() {
        true => {
            assert_eq!(code(&output), 42, "{}", stderr(&output));
            assert_eq!(stdout(&output), "video\n");
        }
        false => {
            assert_eq!(code(&output), 5, "{}", stderr(&output));
            assert!(stderr(&output).contains("sched_ext"), "{}", stderr(&output));
        }
    }
}

#[test]
fn a_second_daemon_does_not_start() {
    let folder = Folder::new();
    let socket = folder.0.join("consort.sock");
    let _lock = Lock::take(&socket).unwrap();
    let output = consort(&socket, &["serve"]);
    assert_eq!(code(&output), 6, "{}", stderr(&output));
    let pid = std::process::id().to_string();
    assert!(stderr(&output).contains(&pid), "{}", stderr(&output));
}

#[test]
fn a_kernel_that_cannot_is_told_from_other_failures() {
    if Path::new("/sys/kernel/sched_ext").exists() {
        return; // The guests' tests load it there.
    }
    let folder = Folder::new();
    let output = consort(&folder.0.join("consort.sock"), &["serve"]);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    for part in ["CONFIG_SCHED_CLASS_EXT", "6.18"] {
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}

#[test]
fn help_teaches_with_examples_and_exit_codes() {
    let folder = Folder::new();
    let socket = folder.0.join("none.sock");
    for (args, part) in [
        (&["--help"][..], "sudo consort serve --partial"),
        (&["--help"], "Exit codes"),
        (&["serve", "--help"], "--granularity 2ms"),
        (&["status", "--help"], "jq .counters.polls"),
        (&["set", "--help"], "100us to 1s"),
        (&["run", "--help"], "--domain video"),
    ] {
        let output = consort(&socket, args);
        assert_eq!(code(&output), 0);
        assert!(stdout(&output).contains(part), "{args:?} lacks {part}");
    }
}

#[test]
fn the_man_pages_in_the_repository_are_those_of_this_command() {
    let folder = Folder::new();
    let output = consort(
        &folder.0.join("none.sock"),
        &["man", folder.0.to_str().unwrap()],
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/man");
    let mut pages = 0;
    for entry in fs::read_dir(&folder.0).unwrap() {
        let entry = entry.unwrap();
        let old = fs::read(kept.join(entry.file_name())).unwrap_or_default();
        let name = entry.file_name();
        assert!(
            old == fs::read(entry.path()).unwrap(),
            "{} is out of date: run `cargo run -p consort -- man docs/man`",
            name.display()
        );
        pages += 1;
    }
    let kept_pages = fs::read_dir(&kept).unwrap().count();
    assert_eq!(pages, kept_pages, "no page of a command that is no more");
}

/// A process with a reservation of its own, and what the commands say about it.
#[test]
fn rates_are_reserved_lent_shown_and_released() {
    let daemon = Daemon::start();
    let socket = &daemon.config.socket;
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    let (own, other) = (std::process::id().to_string(), child.id().to_string());
    let said = |args: &[&str]| consort(socket, args);
    let done = |args: &[&str]| {
        let output = said(args);
        assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(done(&["usage"]), "no reservations\n");
    let text = done(&[
        "reserve",
        &own,
        "--class",
        "guaranteed",
        "--rate",
        "30%",
        "--period",
        "33ms",
    ]);
    assert!(
        text.contains("has reserved 0.3 of a CPU in guaranteed; while all of the class want theirs it gets 0.5"),
        "{text}"
    );
    let text = done(&["lend", &own, &other, "10%"]);
    assert!(
        text.contains("has 0.2 now") && text.contains("(sleep) has 0.1 now"),
        "{text}"
    );
    let usage: serde_json::Value = serde_json::from_str(&done(&["usage", "--json"])).unwrap();
    let list = usage["reservations"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]["lent"][0]["rate"]), (2, &0.1.into()));
    assert_eq!(
        (&list[1]["asked"], &list[1]["held"][0]["rate"]),
        (&0.0.into(), &0.1.into())
    );
    let table = done(&["usage"]);
    assert!(
        table.contains("guaranteed") && table.contains("33ms"),
        "{table}"
    );
    let text = done(&["recollect", &own, &other]);
    assert!(
        text.starts_with("all is back: ") && text.contains("has 0.3 now"),
        "{text}"
    );
    let text = done(&[
        "reserve",
        &own,
        "--class",
        "adaptive",
        "--rate",
        "auto:0.1-0.2",
    ]);
    assert!(
        text.contains("0.1 now, and 0.1 to 0.2 as it needs"),
        "{text}"
    );
    let usage: serde_json::Value = serde_json::from_str(&done(&["usage", "--json"])).unwrap();
    assert_eq!(
        usage["reservations"][0]["auto"],
        serde_json::json!([0.1, 0.2])
    );
    let classes = done(&["class", "set", "batch", "5%", "--overbooking", "unlimited"]);
    assert!(
        classes.contains("batch") && classes.contains("0.2000"),
        "{classes}"
    );
    done(&["class", "remove", "batch"]);
    for (args, exit_code, part) in [
        (
            &["reserve", &own, "--class", "gold", "--rate", "0.1"][..],
            1,
            "gold",
        ),
        (
            &["reserve", &own, "--class", "adaptive", "--rate", "2"],
            2,
            "out of range",
        ),
        (
            &["reserve", &own, "--class", "adaptive", "--rate", "0.9"],
            1,
            "0.425 are left",
        ),
        (&["lend", &own, &own, "0.01"], 1, "itself"),
        (&["release", &other], 1, "no reservation"),
        (&["recollect", &own, &other], 1, "nothing is lent to"),
        (
            &["class", "set", "adaptive", "half"],
            2,
            "expected a number of CPUs",
        ),
        (&["class", "remove", "adaptive"], 1, "release 0.1 first"),
    ] {
        let output = said(args);
        assert_eq!(code(&output), exit_code, "{args:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(part),
            "{args:?}: {}",
            stderr(&output)
        );
    }
    assert_eq!(done(&["release", &own, "--quiet"]), "");
    assert_eq!(done(&["usage"]), "no reservations\n");
    let output = said(&[
        "run",
        "--class",
        "guaranteed",
        "--rate",
        "0.6",
        "--",
        "true",
    ]);
    assert!([1, 5].contains(&code(&output)), "{}", stderr(&output));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_class_has_the_order_that_it_was_set_to() {
    let daemon = Daemon::start();
    let said = |args: &[&str]| consort(&daemon.config.socket, args);
    let order = |class: &str| {
        let division: serde_json::Value =
            serde_json::from_str(&stdout(&said(&["class", "list", "--json"]))).unwrap();
        let classes = division["classes"].as_array().unwrap();
        let found = classes.iter().find(|it| it["name"] == class).unwrap();
        found["order"].clone()
    };
    let set = |order: &[&str]| said(&[&["class", "set", "study", "5%"], order].concat());
    assert_eq!(code(&set(&[])), 0);
    assert_eq!(order("study"), "period");
    assert_eq!(code(&set(&["--order", "frc"])), 0);
    assert_eq!(
        (order("study"), order("adaptive")),
        ("frc".into(), "period".into())
    );
    let output = set(&["--order", "fifo"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("possible values: period"),
        "{}",
        stderr(&output)
    );
    assert_eq!(order("study"), "frc");
}
