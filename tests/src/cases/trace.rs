// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort trace` has what a program did, said and waited for, in order and on one clock, under whatever scheduler.

use std::{fs, path::Path, thread};

use serde_json::Value;

use crate::{
    cases::groups::{apply, await_bound, bound, file, members},
    check,
    suite::{
        consort::{consort, consort_as},
        process::{wait_until, Role, ALICE, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test::on_one("trace.consort", Needs::SteadyDaemon, scheduled),
    Test::on_one("trace.stock_scheduler", Needs::NoDaemon, stock),
    Test {
        name: "trace.intervals",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: intervals,
    },
];

const FILE: &str = "/tmp/told.trace";
const ROUNDS: usize = 10;

/// A line of the CSV that is about the teller: kind, the thread, the other one, left, reason, label, value.
struct Line {
    kind: String,
    tid: i32,
    other: i32,
    left: String,
    reason: String,
    label: String,
    value: i64,
}

/// Records the teller; its thread, and all lines, in order.
fn record(kind: &str) -> Result<(i32, Vec<Line>), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = program.to_string_lossy();
    let rounds = ROUNDS.to_string();
    let words = [
        "trace", "record", "-o", FILE, "--", &program, "role", "teller", kind, &rounds,
    ];
    consort(&words)?.expect(0, &[" 0 lost"])?;
    let table = Path::new("/tmp/told.csv");
    let words = ["trace", "export", "--csv", FILE, "-o", "/tmp/told.csv"];
    consort(&words)?.expect(0, &[])?;
    let text = fs::read_to_string(table).map_err(|error| error.to_string())?;
    let lines: Vec<Line> = text.lines().skip(1).filter_map(line).collect();
    let told = lines.iter().find(|line| line.label == "test/begin");
    let tid = told.ok_or("the teller's events are not in the trace")?.tid;
    Ok((tid, lines))
}

fn line(text: &str) -> Option<Line> {
    let fields: Vec<&str> = text.split(',').collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse().ok());
    let text = |index: usize| fields.get(index).map(|field| (*field).to_owned());
    Some(Line {
        kind: text(1)?,
        tid: number(3)? as i32,
        other: number(6).unwrap_or_default() as i32,
        left: text(7)?,
        reason: text(8)?,
        label: text(9)?,
        value: number(10)?,
    })
}

/// What the trace says of a thread, in a word each: what it said, that it slept, woke, and got the CPU.
fn story(tid: i32, lines: &[Line]) -> Vec<String> {
    let word = |line: &Line| match line.kind.as_str() {
        "event" if line.tid == tid => Some(format!("{} {}", line.label, line.value)),
        "wake" if line.tid == tid => Some("wakes".to_owned()),
        "switch" if line.other == tid && line.left == "slept" => Some("sleeps".to_owned()),
        "switch" if line.tid == tid => Some("runs".to_owned()),
        _ => None,
    };
    lines.iter().filter_map(word).collect()
}

/// Each round: it says that it begins, sleeps, wakes, runs, and says that it ends. Whatever else runs may have the CPU in
/// between.
fn check_story(tid: i32, lines: &[Line]) -> Outcome {
    let story = story(tid, lines);
    for round in 0..ROUNDS {
        let expected = [
            format!("test/begin {round}"),
            "sleeps".to_owned(),
            "wakes".to_owned(),
            "runs".to_owned(),
            format!("test/end {round}"),
        ];
        let begin = story.iter().position(|word| *word == expected[0]);
        let end = story.iter().position(|word| *word == expected[4]);
        let (Some(begin), Some(end)) = (begin, end) else {
            return Err(format!("round {round} is not whole: {story:?}"));
        };
        let mut words = story[begin..=end].iter();
        check!(
            begin < end && expected.iter().all(|word| words.any(|told| told == word)),
            "round {round} is {:?}",
            &story[begin..=end]
        );
    }
    Ok(())
}

fn report() -> Result<Value, String> {
    let said = consort(&["trace", "report", "--json", FILE])?;
    said.expect(0, &[])?;
    serde_json::from_str(&said.out).map_err(|error| error.to_string())
}

/// Of a thread's report, by its number.
fn of_thread(report: &Value, tid: i32) -> Result<&Value, String> {
    let threads = report["threads"].as_array().ok_or("no threads")?;
    let found = threads.iter().find(|it| it["tid"] == tid);
    found.ok_or_else(|| format!("thread {tid} is not in the report"))
}

fn is_blamed(thread: &Value, role: &Role, why: &str) -> bool {
    let blame = thread["blame"].as_array().map_or(&[][..], Vec::as_slice);
    blame
        .iter()
        .any(|it| it["tid"] == role.pid() && it["why"] == why)
}

