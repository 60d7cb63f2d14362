// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mean and percentiles of times.

use serde::Serialize;

/// A distribution of times, in ms. All zero when there are no samples: `count` tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    pub count: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Distribution {
    /// Of samples in order of size. Percentiles are samples: the smallest that at least this part do not exceed.
    pub fn of_sorted_ns(samples_ns: &[u64]) -> Self {
        let count = samples_ns.len();
        let percentile_ms = |percent: usize| {
            let rank = (count * percent).div_ceil(100).max(1);
            samples_ns.get(rank - 1).map_or(0.0, |&ns| ms(ns))
        };
        let sum_ns: u128 = samples_ns.iter().map(|&ns| u128::from(ns)).sum();
        Self {
            count: count as u64,
            mean_ms: sum_ns as f64 / 1e6 / count.max(1) as f64,
            p50_ms: percentile_ms(50),
            p99_ms: percentile_ms(99),
            max_ms: percentile_ms(100),
        }
    }
}

/// Nanoseconds as milliseconds.
pub fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<u64> = (1..=200).map(|ms| ms * 1_000_000).collect();
        let distribution = Distribution::of_sorted_ns(&samples);
        assert_eq!(distribution.p50_ms, 100.0);
        assert_eq!(distribution.p99_ms, 198.0);
        assert_eq!(distribution.max_ms, 200.0);
        assert_eq!(distribution.mean_ms, 100.5);
    }

    #[test]
    fn nothing_is_counted_as_nothing() {
        assert_eq!(Distribution::of_sorted_ns(&[]), Distribution::default());
    }
}
