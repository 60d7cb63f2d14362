// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates: parts of one CPU, exact to a millionth, so that sums of what was granted never drift from what is there.

use std::fmt;

use nix::errno::Errno;

use crate::{Refusal, RATE_ONE};

pub const MILLION: u64 = 1_000_000;
/// A rate below this is less than what switching to its owner costs.
pub const RATE_MIN: Rate = Rate(100);

/// A rate of one thing, or the sum of many: millionths of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Rate(pub u64);

impl Rate {
    pub const ONE: Rate = Rate(MILLION);

    /// What a user asks for: a part of one CPU.
    ///
    /// # Errors
    /// ERANGE for what is no number, not above 0, below [`RATE_MIN`] or above one CPU.
    pub fn asked(value: f64) -> Result<Rate, Refusal> {
        let rate = Rate::of(value).filter(|rate| (RATE_MIN..=Rate::ONE).contains(rate));
        rate.ok_or_else(|| {
            let text = format!(
                "rate {value} is out of range: expected a part of one CPU, {RATE_MIN} to {}",
                Rate::ONE
            );
            Refusal::new(Errno::ERANGE, text)
        })
    }

    /// The nearest rate; `None` for what is negative or no number, or more than any machine has.
    pub fn of(value: f64) -> Option<Rate> {
        let millionths = (value * MILLION as f64).round();
        (0.0..1e15)
            .contains(&millionths)
            .then_some(Rate(millionths as u64))
    }

    pub fn value(self) -> f64 {
        self.0 as f64 / MILLION as f64
    }

    /// In the scheduler's parts of one CPU; not 0.
    pub fn weight(self) -> u32 {
        let parts = self.0 * u64::from(RATE_ONE) / MILLION;
        u32::try_from(parts.max(1)).unwrap_or(u32::MAX)
    }

    /// `self * part / whole`, without overflow; all of it when there is no whole.
    pub fn share(self, part: Rate, whole: Rate) -> Rate {
        match whole.0 {
            0 => self,
            whole => {
                let share = u128::from(self.0) * u128::from(part.0) / u128::from(whole);
                Rate(u64::try_from(share).unwrap_or(u64::MAX))
            }
        }
    }
}

impl std::ops::Add for Rate {
    type Output = Rate;

    fn add(self, other: Rate) -> Rate {
        Rate(self.0.saturating_add(other.0))
    }
}

impl std::ops::Sub for Rate {
    type Output = Rate;

    fn sub(self, other: Rate) -> Rate {
        Rate(self.0.saturating_sub(other.0))
    }
}

impl std::iter::Sum for Rate {
    fn sum<I: Iterator<Item = Rate>>(rates: I) -> Rate {
        rates.fold(Rate::default(), |sum, rate| sum + rate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_rate_is_refused() {
        for value in [0.0, -0.0, -0.3, 0.00004, 1.0000006, 7.0, 1e300] {
            let refusal = Rate::asked(value).unwrap_err();
            assert_eq!(refusal.errno, Errno::ERANGE, "{value}");
        }
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refusal = Rate::asked(value).unwrap_err();
            assert!(refusal.text.contains("out of range"), "{}", refusal.text);
        }
        assert_eq!(Rate::asked(1.0), Ok(Rate::ONE));
        assert_eq!(Rate::asked(0.0001), Ok(RATE_MIN));
    }

    #[test]
    fn tenths_add_up() {
        let sum: Rate = std::iter::repeat_n(Rate::asked(0.1).unwrap(), 10).sum();
        assert_eq!(sum, Rate::ONE);
        assert_eq!(sum.weight(), RATE_ONE);
        assert_eq!(sum.to_string(), "1");
        assert_eq!(Rate::asked(0.333333).unwrap().to_string(), "0.333333");
    }

    #[test]
    fn shares_do_not_overflow() {
        let all = Rate(64 * MILLION);
        assert_eq!(all.share(Rate(1), Rate(4)), Rate(16 * MILLION));
        assert_eq!(Rate(u64::MAX).share(Rate(2), Rate(2)), Rate(u64::MAX));
        assert_eq!(all.share(Rate(5), Rate(0)), all);
    }
}
