// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort df`: decision functions of one's own.

mod record;

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use consort_df::{build, Object, HEADER};
use consort_kernel::format_ns;
use serde_json::{json, Value};

use crate::{
    args::{DfBuildArgs, DfCheckArgs, DfCommand, DfListArgs, DfLoadArgs, DfRemoveArgs},
    connection::Connection,
    failure::Failure,
    status::{print, word},
    table::{count, short_time},
};

pub use self::record::RecordError;

/// Between two questions whether a function is verified: at first, and at most.
const WAITS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

pub fn df(command: &DfCommand) -> Result<(), Failure> {
    match command {
        DfCommand::Build(args) => build_one(args),
        DfCommand::Check(args) => check(args),
        DfCommand::Load(args) => load(args, false),
        DfCommand::Replace(args) => load(args, true),
        DfCommand::Remove(args) => remove(args),
        DfCommand::List(args) => list(args),
        DfCommand::Header => print(HEADER),
    }
}

/// An object's bytes, compiled if need be, and its function.
fn object(path: &Path) -> Result<(Vec<u8>, Object), Failure> {
    let bytes = match path.extension().is_some_and(|end| end == "c") {
        true => build(path)?,
        false => fs::read(path).map_err(|source| Failure::Read {
            path: path.to_owned(),
            source,
        })?,
    };
    let object = Object::read(&bytes).map_err(|problem| Failure::Function {
        path: path.to_owned(),
        problem,
    })?;
    Ok((bytes, object))
}

fn described(path: &Path, object: &Object) -> String {
    let instructions = count(object.instructions() as u64, "instruction");
    format!(
        "{} is right: {}, {instructions}\n",
        path.display(),
        object.kind().symbol()
    )
}

fn build_one(args: &DfBuildArgs) -> Result<(), Failure> {
    let (bytes, object) = object(&args.source)?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => PathBuf::from(args.source.file_stem().unwrap_or_default()).with_extension("o"),
    };
    fs::write(&output, bytes).map_err(|source| Failure::Write {
        path: output.clone(),
        source,
    })?;
    match args.quiet.quiet {
        true => Ok(()),
        false => print(&described(&output, &object)),
    }
}

fn check(args: &DfCheckArgs) -> Result<(), Failure> {
    let (_, object) = object(&args.file)?;
    object.confine().map_err(|problem| Failure::Function {
        path: args.file.clone(),
        problem,
    })?;
    let Some(run) = &args.run else {
        return match args.json {
            false => print(&described(&args.file, &object)),
            true => print(&format!(
                "{:#}\n",
                json!({"kind": object.kind().symbol(), "instructions": object.instructions()})
            )),
        };
    };
    let answered = record::run(&object, run)?;
    match args.json {
        true => print(&format!("{answered:#}\n")),
        false => print(&record::describe(&answered)),
    }
}

fn load(args: &DfLoadArgs, replaces: bool) -> Result<(), Failure> {
    let (bytes, object) = object(&args.file)?;
    let stem = args.file.file_stem().unwrap_or_default().to_string_lossy();
    let name = args.name.clone().unwrap_or_else(|| stem.into_owned());
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let connection = Connection::open()?;
    let request = json!({
        "command": "df", "doing": "load", "name": name, "object": hex, "replaces": replaces,
    });
    let ticket = connection.control(&request)?["ticket"].clone();
    let outcome = await_outcome(&connection, &ticket)?;
    if outcome["outcome"] != "loaded" {
        let why = word(&outcome["why"]).to_owned();
        return Err(Failure::NotVerified { name, why });
    }
    if args.quiet.quiet {
        return Ok(());
    }
    let took = outcome["verified_us"].as_u64().unwrap_or_default() * 1000;
    print(&format!(
        "{name} is loaded: {}, {} at most, verified in {}; function = \"user:{name}\" in a group file asks it\n",
        object.kind().symbol(),
        count(outcome["steps"].as_u64().unwrap_or_default(), "step"),
        format_ns(took),
    ))
}

fn await_outcome(connection: &Connection, ticket: &Value) -> Result<Value, Failure> {
    let request = json!({"command": "df", "doing": "outcome", "ticket": ticket});
    let (mut wait, longest) = WAITS;
    loop {
        thread::sleep(wait);
        let outcome = connection.control(&request)?;
        if outcome["outcome"] != "verifying" {
            return Ok(outcome);
        }
        wait = (2 * wait).min(longest);
    }
}

fn remove(args: &DfRemoveArgs) -> Result<(), Failure> {
    let request = json!({"command": "df", "doing": "remove", "name": args.name, "uid": args.user});
    Connection::open()?.control(&request).map(drop)
}

fn list(args: &DfListArgs) -> Result<(), Failure> {
    let connection = Connection::open()?;
    let mut all: Vec<Value> = Vec::new();
    loop {
        let after = all.last().map_or(Value::Null, |row| row["row"].clone());
        let request = json!({"command": "df", "doing": "list", "after": after});
        let mut page = connection.control(&request)?;
        let Value::Array(mut rows) = page["functions"].take() else {
            return Err(Failure::Connection(
                "its answer lacks the functions".to_owned(),
            ));
        };
        let more = page["more"] == true && !rows.is_empty();
        all.append(&mut rows);
        if !more {
            break;
        }
    }
    for row in &mut all {
        if let Some(fields) = row.as_object_mut() {
            fields.remove("row");
        }
    }
    if args.json {
        return print(&format!("{:#}\n", json!({ "functions": all })));
    }
    let text: String = all.iter().map(describe).collect();
    match text.is_empty() {
        true => print("no decision functions\n"),
        false => print(&text),
    }
}

fn describe(row: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let steps = match row["steps"].as_u64() {
        Some(steps) => format!("{} at most", count(steps, "step")),
        None => match row["refused"].as_str() {
            Some(why) => format!("not loaded: {why}"),
            None => "being verified".to_owned(),
        },
    };
    let mut text = format!(
        "{} of user {}: {}, {}, {steps}\n",
        word(&row["name"]),
        row["uid"],
        word(&row["kind"]),
        count(number(&row["instructions"]), "instruction"),
    );
    for group in row["groups"].as_array().into_iter().flatten() {
        text += &format!(
            "  {}, group {}: {}\n",
            word(&group["file"]),
            word(&group["group"]),
            user(group)
        );
    }
    text
}

/// How a function does in a group, as `consort show` has it, too.
pub fn user(status: &Value) -> String {
    let number = |name: &str| status[name].as_u64().unwrap_or_default();
    let mut text = format!("asked {} times", number("asked"));
    for (name, what) in [
        ("corrected", "corrected"),
        ("missing", "missing"),
        ("slow", "slow"),
    ] {
        if number(name) > 0 {
            text += &format!(", {} {what}", number(name));
        }
    }
    if number("asked") > 0 {
        text += &format!(", {} at most", short_time(number("took_max_ns")));
    }
    if status["off"] == true {
        text += "; too slow, and not asked any more";
    }
    text
}
