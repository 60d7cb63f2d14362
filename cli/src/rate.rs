// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates on the command line: `0.3`, `30%`, `auto`, `auto:0.05-0.5`.

use serde_json::{json, Value};

/// What an automatic rate may be unless the command line says otherwise.
const LEAST: f64 = 0.01;
const MOST: f64 = 1.0;

/// Parts of one CPU; the daemon knows what is sensible.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    Fixed(f64),
    Auto { least: f64, most: f64 },
}

impl Rate {
    /// As the daemon wants it.
    pub fn to_json(self) -> Value {
        match self {
            Rate::Fixed(rate) => json!(rate),
            Rate::Auto { least, most } => json!({"least": least, "most": most}),
        }
    }
}

const AUTOMATIC: &str = ", or auto, or auto:LEAST-MOST";

/// A part of one CPU, or that in percent. JSON has no word for what is no number.
fn number(text: &str, or_else: &str) -> Result<f64, String> {
    let parsed = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match parsed {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!(
            "{text:?} is no rate: expected a part of one CPU, 0.0001 to 1, or 0.01% to 100%{or_else}"
        )),
    }
}

/// Parses a rate that is a number.
///
/// # Errors
/// A text that says what is wrong and what is expected.
pub fn parse_fixed(text: &str) -> Result<f64, String> {
    number(text, "")
}

/// Parses a rate.
///
/// # Errors
/// A text that says what is wrong and what is expected.
pub fn parse(text: &str) -> Result<Rate, String> {
    match text.strip_prefix("auto") {
        None => number(text, AUTOMATIC).map(Rate::Fixed),
        Some("") => Ok(Rate::Auto {
            least: LEAST,
            most: MOST,
        }),
        Some(range) => {
            let parts = range
                .strip_prefix(':')
                .and_then(|range| range.split_once('-'));
            let (least, most) = parts.unwrap_or((text, text));
            Ok(Rate::Auto {
                least: number(least, AUTOMATIC)?,
                most: number(most, AUTOMATIC)?,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_or_automatic() {
        assert_eq!(parse("0.3"), Ok(Rate::Fixed(0.3)));
        assert_eq!(parse("30%"), Ok(Rate::Fixed(0.3)));
        assert_eq!(parse_fixed("2.5%"), Ok(0.025));
        // Numbers that are out of range are the daemon's to refuse.
        assert_eq!(parse("-2"), Ok(Rate::Fixed(-2.0)));
        let auto = |least, most| Ok(Rate::Auto { least, most });
        assert_eq!(parse("auto"), auto(0.01, 1.0));
        assert_eq!(parse("auto:0.05-0.5"), auto(0.05, 0.5));
        assert_eq!(parse("auto:5%-50%"), auto(0.05, 0.5));
        for text in [
            "",
            "nan",
            "inf",
            "%",
            "30 percent",
            "auto:",
            "auto:0.1",
            "automatic",
            "auto:a-b",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("auto:LEAST-MOST"), "{text}: {error}");
        }
    }
}
