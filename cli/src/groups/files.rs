// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort apply`, `delete` and `accessors`.

use std::path::Path;

use consort_groups::{
    accessors::{self, Language},
    Description,
};
use serde_json::{json, Value};

use super::{read_text, shown};
use crate::{
    args::{AccessorsArgs, ApplyArgs, DeleteArgs, LanguageArg},
    connection::Connection,
    failure::Failure,
    status::{print, word},
    table::count,
};

/// Puts a group file in force, or says what that would change.
pub fn apply(args: &ApplyArgs) -> Result<(), Failure> {
    let (description, text) = read(&args.file, args.name.as_deref())?;
    let name = &description.name;
    let request = json!({
        "command": "group", "doing": "apply", "name": name, "text": text, "only_look": args.check,
    });
    if !args.check {
        let changes = Connection::open()?.control(&request)?;
        let said = said(&changes, &format!("{name}: nothing to change\n"));
        return say(args.quiet.quiet, &said);
    }
    let groups = description.groups.len() as u64;
    let members = description.members().count() as u64;
    let mut said_so = format!(
        "{} is right: {}, {}\n",
        shown(&args.file),
        count(groups, "group"),
        count(members, "member")
    );
    match Connection::open() {
        Err(Failure::NoDaemon(_)) => {}
        connection => {
            let changes = connection?.control(&request)?;
            said_so += &said(&changes, "it would change nothing\n");
            if description
                .groups
                .iter()
                .any(|group| group.promise.is_some())
            {
                said_so += "not looked at: whether so much of its classes is left\n";
            }
        }
    }
    say(args.quiet.quiet, &said_so)
}

/// Ends what a group file describes.
pub fn delete(args: &DeleteArgs) -> Result<(), Failure> {
    let request = json!({
        "command": "group", "doing": "delete", "name": args.name, "uid": args.user,
    });
    let changes = Connection::open()?.control(&request)?;
    say(args.quiet.quiet, &said(&changes, ""))
}

/// Prints accessors of a group file's variables.
pub fn accessors(args: &AccessorsArgs) -> Result<(), Failure> {
    let (description, _) = read(&args.file, None)?;
    let language = match args.language {
        LanguageArg::C => Language::C,
        LanguageArg::Rust => Language::Rust,
        LanguageArg::Python => Language::Python,
    };
    let text = accessors::accessors(&description, &shown(&args.file), language)?;
    print(&text)
}

fn read(path: &Path, name: Option<&str>) -> Result<(Description, String), Failure> {
    let text = read_text(path)?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy());
    let stem = match path == Path::new("-") {
        true => "stdin".into(),
        false => stem.unwrap_or_default(),
    };
    let name = name.unwrap_or(&stem);
    let description = consort_groups::read(&shown(path), name, &text)?;
    Ok((description, text))
}

fn said(changes: &Value, nothing: &str) -> String {
    let lines = changes["changes"].as_array();
    let lines: Vec<&str> = lines.into_iter().flatten().map(word).collect();
    let more = match changes["more"] == true {
        true => "... and more\n",
        false => "",
    };
    match lines.is_empty() {
        true => nothing.to_owned(),
        false => lines.join("\n") + "\n" + more,
    }
}

fn say(quiet: bool, text: &str) -> Result<(), Failure> {
    match quiet {
        true => Ok(()),
        false => print(text),
    }
}
