// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort keep`.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    args::KeepArgs, connection::Connection, failure::Failure, status::print, status::word,
};

/// Writes what holds now into a file that `consort serve` reads; what was there before is beside it.
pub fn keep(args: &KeepArgs) -> Result<(), Failure> {
    let answer = Connection::open()?.control(&json!({"command": "as_file"}))?;
    let text = word(&answer["text"]);
    if args.file.as_os_str() == "-" {
        return print(text);
    }
    let failed = |source| Failure::Write {
        path: args.file.clone(),
        source,
    };
    let before = set_aside(&args.file, text).map_err(failed)?;
    replace(&args.file, text).map_err(failed)?;
    let file = args.file.display();
    let aside = before.map_or_else(String::new, |before| {
        format!(
            "what was there before is in {}: its comments are not in {file}, parts such as \"50%\" are the CPUs that \
             they are here, and groups are numbers\n",
            before.display()
        )
    });
    print(&format!(
        "{file} has what holds now: the next `consort serve` starts with it\n{aside}"
    ))
}

/// The same file's name with an ending more.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Copies a file that says something else than `text`, with its mode; whoever wrote it may want it back.
fn set_aside(path: &Path, text: &str) -> io::Result<Option<PathBuf>> {
    if !path.is_file() || fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(None);
    }
    let (new, aside) = (beside(path, ".bak.new"), beside(path, ".bak"));
    fs::copy(path, &new)?;
    fs::rename(&new, &aside)?;
    Ok(Some(aside))
}

/// All of the new file is there, or all of the old one, whatever happens meanwhile.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder)?;
    }
    let new = beside(path, ".new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}
