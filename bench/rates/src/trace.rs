// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that works without a pause, and knows when it had the CPU: where the clock jumps, it had not.

use consort_bench_player::clock::now_ns;
use consort_bench_player::work::burn_ns;
use serde::{Deserialize, Serialize};

/// Work between two looks at the clock.
const PIECE_NS: u64 = 10_000;
/// More than an interrupt takes.
const GAP_MIN_NS: u64 = 50_000;

/// From when to when it ran, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    pub from_ns: u64,
    pub to_ns: u64,
}

/// Works until `until_ns`, and adds when it ran to `ran`.
pub fn work_until(until_ns: u64, ran: &mut Vec<Ran>) {
    let mut from_ns = now_ns();
    let mut last_ns = from_ns;
    while last_ns < until_ns {
        burn_ns(PIECE_NS);
        let now = now_ns();
        if now - last_ns > PIECE_NS + GAP_MIN_NS {
            // The piece may have been done before or after the gap, or partly.
            ran.push(Ran {
                from_ns,
                to_ns: last_ns,
            });
            from_ns = now;
        }
        last_ns = now;
    }
    ran.push(Ran {
        from_ns,
        to_ns: last_ns,
    });
}

/// The times between two runs that begin in the window, each without the piece of work that is in it.
pub fn gaps_ns(ran: &[Ran], window: std::ops::Range<u64>) -> impl Iterator<Item = u64> + use<'_> {
    ran.windows(2)
        .filter(move |pair| window.contains(&pair[0].to_ns))
        .map(|pair| (pair[1].from_ns - pair[0].to_ns).saturating_sub(PIECE_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_that_begin_outside_do_not_count() {
        let ran = [(0, 100_000), (300_000, 500_000), (900_000, 1_000_000)]
            .map(|(from_ns, to_ns)| Ran { from_ns, to_ns });
        let gaps = |until_ns| gaps_ns(&ran, 0..until_ns).collect::<Vec<_>>();
        assert_eq!(gaps(1_000_000), [200_000 - PIECE_NS, 400_000 - PIECE_NS]);
        assert_eq!(gaps(500_000), [200_000 - PIECE_NS]);
    }
}
