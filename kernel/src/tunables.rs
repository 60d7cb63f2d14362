// SPDX-License-Identifier: GPL-2.0-only
//! What can be set while the scheduler runs, and within which bounds.

use serde::{Deserialize, Serialize};

use crate::Error;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tunables {
    /// The time within which every runnable task gets its turn; slices are this divided by their number.
    pub granularity_ns: u64,
    /// No slice is shorter than this.
    pub min_slice_ns: u64,
    /// How far a domain may borrow ahead for due events. Fixed when the scheduler is loaded.
    pub window_ns: u64,
}

/// New values for some of the tunables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunablesChange {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granularity_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_slice_ns: Option<u64>,
}

/// Below 100 us switching costs more than it serves; above 1 s tasks look hung.
pub const GRANULARITY_NS: (u64, u64) = (100_000, 1_000_000_000);
pub const MIN_SLICE_NS: (u64, u64) = (10_000, 100_000_000);

impl TunablesChange {
    /// This change, and of `other` what this one leaves alone.
    pub fn or(self, other: TunablesChange) -> TunablesChange {
        TunablesChange {
            granularity_ns: self.granularity_ns.or(other.granularity_ns),
            min_slice_ns: self.min_slice_ns.or(other.min_slice_ns),
        }
    }

    /// The tunables that result from applying this change to `current`.
    ///
    /// # Errors
    /// [`Error::Tunable`] when a value is out of its range, or the slice exceeds the granularity.
    pub fn apply(&self, current: Tunables) -> Result<Tunables, Error> {
        let new = Tunables {
            granularity_ns: self.granularity_ns.unwrap_or(current.granularity_ns),
            min_slice_ns: self.min_slice_ns.unwrap_or(current.min_slice_ns),
            window_ns: current.window_ns,
        };
        in_range("granularity", new.granularity_ns, GRANULARITY_NS)?;
        let slice_max = MIN_SLICE_NS.1.min(new.granularity_ns);
        in_range("min-slice", new.min_slice_ns, (MIN_SLICE_NS.0, slice_max))?;
        Ok(new)
    }
}

fn in_range(name: &'static str, value_ns: u64, (min_ns, max_ns): (u64, u64)) -> Result<(), Error> {
    if (min_ns..=max_ns).contains(&value_ns) {
        return Ok(());
    }
    Err(Error::Tunable {
        name,
        value_ns,
        min_ns,
        max_ns,
    })
}

/// Writes nanoseconds with the largest unit that keeps the number whole: `200us`.
pub fn format_ns(ns: u64) -> String {
    const UNITS: [(&str, u64); 4] = [
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let fits = |(_, unit_ns): &&(&str, u64)| ns >= *unit_ns && ns.is_multiple_of(*unit_ns);
    match UNITS.iter().find(fits) {
        Some((name, unit_ns)) => format!("{}{name}", ns / unit_ns),
        None => format!("{ns}ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Tunables = Tunables {
        granularity_ns: 10_000_000,
        min_slice_ns: 200_000,
        window_ns: 6_000_000,
    };

    #[test]
    fn what_is_not_named_stays() {
        let change = TunablesChange {
            granularity_ns: Some(20_000_000),
            ..TunablesChange::default()
        };
        let new = change.apply(NOW).unwrap();
        assert_eq!(new.granularity_ns, 20_000_000);
        assert_eq!(new.min_slice_ns, NOW.min_slice_ns);
        assert_eq!(new.window_ns, NOW.window_ns);
    }

    #[test]
    fn a_slice_longer_than_the_granularity_is_refused_from_either_side() {
        let slice = TunablesChange {
            min_slice_ns: Some(11_000_000),
            ..TunablesChange::default()
        };
        let text = slice.apply(NOW).unwrap_err().to_string();
        assert!(
            text.contains("min-slice") && text.contains("to 10ms"),
            "{text}"
        );
        let granularity = TunablesChange {
            granularity_ns: Some(150_000),
            ..TunablesChange::default()
        };
        assert!(granularity.apply(NOW).is_err());
    }

    #[test]
    fn nanoseconds_are_written_with_the_unit_that_fits() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (200_000, "200us"),
            (1_500_000, "1500us"),
            (3_000_000_000, "3s"),
        ] {
            assert_eq!(format_ns(ns), text);
        }
    }

    #[test]
    fn both_ends_of_a_range_are_in_it() {
        for (value, ok) in [
            (99_999, false),
            (100_000, true),
            (1_000_000_000, true),
            (1_000_000_001, false),
        ] {
            let change = TunablesChange {
                granularity_ns: Some(value),
                min_slice_ns: Some(10_000),
            };
            assert_eq!(change.apply(NOW).is_ok(), ok, "{value}");
        }
    }
}
