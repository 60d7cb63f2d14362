// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: `consort apply`, `delete`, `show`, `accessors` and `plan`.

mod files;
mod plan;
mod show;

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

pub(crate) use self::show::rows;
pub use self::{
    files::{accessors, apply, delete},
    plan::plan,
    show::show,
};
use crate::failure::Failure;

/// The text of a file; - is standard input.
fn read_text(path: &Path) -> Result<String, Failure> {
    let read = match path == Path::new("-") {
        true => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        }
        false => fs::read_to_string(path),
    };
    read.map_err(|source| Failure::Read {
        path: path.to_owned(),
        source,
    })
}

/// What a file is called in messages.
fn shown(path: &Path) -> String {
    match path == Path::new("-") {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}
