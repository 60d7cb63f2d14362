// SPDX-License-Identifier: MIT OR Apache-2.0
//! The status for a person.

use std::{collections::HashMap, fmt::Write as _, time::SystemTime};

use consort_kernel::format_ns;
use serde_json::Value;

use super::word;
use crate::{
    class,
    table::{count, short_time, Paint, Side, Table},
};

/// What each counter counts.
const COUNTERS: [(&str, &str); 18] = [
    ("switches", "another task was chosen"),
    ("kept", "the running task was compared and went on"),
    ("wakeups", "tasks that became runnable"),
    (
        "preemptions",
        "running tasks that lost the CPU to one that woke",
    ),
    ("polls", "polls that entered the kernel without sleeping"),
    ("sleeps", "polls that slept until their due time"),
    (
        "due_choices",
        "choices made because a due event had expired",
    ),
    ("overruns", "members demoted: polled too late"),
    ("blocks", "members demoted: slept outside of poll"),
    ("restorations", "demoted members that polled in time"),
    ("timers", "one-shot timers that fired"),
    (
        "timer_failures",
        "one-shot timers that could not be started",
    ),
    ("refused_due", "due times that were out of range"),
    ("steals", "tasks taken over from another run queue"),
    (
        "lost",
        "tasks that were chosen, and gone before they could run",
    ),
    ("ends", "members whose thread ended without leaving"),
    (
        "shared_cgroups",
        "cgroups without room for a queue of their own",
    ),
    (
        "held",
        "tasks that the limit of a cgroup kept from running for a time",
    ),
];

pub fn describe(status: &Value, counters: bool, paint: Paint) -> String {
    let mut out = String::new();
    let scheduler = &status["scheduler"];
    let whom = match scheduler["partial"].as_bool() {
        Some(true) => "tasks that opted in",
        _ => "all tasks",
    };
    // Writing into a String cannot fail.
    let _ = writeln!(
        out,
        "scheduler    {}, {whom}, kernel {}",
        word(&scheduler["state"]),
        word(&scheduler["kernel"])
    );
    let is_safe = scheduler["mode"] == "safe";
    if is_safe {
        let text = "in safe mode: fair shares, no domains, no reservations; restart the daemon to leave it";
        let _ = writeln!(out, "             {}", paint.bad(text));
    }
    describe_ejections(&mut out, &status["ejections"], paint);
    let daemon = &status["daemon"];
    let _ = writeln!(
        out,
        "daemon       consort {}, process {}, up {}",
        word(&daemon["version"]),
        daemon["pid"],
        format_s(daemon["uptime_s"].as_u64().unwrap_or_default())
    );
    if is_safe {
        return out;
    }
    for (name, title) in [
        ("granularity_ns", "granularity"),
        ("min_slice_ns", "min-slice"),
        ("window_ns", "window"),
    ] {
        let value = status["tunables"][name].as_u64().unwrap_or_default();
        let _ = writeln!(out, "{title:<12} {}", format_ns(value));
    }
    let programs = programs(&status["clients"]);
    let number = |field: &str| daemon[field].as_u64().unwrap_or_default();
    let _ = writeln!(
        out,
        "programs     {} with {} in {}",
        count(number("clients"), "program"),
        count(number("members"), "member thread"),
        count(number("domains"), "domain")
    );
    let _ = write!(out, "\n{}", class::describe(&status["division"], paint));
    if counters {
        describe_counters(&mut out, &status["counters"], paint);
    }
    describe_domains(&mut out, &status["domains"], paint);
    describe_members(&mut out, &programs, &status["domains"], paint);
    describe_users(&mut out, &status["users"], paint);
    out
}

