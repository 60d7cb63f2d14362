// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times: a whole number of microseconds, as in rt-app, or a text with a unit, such as `"1.5ms"`; lengths that
//! are drawn anew each time are objects.

use super::{
    error::BadScenario,
    json::{Fields, Node},
};
use crate::{duration::parse_ns, setup::Length};

const NS_PER_US: u64 = 1_000;
const NS_PER_S: u64 = 1_000_000_000;
/// Nothing in a scenario lasts longer: ten days.
const TIME_MAX_NS: u64 = 10 * 24 * 3600 * NS_PER_S;

const EXPECTED: &str =
    "a whole number of microseconds, or a text with a unit, such as \"1.5ms\" (ns, us, ms, s, min, h)";

/// A time in ns; bare numbers are microseconds.
pub fn time_ns(node: &Node<'_>) -> Result<u64, BadScenario> {
    unit_time_ns(node, NS_PER_US, EXPECTED)
}

/// A time in ns; bare numbers are seconds, as in rt-app's `duration`.
pub fn seconds_ns(node: &Node<'_>) -> Result<u64, BadScenario> {
    let expected = "a whole number of seconds, or a text with a unit, such as \"500ms\"";
    unit_time_ns(node, NS_PER_S, expected)
}

fn unit_time_ns(node: &Node<'_>, unit_ns: u64, expected: &str) -> Result<u64, BadScenario> {
    let wrong = || node.error(format!("is {}, expected {expected}", node.shown()));
    let time_ns = if node.is_text() {
        parse_ns(node.text()?).map_err(|_| wrong())?
    } else {
        let number = node.whole(0..=i64::MAX).map_err(|_| wrong())?;
        number.unsigned_abs().saturating_mul(unit_ns)
    };
    if time_ns > TIME_MAX_NS {
        let days = TIME_MAX_NS / NS_PER_S / 24 / 3600;
        return Err(node.error(format!("is {}, expected at most {days} days", node.shown())));
    }
    Ok(time_ns)
}

/// A length that is drawn anew each time: a time, or an object that says from what.
pub fn length(node: &Node<'_>) -> Result<Length, BadScenario> {
    if !node.is_object() {
        let expected = format!("{EXPECTED}, or a distribution such as {{\"uniform\": [100, 200]}}");
        return unit_time_ns(node, NS_PER_US, &expected).map(Length::Fixed);
    }
    let fields = node.fields()?;
    let [field] = fields.entries() else {
        return Err(node.error(
            "has not exactly one key, expected \"uniform\", \"normal\", \"exponential\", \"vbr\" or \"series\"",
        ));
    };
    match field.key.as_str() {
        "uniform" => uniform(&field.node),
        "normal" => normal(&field.node.fields()?),
        "exponential" => Ok(Length::Exponential {
            mean_ns: positive_ns(&field.node)?,
        }),
        "vbr" => Ok(Length::Vbr {
            mean_ns: positive_ns(&field.node)?,
        }),
        "series" => series(&field.node),
        _ => Err(fields.unknown(
            field,
            &["uniform", "normal", "exponential", "vbr", "series"],
        )),
    }
}

fn positive_ns(node: &Node<'_>) -> Result<u64, BadScenario> {
    match time_ns(node)? {
        0 => Err(node.error("is 0, expected more")),
        ns => Ok(ns),
    }
}

fn uniform(node: &Node<'_>) -> Result<Length, BadScenario> {
    let ends = node.list()?;
    let [low, high] = ends.as_slice() else {
        return Err(node.error(format!(
            "has {} entries, expected two: the shortest and the longest time",
            ends.len()
        )));
    };
    let (min_ns, max_ns) = (time_ns(low)?, time_ns(high)?);
    if max_ns < min_ns {
        return Err(high.error("is less than the shortest time, expected at least that"));
    }
    Ok(Length::Uniform { min_ns, max_ns })
}

fn normal(fields: &Fields<'_>) -> Result<Length, BadScenario> {
    let mean_ns = positive_ns(&fields.need("mean", "a time")?)?;
    let deviation_ns = time_ns(&fields.need("deviation", "a time")?)?;
    fields.finish()?;
    Ok(Length::Normal {
        mean_ns,
        deviation_ns,
    })
}

fn series(node: &Node<'_>) -> Result<Length, BadScenario> {
    let times_ns = node
        .list()?
        .iter()
        .map(time_ns)
        .collect::<Result<Vec<_>, _>>()?;
    if times_ns.is_empty() {
        return Err(node.error("is empty, expected at least one time"));
    }
    Ok(Length::Series(times_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::json::Source;

    fn read<T>(
        text: &str,
        parse: impl Fn(&Node<'_>) -> Result<T, BadScenario>,
    ) -> Result<T, BadScenario> {
        let source = Source::new("a", text);
        let value = source.value()?;
        parse(&Node::root(&source, &value))
    }

    #[test]
    fn bare_numbers_are_rt_apps_units() {
        assert_eq!(read("20", time_ns), Ok(20_000));
        assert_eq!(read("20", seconds_ns), Ok(20_000_000_000));
        assert_eq!(read("\"1.5ms\"", time_ns), Ok(1_500_000));
        assert_eq!(read("\"20s\"", seconds_ns), Ok(20_000_000_000));
        assert_eq!(read("\"0.0000015ms\"", time_ns), Ok(1));
    }

    #[test]
    fn other_times_are_refused() {
        for text in [
            "-1",
            "1.5",
            "\"10\"",
            "\"ms\"",
            "\"1.ms\"",
            "\"1d\"",
            "\"11 ms\"",
            "true",
        ] {
            let error = read(text, time_ns).unwrap_err();
            assert!(error.text.contains("microseconds"), "{text}: {error}");
        }
        let error = read("99999999999999999", time_ns).unwrap_err();
        assert!(error.text.contains("at most 10 days"), "{error}");
    }

    #[test]
    fn lengths_are_times_or_distributions() {
        for (text, expected) in [
            ("7", Length::Fixed(7_000)),
            (
                "{\"uniform\": [1, \"2ms\"]}",
                Length::Uniform {
                    min_ns: 1_000,
                    max_ns: 2_000_000,
                },
            ),
            (
                "{\"normal\": {\"mean\": 10, \"deviation\": 3}}",
                Length::Normal {
                    mean_ns: 10_000,
                    deviation_ns: 3_000,
                },
            ),
            (
                "{\"exponential\": 5}",
                Length::Exponential { mean_ns: 5_000 },
            ),
            ("{\"vbr\": \"6.4ms\"}", Length::Vbr { mean_ns: 6_400_000 }),
            ("{\"series\": [1, 2]}", Length::Series(vec![1_000, 2_000])),
        ] {
            assert_eq!(read(text, length), Ok(expected), "{text}");
        }
    }

    #[test]
    fn wrong_distributions_are_explained() {
        for (text, part) in [
            ("{}", "exactly one key"),
            ("{\"unifrom\": [1, 2]}", "did you mean \"uniform\""),
            ("{\"uniform\": [1]}", "expected two"),
            ("{\"uniform\": [2, 1]}", "less than the shortest"),
            ("{\"normal\": {\"mean\": 10}}", "has no \"deviation\""),
            ("{\"vbr\": 0}", "expected more"),
            ("{\"series\": []}", "is empty"),
        ] {
            let error = read(text, length).unwrap_err();
            assert!(error.text.contains(part), "{text}: {error}");
        }
    }
}
