// SPDX-License-Identifier: MIT OR Apache-2.0
//! A token that goes round a ring of processes through pipes; two of them make the classic pipe test.

use crate::clock::now_ns;
use crate::error::Error;
use crate::processes::{spawn, Child};
use clap::Args;
use serde::Serialize;
use std::io::{Read, Write};

#[derive(Args, Serialize)]
pub struct Options {
    /// Processes in the ring
    #[arg(long, default_value_t = 2)]
    processes: usize,
    /// Rounds of the token
    #[arg(long, default_value_t = 50_000)]
    rounds: u64,
}

#[derive(Serialize)]
pub struct RoundTrip {
    options: Options,
    us_per_round: f64,
    us_per_hop: f64,
}

pub fn run(options: Options) -> Result<RoundTrip, Error> {
    if options.processes < 2 || options.rounds == 0 {
        return Err(Error::Usage(
            "a ring needs at least 2 processes and 1 round".into(),
        ));
    }
    let mut readers = Vec::new();
    let mut writers = Vec::new();
    for _ in 0..options.processes {
        let (reader, writer) =
            std::io::pipe().map_err(|source| Error::io("make a pipe", source))?;
        readers.push(reader);
        writers.push(writer);
    }
    // Process i reads pipe i and writes pipe i + 1; the first one starts the token and takes the time.
    let rounds = options.rounds;
    let mut children: Vec<Child<u64>> = Vec::new();
    for index in (0..options.processes).rev() {
        let mut reader = &readers[index];
        let mut writer = &writers[(index + 1) % options.processes];
        children.push(spawn(move || {
            let mut token = [0; 4];
            let start_ns = now_ns();
            if index == 0 {
                pass(writer.write_all(&token))?;
            }
            for round in 1..=rounds {
                pass(reader.read_exact(&mut token))?;
                if index != 0 || round < rounds {
                    pass(writer.write_all(&token))?;
                }
            }
            Ok(now_ns() - start_ns)
        })?);
    }
    let mut took_ns = 0;
    for child in children {
        // The last one started is process 0.
        took_ns = child.wait()?;
    }
    let us_per_round = took_ns as f64 / 1000.0 / rounds as f64;
    Ok(RoundTrip {
        us_per_hop: us_per_round / options.processes as f64,
        us_per_round,
        options,
    })
}

fn pass(result: std::io::Result<()>) -> Result<(), Error> {
    result.map_err(|source| Error::io("pass the token on", source))
}
