// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mean, percentiles and spread.

use serde::Serialize;

/// A distribution of times, in ms.
#[derive(Clone, Debug, Serialize)]
pub struct Distribution {
    pub count: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Distribution {
    /// All zero when there are no samples: `count` tells.
    pub fn of_ns(mut samples_ns: Vec<u64>) -> Self {
        samples_ns.sort_unstable();
        let count = samples_ns.len();
        // Nearest rank: the smallest sample that at least this part of them do not exceed.
        let percentile = |percent: usize| {
            let rank = (count * percent).div_ceil(100).max(1);
            samples_ns.get(rank - 1).map_or(0.0, |&ns| ns as f64 / 1e6)
        };
        let sum_ns: u64 = samples_ns.iter().sum();
        Self {
            count: count as u64,
            mean_ms: sum_ns as f64 / 1e6 / count.max(1) as f64,
            p50_ms: percentile(50),
            p90_ms: percentile(90),
            p95_ms: percentile(95),
            p99_ms: percentile(99),
            max_ms: percentile(100),
        }
    }
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Standard deviation over mean, in percent; 0 where the mean is.
pub fn variation_percent(values: &[f64]) -> f64 {
    let mean = mean(values);
    if mean == 0.0 {
        return 0.0;
    }
    let squares: Vec<f64> = values.iter().map(|value| (value - mean).powi(2)).collect();
    100.0 * self::mean(&squares).sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<u64> = (1..=200).rev().map(|ms| ms * 1_000_000).collect();
        let distribution = Distribution::of_ns(samples);
        assert_eq!(distribution.p50_ms, 100.0);
        assert_eq!(distribution.p99_ms, 198.0);
        assert_eq!(distribution.max_ms, 200.0);
        assert_eq!(distribution.mean_ms, 100.5);
    }

    #[test]
    fn nothing_measured_is_counted_as_nothing() {
        let distribution = Distribution::of_ns(Vec::new());
        assert_eq!((distribution.count, distribution.max_ms), (0, 0.0));
        assert_eq!(variation_percent(&[0.0, 0.0]), 0.0);
    }

    #[test]
    fn variation_of_equal_values_is_none() {
        assert_eq!(variation_percent(&[3.0, 3.0, 3.0]), 0.0);
        assert!((variation_percent(&[1.0, 3.0]) - 50.0).abs() < 1e-9);
    }
}