fn stock() -> Outcome {
    let hog = Role::ready("hog")?;
    let (tid, lines) = record("plain")?;
    check_story(tid, &lines)?;
    let report = report()?;
    let teller = of_thread(&report, tid)?;
    check!(
        is_blamed(teller, &hog, "stock slice"),
        "thread {} had the CPU, and blamed are {}",
        hog.pid(),
        teller["blame"]
    );
    // A caller that looks at the machine is root; one that looks at a program of its own need not be.
    consort_as(
        ALICE,
        &["trace", "record", "-o", "/tmp/alice.trace", "--for", "10ms"],
    )?
    .expect(4, &["root"])?;
    consort_as(
        ALICE,
        &["trace", "record", "-o", "/tmp/alice.trace", "--", "true"],
    )?
    .expect(4, &["root", "--only event,due"])?;
    let own = [
        "trace",
        "record",
        "-o",
        "/tmp/alice.trace",
        "--only",
        "event",
        "--",
        "false",
    ];
    consort_as(ALICE, &own)?.expect(1, &["0 lost"])
}

fn scheduled() -> Outcome {
    let hog = Role::ready("hog")?;
    let (tid, lines) = record("member")?;
    check_story(tid, &lines)?;
    let any = |kind: &str, reason: &str| {
        lines
            .iter()
            .any(|it| it.tid == tid && it.kind == kind && it.reason == reason)
    };
    check!(
        any("switch", "due event") || any("switch", "borrowed"),
        "no choice of its due events"
    );
    check!(
        any("demote", "slept outside of poll"),
        "it slept outside of poll, and that is not told"
    );
    let report = report()?;
    let teller = of_thread(&report, tid)?;
    check!(
        teller["tardiness_ns"]["count"].as_u64() >= Some(ROUNDS as u64 - 1)
            && teller["why"] == "slept outside of poll",
        "of the teller it says {teller}"
    );
    let ran = of_thread(&report, hog.pid() as i32)?;
    check!(
        ran["ran_ns"].as_u64() > Some(1_000_000),
        "of the hog it says {ran}"
    );
    Ok(())
}

/// A group's member that runs in its intervals, and one whose thread never comes: the trace has each interval, and for each
/// that was missed why, as `consort show` counts them.
fn intervals() -> Outcome {
    const FRAMES: u64 = 50;
    let _hog = Role::ready("hog")?;
    let show = Role::ready_as(ALICE, "named show")?;
    let text =
        "[group.film]\nfunction = \"plan\"\nmembers = [{ name = \"show\", interval = \"4ms\" }, \
                { name = \"never\", interval = \"4ms\" }]\nstate = { work = 0 }";
    let _applied = apply(ALICE, "film", text)?;
    await_bound("show", &show)?;
    let frames = format!("delay_ms\n{}", "20\n".repeat(FRAMES as usize));
    let frames = file("frames.csv", &frames)?;
    let done = |words: &[&str]| consort_as(ALICE, words)?.expect(0, &[]);
    for member in ["show", "never"] {
        done(&["plan", "load", &frames, "--member", member])?;
    }
    // What the plans do before recording begins is no part of it; the file is made when it has begun.
    let _ = fs::remove_file(FILE);
    let recorder = thread::spawn(|| consort(&["trace", "record", "-o", FILE, "--for", "5s"]));
    wait_until(PATIENCE, "recording to begin", || {
        Ok(Path::new(FILE).exists())
    })?;
    done(&["plan", "trigger", "show"])?;
    let said = recorder.join().map_err(|_| "the recorder broke")??;
    said.expect(0, &[" 0 lost"])?;
    let report = report()?;
    let found = |member: &str| {
        let mut all = report["intervals"].as_array().into_iter().flatten();
        let it = all.find(|it| it["group"] == "film" && it["member"] == member);
        it.ok_or_else(|| format!("{member} is not in {}", report["intervals"]))
    };
    let (shown, never) = (found("show")?, found("never")?);
    let counted = bound("show")?.into_iter().next().unwrap_or_default();
    let counted = &counted["role"];
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let causes = ["vacant", "asleep", "outside", "share", "others"];
    let missed: u64 = causes
        .iter()
        .map(|why| number(&shown["missed"][*why]))
        .sum();
    check!(
        number(&shown["kept"]) == number(&counted["kept"])
            && causes
                .iter()
                .all(|why| number(&shown["missed"][*why]) == number(&counted["missed"][*why])),
        "the trace has {shown}, and counted are {counted}"
    );
    check!(
        number(&shown["kept"]) + missed == FRAMES && number(&shown["kept"]) > FRAMES / 2,
        "of {FRAMES} intervals the trace has {shown}"
    );
    check!(
        number(&shown["late_ns"]["count"]) == number(&shown["kept"]) && shown["tid"] == show.pid(),
        "those that are kept have begun, but the trace has {shown}"
    );
    check!(
        number(&never["missed"]["vacant"]) == FRAMES && number(&never["kept"]) == 0,
        "nobody was there, and the trace has {never}"
    );
    let member = members("never")?.into_iter().next().unwrap_or_default();
    check!(
        member["missed_vacant"] == FRAMES,
        "nobody was there, and it is shown as {member}"
    );
    done(&["plan", "unload", "show"])?;
    done(&["plan", "unload", "never"])
}
