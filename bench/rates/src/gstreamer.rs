// SPDX-License-Identifier: MIT OR Apache-2.0
//! A GStreamer application that is not changed: how many of its frames come late, as GStreamer itself says. Its sink drops
//! a frame that comes later than `max-lateness` after the frame's time was over, its decoder one that would; each says so by
//! a message. A frame that is not shown is late, and there is a message for it.

use crate::command::{needed, said};
use crate::heavy::{Heavy, Progress};
use crate::promise::{Division, Part};
use clap::Args;
use consort_bench_player::error::Error;
use consort_bench_player::processes::spawn;
use serde::Serialize;
use std::process::Command;

/// A message about a frame that is left out, or about a header of the film, which is no frame.
const DROPPED: &str = "(qos): ";
/// `fakesink silent=false` says this of each frame that it shows, and gst-launch-1.0 says it again, as -v asks.
const SHOWN: &str = ": last-message = chain ";
const MEMORIES: &str = "fakesrc num-buffers=1 ! fakesink";

#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    division: Division,
    /// The program's own, where no group file says it
    #[arg(long)]
    promised: Option<Part>,
    /// The group file that is applied before
    #[arg(long)]
    groups: Option<String>,
    /// Compiles, copies and writes beside it
    #[arg(long)]
    heavy: bool,
    /// Frames of the film
    #[arg(long)]
    frames: usize,
    /// gst-launch-1.0 -v -m, and a pipeline that ends with fakesink
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(Serialize)]
pub struct Played {
    shown: usize,
    late: usize,
    late_percent: f64,
    /// What the heavy load did meanwhile.
    heavy: Option<Progress>,
    options: Options,
}

pub fn run(options: Options, consort: Option<&str>) -> Result<Played, Error> {
    let promises: Vec<Part> = options.promised.iter().cloned().collect();
    let prepared = options.division.prepare(&promises)?;
    // It remembers what its plugins have before there is anybody who is in its way.
    let mut first = Command::new(&options.command[0]);
    said(first.arg("--quiet").args(MEMORIES.split(' ')))?;
    if let Some(groups) = &options.groups {
        said(Command::new(needed(consort)?).args(["apply", groups]))?;
    }
    let heavy = match options.heavy {
        true => Some(Heavy::start(&prepared)?),
        false => None,
    };
    let program = spawn(|| {
        match options.promised {
            Some(_) => prepared.take(0)?,
            None => prepared.take_none()?,
        }
        said(Command::new(&options.command[0]).args(&options.command[1..]))
    })?;
    let played = program.wait();
    let out = played?;
    let heavy = heavy.map(Heavy::end).transpose()?;
    let count = |what: &str| out.lines().filter(|line| line.contains(what)).count();
    let (shown, messages) = (count(SHOWN), count(DROPPED));
    let late = options.frames.saturating_sub(shown);
    if shown > options.frames || late > messages {
        return Err(Error::Usage(format!(
            "{shown} frames were shown and {messages} said to be left out, expected {} in sum, and headers",
            options.frames
        )));
    }
    Ok(Played {
        shown,
        late,
        late_percent: 100.0 * late as f64 / options.frames as f64,
        heavy,
        options,
    })
}