fn format_s(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// What the kernel threw out since the daemon started, if it did.
fn describe_ejections(out: &mut String, ejections: &Value, paint: Paint) {
    let last = &ejections["last"];
    if last.is_null() {
        return;
    }
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_s = since_1970.map_or(0, |since| since.as_secs());
    let ago_s = now_s.saturating_sub(last["at_s"].as_u64().unwrap_or_default());
    let text = format!(
        "ejected      {}, last {} ago: {}: {}",
        count(ejections["count"].as_u64().unwrap_or_default(), "time"),
        format_s(ago_s),
        word(&last["reason"]),
        word(&last["message"])
    );
    let _ = writeln!(out, "{}", paint.bad(&text));
    if let Some(dump) = last["dump"].as_str() {
        let _ = writeln!(out, "             the kernel's dump is in {dump}");
    }
}

fn describe_counters(out: &mut String, counters: &Value, paint: Paint) {
    let mut table = Table::new(&[
        ("counter", Side::Left),
        ("since loaded", Side::Right),
        ("counts", Side::Left),
    ]);
    for (name, value) in counters.as_object().into_iter().flatten() {
        let meaning = COUNTERS.iter().find(|(known, _)| known == name);
        let meaning = meaning.map_or("", |(_, meaning)| *meaning);
        table.row(vec![name.clone(), value.to_string(), meaning.to_owned()]);
    }
    push(out, &table, paint);
}

fn describe_domains(out: &mut String, domains: &Value, paint: Paint) {
    let mut table = Table::new(&[
        ("domain", Side::Left),
        ("uid", Side::Right),
        ("order", Side::Left),
        ("event", Side::Right),
        ("members", Side::Right),
    ]);
    for domain in domains.as_array().into_iter().flatten() {
        let members = domain["members"].as_array().map_or(0, Vec::len);
        let event = match domain["event_ns"].as_u64().unwrap_or_default() {
            0 => "any".to_owned(),
            event_ns => format_ns(event_ns),
        };
        table.row(vec![
            name_of(domain),
            domain["uid"].to_string(),
            word(&domain["order"]).to_owned(),
            event,
            members.to_string(),
        ]);
    }
    push(out, &table, paint);
}

fn name_of(domain: &Value) -> String {
    domain["name"].as_str().unwrap_or("(private)").to_owned()
}

/// Those that have said hello; who only asks for the status has not.
fn programs(clients: &Value) -> Vec<&Value> {
    let all = clients.as_array().into_iter().flatten();
    all.filter(|client| !client["client"].is_null()).collect()
}

/// One line for each member, and for a program without one.
fn describe_members(out: &mut String, programs: &[&Value], domains: &Value, paint: Paint) {
    let mut table = Table::new(&[
        ("program", Side::Left),
        ("pid", Side::Right),
        ("uid", Side::Right),
        ("thread", Side::Right),
        ("domain", Side::Left),
        ("CPU time", Side::Right),
        ("events", Side::Right),
        ("late mean", Side::Right),
        ("p99", Side::Right),
        ("max", Side::Right),
        ("demoted", Side::Right),
        ("why last", Side::Left),
    ]);
    let domains = domains.as_array().into_iter().flatten();
    let names: HashMap<String, String> = domains
        .map(|domain| (domain["id"].to_string(), name_of(domain)))
        .collect();
    for program in programs {
        let begin = || {
            vec![
                word(&program["command"]).to_owned(),
                program["pid"].to_string(),
                program["uid"].to_string(),
            ]
        };
        let members = program["members"]
            .as_array()
            .filter(|list| !list.is_empty());
        let Some(members) = members else {
            let dashes = std::iter::repeat_n("-".to_owned(), 8);
            let rest = dashes.chain([String::new()]);
            table.row(begin().into_iter().chain(rest).collect());
            continue;
        };
        for member in members {
            let mut row = begin();
            row.push(member["tid"].to_string());
            let domain = names.get(&member["domain"].to_string());
            row.push(domain.cloned().unwrap_or_default());
            row.push(time(&member["used_ns"]));
            row.extend(tardiness(&member["tardiness"]));
            row.push(member["why"].as_str().unwrap_or_default().to_owned());
            table.row(row);
        }
    }
    push(out, &table, paint);
    if !table.is_empty() {
        out.push_str("(late: of the last 10 s, from an event's due time until it got the CPU)\n");
    }
}

/// What each user holds, and has made the daemon do: a greedy one shows here.
fn describe_users(out: &mut String, users: &Value, paint: Paint) {
    const NUMBERS: [(&str, &str); 8] = [
        ("user", "uid"),
        ("programs", "programs"),
        ("domains", "domains"),
        ("messages", "messages"),
        ("bytes", "bytes"),
        ("refused", "refusals"),
        ("descriptors", "descriptors"),
        ("pages", "pages"),
    ];
    let headings = NUMBERS.map(|(heading, _)| (heading, Side::Right));
    let cpu = ("daemon's CPU time", Side::Right);
    let mut table = Table::new(&headings.into_iter().chain([cpu]).collect::<Vec<_>>());
    for user in users.as_array().into_iter().flatten() {
        let numbers = NUMBERS.map(|(_, field)| user[field].to_string());
        let cpu_ns = user["cpu_us"].as_u64().map(|us| us * 1000);
        let cpu = cpu_ns.map_or("-".to_owned(), short_time);
        table.row(numbers.into_iter().chain([cpu]).collect());
    }
    push(out, &table, paint);
}

/// Events, mean, p99, max, demotions.
fn tardiness(told: &Value) -> Vec<String> {
    if told.is_null() {
        return vec!["-".to_owned(); 5];
    }
    let events = told["events"].as_u64().unwrap_or_default();
    let late = |field: &str| match events {
        0 => "-".to_owned(),
        _ => time(&told[field]),
    };
    vec![
        events.to_string(),
        late("mean_ns"),
        late("p99_ns"),
        late("max_ns"),
        told["demotions"].to_string(),
    ]
}

fn time(ns: &Value) -> String {
    ns.as_u64().map_or("-".to_owned(), short_time)
}

fn push(out: &mut String, table: &Table, paint: Paint) {
    if !table.is_empty() {
        out.push('\n');
        out.push_str(&table.text(paint));
    }
}
