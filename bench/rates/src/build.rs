// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long so many compiles take, one after another. (001, Table 4.2)

use crate::compile::compile_while;
use clap::Args;
use consort_bench_player::clock::{now_ns, NS_PER_S};
use consort_bench_player::error::Error;
use serde::Serialize;

#[derive(Args, Serialize)]
pub struct Options {
    /// Number of processes
    #[arg(long, default_value_t = 100)]
    jobs: u64,
    /// Chooses their lengths
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Serialize)]
pub struct Build {
    took_s: f64,
    options: Options,
}

pub fn run(options: Options) -> Result<Build, Error> {
    let begin_ns = now_ns();
    let mut left = options.jobs;
    compile_while(options.seed, || {
        let more = left > 0;
        left = left.saturating_sub(1);
        more
    })?;
    Ok(Build {
        took_s: (now_ns() - begin_ns) as f64 / NS_PER_S as f64,
        options,
    })
}
