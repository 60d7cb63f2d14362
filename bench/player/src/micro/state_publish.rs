// SPDX-License-Identifier: MIT OR Apache-2.0
//! What it costs a thread to tell its decision function something: a state variable, without a system call.

use crate::clock::now_ns;
use crate::error::Error;
use clap::Args;
use serde::Serialize;

const BURST: i64 = 10_000;

#[derive(Args, Serialize)]
pub struct Options {
    /// Bursts of 10000 values
    #[arg(long, default_value_t = 50)]
    bursts: u64,
}

#[derive(Serialize)]
pub struct PublishCost {
    options: Options,
    /// Of the median burst.
    publish_ns: f64,
}

pub fn run(options: Options) -> Result<PublishCost, Error> {
    let announced = consort::announce("bench").map_err(Error::Cooperation)?;
    let mut bursts = Vec::new();
    for _ in 0..options.bursts.max(1) {
        let begin_ns = now_ns();
        for value in 0..BURST {
            announced
                .set_state(0, std::hint::black_box(value))
                .map_err(Error::Cooperation)?;
        }
        bursts.push((now_ns() - begin_ns) as f64 / BURST as f64);
    }
    bursts.sort_by(f64::total_cmp);
    Ok(PublishCost {
        publish_ns: bursts[bursts.len() / 2],
        options,
    })
}
