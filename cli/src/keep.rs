// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort keep`.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use serde_json::json;

use crate::{
    args::KeepArgs, connection::Connection, failure::Failure, status::print, status::word,
};

/// Writes what holds now into a file that `consort serve` reads.
pub fn keep(args: &KeepArgs) -> Result<(), Failure> {
    let answer = Connection::open()?.control(&json!({"command": "as_file"}))?;
    let text = word(&answer["text"]);
    if args.file.as_os_str() == "-" {
        return print(text);
    }
    replace(&args.file, text).map_err(|source| Failure::Write {
        path: args.file.clone(),
        source,
    })?;
    print(&format!(
        "{} has what holds now: the next `consort serve` starts with it\n",
        args.file.display()
    ))
}

/// All of the new file is there, or all of the old one, whatever happens meanwhile.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder)?;
    }
    let new = path.with_extension("toml.new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}
