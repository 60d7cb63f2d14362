// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort status`.

use std::{
    io::{self, IsTerminal, Write as _},
    time::Duration,
};

use serde_json::{json, Value};

use crate::{args::StatusArgs, connection::Connection, failure::Failure, table::Paint, user_level};

mod describe;

/// Between two looks of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Clears a terminal, and starts at its top.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints what the daemon says about the scheduler, its domains and programs.
pub fn status(args: &StatusArgs) -> Result<(), Failure> {
    loop {
        let status = ask()?;
        let text = match args.json {
            true => format!("{status:#}\n"),
            false => told(&status, args.counters),
        };
        if !args.watch {
            return print(&text);
        }
        let is_terminal = io::stdout().is_terminal() && !args.json;
        let clear = if is_terminal { CLEAR } else { "" };
        print(&format!("{clear}{text}"))?;
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// For a person.
fn told(status: &Value, counters: bool) -> String {
    let scheduler = match status["scheduler"].is_null() {
        true => "scheduler    none: no daemon runs\n".to_owned(),
        false => describe::describe(status, counters, Paint::for_stdout()),
    };
    scheduler + &user_level::describe(&status["user_level"])
}

/// Without a daemon, members cooperate all the same, among themselves.
fn ask() -> Result<Value, Failure> {
    let at_user_level = user_level::status();
    let connection = match Connection::open() {
        Err(Failure::NoDaemon(_)) if at_user_level != json!([]) => {
            return Ok(json!({"scheduler": null, "user_level": at_user_level}));
        }
        other => other?,
    };
    let mut status = connection.control(&json!({"command": "status"}))?;
    status["division"] = connection.control(&json!({"command": "classes"}))?;
    status["domains"] = all_pages(&connection, "domains", "id")?;
    status["clients"] = all_pages(&connection, "clients", "connection")?;
    status["user_level"] = at_user_level;
    Ok(status)
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

pub fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}
