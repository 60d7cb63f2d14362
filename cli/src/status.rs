// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort status`.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    time::SystemTime,
};

use consort_kernel::format_ns;
use serde_json::{json, Value};

use crate::{args::StatusArgs, class, connection::Connection, failure::Failure};

/// Prints what the daemon says about the scheduler, its domains and programs.
pub fn status(args: &StatusArgs) -> Result<(), Failure> {
    let connection = Connection::open()?;
    let mut status = connection.control(&json!({"command": "status"}))?;
    status["division"] = connection.control(&json!({"command": "classes"}))?;
    status["domains"] = all_pages(&connection, "domains", "id")?;
    status["clients"] = all_pages(&connection, "clients", "connection")?;
    let text = match args.json {
        true => format!("{status:#}\n"),
        false => describe(&status),
    };
    print(&text)
}

/// Prints `text`; a reader that has seen enough is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// A list that comes in pages, whole; `key` is the field that orders it.
pub fn all_pages(connection: &Connection, list: &str, key: &str) -> Result<Value, Failure> {
    let mut all = Vec::new();
    loop {
        let after = all
            .last()
            .map_or(Value::Null, |entry: &Value| entry[key].clone());
        let mut page = connection.control(&json!({"command": list, "after": after}))?;
        let Value::Array(mut entries) = page[list].take() else {
            return Err(Failure::Connection(format!(
                "its answer lacks the list of {list}"
            )));
        };
        let more = page["more"] == Value::Bool(true) && !entries.is_empty();
        all.append(&mut entries);
        if !more {
            return Ok(Value::Array(all));
        }
    }
}

/// The status for a person.
fn describe(status: &Value) -> String {
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
        out.push_str("             in safe mode: fair shares, no domains, no reservations; restart the daemon to leave it\n");
    }
    describe_ejections(&mut out, &status["ejections"]);
    let daemon = &status["daemon"];
    let _ = writeln!(
        out,
        "daemon       consort {}, process {}, up {} s",
        word(&daemon["version"]),
        daemon["pid"],
        daemon["uptime_s"]
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
    let _ = writeln!(
        out,
        "programs     {} with {} member threads in {} domains",
        daemon["clients"], daemon["members"], daemon["domains"]
    );
    let _ = write!(out, "\n{}", class::describe(&status["division"]));
    describe_counters(&mut out, &status["counters"]);
    describe_domains(&mut out, &status["domains"]);
    describe_clients(&mut out, &status["clients"]);
    out
}

/// What the kernel threw out since the daemon started, if it did.
fn describe_ejections(out: &mut String, ejections: &Value) {
    let last = &ejections["last"];
    if last.is_null() {
        return;
    }
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_s = since_1970.map_or(0, |since| since.as_secs());
    let ago_s = now_s.saturating_sub(last["at_s"].as_u64().unwrap_or_default());
    let _ = writeln!(
        out,
        "ejected      {} times, last {ago_s} s ago: {}: {}",
        ejections["count"],
        word(&last["reason"]),
        word(&last["message"])
    );
    if let Some(dump) = last["dump"].as_str() {
        let _ = writeln!(out, "             the kernel's dump is in {dump}");
    }
}

fn describe_counters(out: &mut String, counters: &Value) {
    let Some(counters) = counters.as_object() else {
        return;
    };
    out.push_str("\ncounters since the scheduler was loaded\n");
    for (name, value) in counters {
        let _ = writeln!(out, "  {name:<14} {value:>14}");
    }
}

fn describe_domains(out: &mut String, domains: &Value) {
    let Some(domains) = domains.as_array().filter(|list| !list.is_empty()) else {
        return;
    };
    out.push_str("\ndomain                       uid  order     event     members\n");
    for domain in domains {
        let name = domain["name"].as_str().unwrap_or("(private)");
        let members = domain["members"].as_array().map_or(0, Vec::len);
        let event = format_ns(domain["event_ns"].as_u64().unwrap_or_default());
        let _ = writeln!(
            out,
            "{name:<25} {:>6}  {:<8}  {event:<8}  {members}",
            domain["uid"],
            word(&domain["order"])
        );
    }
}

fn describe_clients(out: &mut String, clients: &Value) {
    let is_program = |client: &&Value| !client["client"].is_null();
    let Some(clients) = clients.as_array() else {
        return;
    };
    let programs: Vec<&Value> = clients.iter().filter(is_program).collect();
    if programs.is_empty() {
        return;
    }
    out.push_str("\nprogram           pid     uid  members\n");
    for client in programs {
        let members = client["members"].as_array().map_or(0, Vec::len);
        let _ = writeln!(
            out,
            "{:<15} {:>5}  {:>6}  {members}",
            word(&client["command"]),
            client["pid"],
            client["uid"]
        );
    }
}

pub fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}
