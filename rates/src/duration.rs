// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durations as users write them, on the command line and in scenarios: a number and a unit, such as `10ms`.

/// Units and their lengths in nanoseconds.
const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses `10ms`, `200us` or `1.5ms` into nanoseconds.
///
/// # Errors
/// A text that says what is wrong and what is expected.
pub fn parse_ns(text: &str) -> Result<u64, String> {
    const EXPECTED: &str =
        "expected a number and a unit, such as 10ms or 200us (units: ns, us, ms, s, min, h)";
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(|| format!("{text:?} has no unit: {EXPECTED}"))?;
    let (number, unit) = text.split_at(split);
    let (_, unit_ns) = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| format!("unknown unit {unit:?}: {EXPECTED}"))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let malformed = || format!("{number:?} is no number: {EXPECTED}");
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) {
        return Err(malformed());
    }
    let too_long = || format!("{text} is too long: expected less than 584 years");
    let whole: u64 = whole.parse().map_err(|_| too_long())?;
    let whole_ns = whole.checked_mul(*unit_ns).ok_or_else(too_long)?;
    let fraction_ns = parse_fraction(fraction, *unit_ns).ok_or_else(malformed)?;
    whole_ns.checked_add(fraction_ns).ok_or_else(too_long)
}

/// Nanoseconds of the digits after the point; what is below a nanosecond is dropped.
fn parse_fraction(digits: &str, unit_ns: u64) -> Option<u64> {
    let mut ns = 0;
    let mut place_ns = unit_ns;
    for digit in digits.chars() {
        place_ns /= 10;
        ns += u64::from(digit.to_digit(10)?) * place_ns;
    }
    Some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_understood() {
        for (text, ns) in [
            ("0ns", 0),
            ("7ns", 7),
            ("200us", 200_000),
            ("10ms", 10_000_000),
            ("1.5ms", 1_500_000),
            ("0.000001ms", 1),
            ("2s", 2_000_000_000),
            ("1.5min", 90_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(parse_ns(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn errors_name_what_was_wrong() {
        for (text, part) in [
            ("10", "no unit"),
            ("", "no unit"),
            ("ms", "no number"),
            ("10m", "unknown unit \"m\""),
            ("10 ms", "unknown unit"),
            ("-1ms", "unknown unit"),
            ("1.2.3ms", "no number"),
            ("1.ms", "no number"),
            ("99999999999999999999s", "too long"),
            ("18446744074s", "too long"),
        ] {
            let error = parse_ns(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
