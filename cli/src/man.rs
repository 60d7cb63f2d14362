// SPDX-License-Identifier: MIT OR Apache-2.0
//! Man pages and completions, made from the same text as `--help`.

use std::{fs, io, path::Path};

use clap::CommandFactory;
use clap_complete::{generate_to, Shell};

use crate::{args::Cli, failure::Failure};

/// The pages of files, which no command describes.
const FILE_PAGES: [(&str, &str); 2] = [
    ("consort-classes.toml.5", include_str!("classes.toml.5")),
    ("consort-groups.toml.5", include_str!("groups.toml.5")),
];

/// Writes `consort.1`, a page for each subcommand, and those of files into `folder`.
pub fn write(folder: &Path) -> Result<(), Failure> {
    write_into(folder, || {
        clap_mangen::generate_to(Cli::command(), folder)?;
        let mut pages = FILE_PAGES.iter();
        pages.try_for_each(|(name, text)| fs::write(folder.join(name), text))
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
