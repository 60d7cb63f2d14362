// SPDX-License-Identifier: MIT OR Apache-2.0
//! What group files cost: applying one of many members; a choice by a function of the user's own against a built-in one; and
//! choices while functions are exchanged.

use crate::command::{needed, said};
use clap::{Args, ValueEnum};
use consort_bench_player::clock::now_ns;
use consort_bench_player::error::Error;
use consort_bench_player::micro::yielders;
use consort_bench_player::processes::{kill_all, spawn};
use consort_bench_player::work::burn_ns;
use serde::Serialize;
use std::process::Command;

const FILE: &str = "/tmp/bench-group.toml";
const OWN: &str = "own";
/// Enough for the daemon to bind a thread that has said its name.
const SETTLE_MS: u64 = 1000;
/// How long a member works between two looks at who is first.
const PIECE_NS: u64 = 200_000;

/// Which function decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decides {
    /// The built-in one
    Fair,
    /// One of the user's own, which does the same
    Own,
}

#[derive(Args, Serialize)]
pub struct ApplyOptions {
    #[arg(long, default_value_t = 1000)]
    members: usize,
}

#[derive(Serialize)]
pub struct Applied {
    /// The first time, from the command's start to its end.
    apply_ms: f64,
    /// Again, with nothing to be done.
    again_ms: f64,
    options: ApplyOptions,
}

/// Applies a file of so many members to nobody's threads.
pub fn apply(options: ApplyOptions, consort: Option<&str>) -> Result<Applied, Error> {
    let consort = needed(consort)?;
    let names: Vec<String> = (0..options.members).map(name_of).collect();
    write(&group("fair", &names))?;
    let once = || -> Result<f64, Error> {
        let begin_ns = now_ns();
        said(Command::new(consort).args(["apply", "--quiet", FILE]))?;
        Ok((now_ns() - begin_ns) as f64 / 1e6)
    };
    Ok(Applied {
        apply_ms: once()?,
        again_ms: once()?,
        options,
    })
}

#[derive(Args, Serialize)]
pub struct SwitchesOptions {
    #[arg(long, value_enum)]
    decides: Decides,
    /// The object of the user's own function
    #[arg(long)]
    object: String,
    /// Yields of each of the two members
    #[arg(long, default_value_t = 100_000)]
    yields: u64,
}

#[derive(Serialize)]
pub struct Switches {
    #[serde(flatten)]
    cost: yielders::YieldCost,
    /// How often the user's own function was asked.
    asked: u64,
}

/// Two members that yield to each other.
pub fn switches(options: SwitchesOptions, consort: Option<&str>) -> Result<Switches, Error> {
    let consort = needed(consort)?;
    prepare(consort, options.decides, &options.object)?;
    let wanted = yielders::Options {
        processes: 2,
        yields: options.yields,
        settle_ms: SETTLE_MS,
    };
    let cost = yielders::run_each(wanted, announce)?;
    let asked = match options.decides {
        Decides::Fair => 0,
        Decides::Own => counts(consort)?.0,
    };
    Ok(Switches { cost, asked })
}

#[derive(Args, Serialize)]
pub struct SwapsOptions {
    /// The objects that take turns
    #[arg(long, value_delimiter = ',')]
    objects: Vec<String>,
    #[arg(long, default_value_t = 10_000)]
    swaps: u64,
}

#[derive(Serialize)]
pub struct Swaps {
    /// How often the group's function was asked meanwhile, and how often nobody answered.
    asked: u64,
    missing: u64,
    options: SwapsOptions,
}

/// Two members that always want the CPU, while their function is exchanged as often as it goes.
pub fn swaps(options: SwapsOptions, consort: Option<&str>) -> Result<Swaps, Error> {
    let consort = needed(consort)?;
    let [first, second] = &options.objects[..] else {
        return Err(Error::Usage("expected two objects".into()));
    };
    prepare(consort, Decides::Own, first)?;
    let members = (0..2)
        .map(|number| {
            spawn(move || -> Result<(), Error> {
                announce(number)?;
                loop {
                    burn_ns(PIECE_NS);
                    std::thread::yield_now();
                }
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(std::time::Duration::from_millis(SETTLE_MS));
    let before = counts(consort)?;
    let swapped = (0..options.swaps).try_for_each(|turn| {
        let object = if turn % 2 == 0 { second } else { first };
        said(Command::new(consort).args(["df", "replace", "--quiet", object, "--name", OWN]))
            .map(drop)
    });
    let after = counts(consort)?;
    kill_all(members);
    swapped?;
    Ok(Swaps {
        asked: after.0 - before.0,
        missing: after.1 - before.1,
        options,
    })
}

/// A group of two, and the function that decides for it.
fn prepare(consort: &str, decides: Decides, object: &str) -> Result<(), Error> {
    let function = match decides {
        Decides::Fair => "fair".to_owned(),
        Decides::Own => {
            said(Command::new(consort).args(["df", "load", object, "--name", OWN]))?;
            format!("user:{OWN}")
        }
    };
    write(&group(&function, &[0, 1].map(name_of)))?;
    said(Command::new(consort).args(["apply", FILE])).map(drop)
}

fn name_of(number: usize) -> String {
    format!("m{number}")
}

fn group(function: &str, names: &[String]) -> String {
    format!("[group.bench]\nfunction = \"{function}\"\nmembers = {names:?}\n")
}

fn write(text: &str) -> Result<(), Error> {
    std::fs::write(FILE, text).map_err(|source| Error::io(format!("write {FILE}"), source))
}

/// The calling process' thread is a member until it ends.
fn announce(number: usize) -> Result<(), Error> {
    let announced = consort::announce(&name_of(number)).map_err(Error::Cooperation)?;
    std::mem::forget(announced);
    Ok(())
}

/// How often the group's function was asked, and how often nobody answered.
fn counts(consort: &str) -> Result<(u64, u64), Error> {
    let text = said(Command::new(consort).args(["df", "list", "--json"]))?;
    let list: serde_json::Value = serde_json::from_str(&text).map_err(Error::Json)?;
    let group = &list["functions"][0]["groups"][0];
    match (group["asked"].as_u64(), group["missing"].as_u64()) {
        (Some(asked), Some(missing)) => Ok((asked, missing)),
        _ => Err(Error::Usage(format!(
            "df list says nothing of the group: {text}"
        ))),
    }
}
