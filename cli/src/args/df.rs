// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of decision functions of one's own.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Quiet;

#[derive(Debug, Subcommand)]
pub enum DfCommand {
    /// Compile a function, and say whether it keeps the rules.
    ///
    /// The source is one C file that includes <consort_df.h>, which `consort df header` prints, and defines df_key or df_pick.
    /// It needs clang; an object can be loaded on machines without.
    Build(DfBuildArgs),
    /// Say whether a source or an object keeps the rules; with --run, what it answers.
    ///
    /// Needs no daemon, root, or scheduler. --run takes a file of JSON that says what the function sees, and prints what it
    /// answers, what it has written, and how many steps that took.
    Check(DfCheckArgs),
    /// Load a function, for groups whose files say function = "user:NAME".
    ///
    /// The daemon looks at it and lets the kernel verify it. It belongs to its user, is kept when the daemon is restarted, and
    /// may be another user's groups' only if that one loads it, too.
    Load(DfLoadArgs),
    /// Load another function in the place of one that is loaded; its groups ask the new one from the next choice on.
    Replace(DfLoadArgs),
    /// Take a function out of the kernel; no group may have it.
    Remove(DfRemoveArgs),
    /// Show the functions that are loaded, the groups that have them, and how they do.
    ///
    /// Root sees everybody's, others their own.
    List(DfListArgs),
    /// Print the header that a function includes: all that it sees, and its rules.
    Header,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort df build laxity.c                  # makes laxity.o
  consort df build laxity.c -o /tmp/laxity.o

What is compiled: clang -target bpf -O2, with the header in the include path. CLANG names another compiler.")]
pub struct DfBuildArgs {
    /// The C source
    #[arg(value_name = "FILE.c")]
    pub source: PathBuf,

    /// Where the object goes [default: the source's name, with .o]
    #[arg(short, long, value_name = "FILE.o")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub quiet: Quiet,
}

#[derive(Debug, Args)]
#[command(after_long_help = r#"
Examples:
  consort df check laxity.c
  consort df check laxity.o --run two.json

two.json, of which everything may be left out but the members:
  {"now_ns": 1000000, "by": 0, "memory": [0, 7],
   "members": [{"flags": ["played", "wants", "runs"], "state": [5000000, 100000], "ran_ns": 40000},
               {"flags": ["played", "wants"], "state": [4000000], "weight": 1024, "period_ns": 0, "budget_ns": 0,
                "due_ns": null, "awake_ns": 900000, "control": [0]}]}"#)]
pub struct DfCheckArgs {
    /// The C source, or an object that was made of one
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Ask the function, with what this file says that it sees; - is standard input
    #[arg(long, value_name = "RECORD.json")]
    pub run: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort df load laxity.c
  consort df load laxity.o --name edf
  consort df replace laxity.c                # its groups go on, and ask the new one")]
pub struct DfLoadArgs {
    /// The C source, or an object that was made of one
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// What group files call it [default: the file's name without its ending]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    #[command(flatten)]
    pub quiet: Quiet,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort df remove laxity
  sudo consort df remove laxity --user 1000")]
pub struct DfRemoveArgs {
    /// What group files call it
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Whose it is, by number; for root
    #[arg(long, value_name = "UID")]
    pub user: Option<u32>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  consort df list
  consort df list --json | jq '.functions[].groups[].corrected'

Steps are those that one answer takes at most, as the kernel has counted them. Of each group: how often its function was
asked; corrected, answers of which something was wrong; missing, when nobody answered; slow, answers that took longer than
200 us; off, it was slow 16 times in a row and is not asked any more, until another one is loaded. Where a function says
nothing, or something wrong, members have the order of their file.
The JSON has functions, a list of: name, uid, kind (df_key, df_pick), instructions, bytes, steps (null: it is not verified),
refused (why the kernel did not take it after a restart), groups: a list of file, group, asked, corrected, missing, slow,
took_max_ns, off.")]
pub struct DfListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
