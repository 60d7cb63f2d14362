// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs every 5 ms together with the other members of a domain, and says how late it was.

use consort::{now_ns, Domain, Next};

const TICKS: u64 = 10;
const TICK_NS: u64 = 5_000_000;

fn main() -> Result<(), consort::Error> {
    let domain = std::env::args().nth(1).unwrap_or("studio".into());
    // No tick works longer than a millisecond.
    let member = Domain::named(domain).event_ns(1_000_000).join()?;
    let mut due_ns = now_ns() + TICK_NS;
    let mut tardiness_ns = 0;
    let mut ticks = 0;
    while ticks < TICKS {
        // Also when it is late already: others may be later.
        member.poll(Next::due(due_ns))?;
        let now_ns = now_ns();
        if now_ns < due_ns {
            continue; // a signal handler ran
        }
        tardiness_ns += now_ns - due_ns;
        // ... the tick's work goes here ...
        due_ns += TICK_NS;
        ticks += 1;
    }
    println!(
        "mean tardiness {} ns over {TICKS} ticks",
        tardiness_ns / TICKS
    );
    member.leave()
}
