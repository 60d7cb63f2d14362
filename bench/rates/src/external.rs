// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that is not changed, observed from outside: the kernel notes each call of a function of one of its
//! libraries, such as the one that shows a picture. (001, Tables 4.3 and 4.4)

use crate::elf;
use crate::promise::{Division, Part};
use crate::tracefs::{self, Events};
use clap::Args;
use consort_bench_player::clock::NS_PER_S;
use consort_bench_player::error::Error;
use consort_bench_player::processes::{kill_all, spawn};
use consort_bench_player::work::burn_ns;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const EVENT: &str = "consort_bench/called";
const US_PER_S: f64 = 1e6;

#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    division: Division,
    /// The program's own
    #[arg(long)]
    promised: Option<Part>,
    /// One loop for each of these
    #[arg(long, value_delimiter = ',')]
    beside: Vec<Part>,
    /// Loops that have been promised nothing
    #[arg(long, default_value_t = 0)]
    hogs: usize,
    /// The library whose function is observed
    #[arg(long)]
    library: PathBuf,
    #[arg(long)]
    function: String,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(Serialize)]
pub struct External {
    /// When the function was called, in us of CLOCK_MONOTONIC.
    called_us: Vec<u64>,
    cpu_s: f64,
    options: Options,
}

#[derive(Serialize, Deserialize)]
struct Ended {
    is_success: bool,
    cpu_s: f64,
}

pub fn run(options: Options) -> Result<External, Error> {
    let promises: Vec<Part> = options
        .promised
        .iter()
        .chain(&options.beside)
        .cloned()
        .collect();
    let prepared = options.division.prepare(&promises)?;
    let first_loop = usize::from(options.promised.is_some());
    let offset = elf::offset_of(&options.library, &options.function)?;
    let probe = Probe::set(&options.library, offset)?;
    let loops = (0..options.beside.len() + options.hogs)
        .map(|index| {
            let prepared = &prepared;
            spawn(move || -> Result<(), Error> {
                prepared.take(first_loop + index)?;
                loop {
                    burn_ns(NS_PER_S);
                }
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let program = spawn(|| {
        match options.promised {
            Some(_) => prepared.take(0)?,
            None => prepared.take_none()?,
        }
        execute(&options.command)
    })?;
    let ended = program.wait();
    kill_all(loops);
    let ended = ended?;
    let called_us = probe.called_us()?;
    if !ended.is_success || called_us.is_empty() {
        return Err(Error::Usage(format!(
            "{} ended in failure or never called {}, expected success and calls",
            options.command.join(" "),
            options.function
        )));
    }
    Ok(External {
        called_us,
        cpu_s: ended.cpu_s,
        options,
    })
}

fn execute(command: &[String]) -> Result<Ended, Error> {
    let status = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|source| Error::io(format!("start {}", command[0]), source))?;
    Ok(Ended {
        is_success: status.success(),
        cpu_s: children_cpu_s(),
    })
}

/// Of the calling process' children that have ended, and theirs.
fn children_cpu_s() -> f64 {
    // SAFETY: all zeroes is a value of it, and it is valid.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|time| time.tv_sec as f64 + time.tv_usec as f64 / US_PER_S)
        .sum()
}

/// A probe at a function, as long as this is there.
struct Probe(Events);

impl Probe {
    fn set(library: &Path, offset: u64) -> Result<Self, Error> {
        let library = library.display();
        tracefs::write("uprobe_events", &format!("p:{EVENT} {library}:{offset:#x}"))?;
        Events::note(EVENT, None).map(Probe)
    }

    fn called_us(&self) -> Result<Vec<u64>, Error> {
        let calls = self.0.occurrences()?;
        Ok(calls.iter().map(|call| call.at_us).collect())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.stop();
        // One that stays does no harm: the guest is about to end.
        let _ = tracefs::write("uprobe_events", &format!("-:{EVENT}"));
    }
}
