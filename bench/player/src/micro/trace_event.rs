// SPDX-License-Identifier: MIT OR Apache-2.0
//! What it costs a program to say something to `consort trace record`, which must have started it; or without one.

use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS};
use crate::error::Error;
use clap::Args;
use consort::trace;
use serde::Serialize;

/// Less than a ring holds, and so long that the recorder has taken them.
const BURST: i64 = 2000;
const PAUSE_MS: u64 = 50;

#[derive(Args, Serialize)]
pub struct Options {
    /// Bursts of 2000 events
    #[arg(long, default_value_t = 50)]
    bursts: u64,
}

#[derive(Serialize)]
pub struct EventCost {
    options: Options,
    is_recorded: bool,
    /// Of the median burst, the clock's reading included.
    event_ns: f64,
}

pub fn run(options: Options) -> Result<EventCost, Error> {
    let mut bursts: Vec<f64> = (0..options.bursts.max(1)).map(|_| burst_ns()).collect();
    bursts.sort_by(f64::total_cmp);
    Ok(EventCost {
        is_recorded: trace::is_recorded(),
        event_ns: bursts[bursts.len() / 2],
        options,
    })
}

/// How long an event takes, of a burst of them.
fn burst_ns() -> f64 {
    let begin_ns = now_ns();
    for value in 0..BURST {
        trace::event("bench", "value_ns", std::hint::black_box(value));
    }
    let took_ns = now_ns() - begin_ns;
    sleep_until_ns(now_ns() + PAUSE_MS * NS_PER_MS);
    took_ns as f64 / BURST as f64
}
