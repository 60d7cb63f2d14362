// SPDX-License-Identifier: MIT OR Apache-2.0
//! Man pages, made from the same text as `--help`.

use std::{fs, io, path::Path};

use clap::CommandFactory;

use crate::{args::Cli, failure::Failure};

/// Writes `consort.1` and a page for each subcommand into `folder`.
pub fn write(folder: &Path) -> Result<(), Failure> {
    let generate = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        clap_mangen::generate_to(Cli::command(), folder)
    };
    generate().map_err(|source| Failure::Write {
        path: folder.to_owned(),
        source,
    })
}
