// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values, and how they are spread.

/// Values in the order of their size, once it was asked.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    values: Vec<i64>,
    is_sorted: bool,
}

impl Histogram {
    pub fn add(&mut self, value: i64) {
        self.values.push(value);
        self.is_sorted = false;
    }

    pub fn count(&self) -> u64 {
        self.values.len() as u64
    }

    /// 0 of none.
    pub fn mean(&self) -> f64 {
        let sum: i128 = self.values.iter().map(|value| i128::from(*value)).sum();
        sum as f64 / self.values.len().max(1) as f64
    }

    /// The least value that so many percent of all are not above; 0 of none.
    pub fn percentile(&mut self, percent: u64) -> i64 {
        self.sort();
        let rank = (self.count() * percent).div_ceil(100).saturating_sub(1);
        self.values.get(rank as usize).copied().unwrap_or_default()
    }

    pub fn max(&self) -> i64 {
        self.values.iter().copied().max().unwrap_or_default()
    }

    /// How many are in each octave: (what all are below, how many), from the least one with some to the greatest; those
    /// below 1 are one.
    pub fn octaves(&self) -> Vec<(i64, u64)> {
        let mut counts = [0u64; 65];
        for value in &self.values {
            let octave = match u64::try_from(*value) {
                Ok(value) => 64 - value.leading_zeros() as usize,
                Err(_) => 0,
            };
            counts[octave] += 1;
        }
        let used = |octave: &usize| counts[*octave] > 0;
        let (Some(first), Some(last)) = ((0..65).find(used), (0..65).rfind(used)) else {
            return Vec::new();
        };
        (first..=last)
            .map(|octave| {
                (
                    1i64.checked_shl(octave as u32)
                        .filter(|it| *it > 0)
                        .unwrap_or(i64::MAX),
                    counts[octave],
                )
            })
            .collect()
    }

    fn sort(&mut self) {
        if !self.is_sorted {
            self.values.sort_unstable();
            self.is_sorted = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[i64]) -> Histogram {
        let mut histogram = Histogram::default();
        for value in values {
            histogram.add(*value);
        }
        histogram
    }

    #[test]
    fn percentiles_are_values() {
        let mut hundred = of(&(1..=100).rev().collect::<Vec<i64>>());
        assert_eq!(
            [0, 50, 99, 100].map(|p| hundred.percentile(p)),
            [1, 50, 99, 100]
        );
        assert_eq!((hundred.mean(), hundred.max()), (50.5, 100));
        let mut none = of(&[]);
        assert_eq!(
            (none.percentile(99), none.max(), none.octaves().len()),
            (0, 0, 0)
        );
    }

    #[test]
    fn octaves_have_no_gaps_and_hold_all() {
        let octaves = of(&[-5, 0, 1, 2, 3, 9, i64::MAX]).octaves();
        assert_eq!(octaves[..5], [(1, 2), (2, 1), (4, 2), (8, 0), (16, 1)]);
        assert_eq!(octaves.last(), Some(&(i64::MAX, 1)));
        assert_eq!(octaves.iter().map(|(_, count)| count).sum::<u64>(), 7);
    }
}
