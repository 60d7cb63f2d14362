// SPDX-License-Identifier: MIT OR Apache-2.0
//! Man pages and completions, made from the same text as `--help`.

use std::{fs, io, path::Path};

use clap::CommandFactory;
use clap_complete::{generate_to, Shell};

use crate::{args::Cli, failure::Failure};

/// The page of the operator's file, which no command describes.
const CLASSES_PAGE: &str = include_str!("classes.toml.5");

/// Writes `consort.1`, a page for each subcommand, and that of the operator's file into `folder`.
pub fn write(folder: &Path) -> Result<(), Failure> {
    write_into(folder, || {
        clap_mangen::generate_to(Cli::command(), folder)?;
        fs::write(folder.join("consort-classes.toml.5"), CLASSES_PAGE)
    })
}

/// Writes `consort.bash`, `_consort` and `consort.fish` into `folder`.
pub fn write_completions(folder: &Path) -> Result<(), Failure> {
    write_into(folder, || {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            generate_to(shell, &mut Cli::command(), "consort", folder)?;
        }
        Ok(())
    })
}

fn write_into(folder: &Path, generate: impl Fn() -> io::Result<()>) -> Result<(), Failure> {
    let written = fs::create_dir_all(folder).and_then(|()| generate());
    written.map_err(|source| Failure::Write {
        path: folder.to_owned(),
        source,
    })
}
