// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frame schedules (003 section 3.2.5): when a member is to run, as delays in milliseconds from one frame to the next.
//!
//! ```csv
//! delay_ms,length_ms
//! 0,4
//! 33.4,4
//! 33.3,6.5
//! ```
//!
//! The first delay is from the trigger. A line may have no length: then it is the member's `interval`. Lines that are empty
//! or begin with `#` mean nothing, and the heading may be missing.

use consort_rates::{duration::parse_ns, rate::Rate};

use crate::{units::shown_ns, Problem, Problems};

/// Intervals of one schedule.
pub const INTERVALS_MAX: usize = 16_384;
/// No interval is shorter: what switching costs would be much of it.
pub const INTERVAL_MIN_NS: u64 = 100_000;
/// The end of the last interval.
pub const LENGTH_MAX_NS: u64 = 30 * 24 * 3600 * 1_000_000_000;

const HEADINGS: [&str; 2] = ["delay_ms", "length_ms"];
/// Told at once.
const PROBLEMS_MAX: usize = 100;

/// When a member is to run, in nanoseconds after the trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub start_ns: u64,
    pub end_ns: u64,
}

/// Reads a schedule; `length_ns` is that of lines without one. `file` is what it is called in messages.
///
/// # Errors
/// All that is wrong with it.
pub fn read(file: &str, text: &str, length_ns: u64) -> Result<Vec<Interval>, Problems> {
    let mut intervals: Vec<Interval> = Vec::new();
    let mut list = Vec::new();
    let (mut start_ns, mut before_line) = (0u64, 0);
    for (number, line) in text.lines().enumerate() {
        let (line_number, line) = (number + 1, line.trim());
        let is_heading = intervals.is_empty() && line.starts_with(HEADINGS[0]);
        if line.is_empty() || line.starts_with('#') || is_heading || list.len() >= PROBLEMS_MAX {
            continue;
        }
        let mut tell = |key: &str, text: String| {
            list.push(Problem {
                line: line_number,
                key: key.to_owned(),
                text,
            });
        };
        let (delay_ns, length_ns) = match read_line(line, length_ns) {
            Ok(read) => read,
            Err((key, text)) => {
                tell(key, text);
                continue;
            }
        };
        start_ns = start_ns.saturating_add(delay_ns);
        let end_ns = start_ns.saturating_add(length_ns);
        if length_ns < INTERVAL_MIN_NS {
            tell(
                HEADINGS[1],
                format!("{} is too short: expected at least 0.1", ms(length_ns)),
            );
        }
        if let Some(before) = intervals.last().filter(|before| before.end_ns > start_ns) {
            let lasts_ns = before.end_ns - before.start_ns;
            let text = format!(
                "{} after the frame before, of line {before_line}, which takes {}: expected at least that",
                ms(delay_ns),
                ms(lasts_ns)
            );
            tell(HEADINGS[0], text);
        }
        if end_ns > LENGTH_MAX_NS {
            tell(
                HEADINGS[0],
                "more than 30 days after the trigger: expected less".to_owned(),
            );
        }
        intervals.push(Interval { start_ns, end_ns });
        before_line = line_number;
    }
    let whole = |text: String| Problem {
        line: 1,
        key: String::new(),
        text,
    };
    if intervals.is_empty() && list.is_empty() {
        list.push(whole(
            "no frames: expected a delay in milliseconds in each line".to_owned(),
        ));
    }
    if intervals.len() > INTERVALS_MAX {
        let text = format!(
            "{} frames: expected at most {INTERVALS_MAX}; load them in parts, or repeat a shorter schedule",
            intervals.len()
        );
        list.push(whole(text));
    }
    match list.is_empty() {
        true => Ok(intervals),
        false => Err(Problems {
            file: file.to_owned(),
            list,
        }),
    }
}

/// A line's delay and length; or the column that is wrong, and why.
fn read_line(line: &str, length_ns: u64) -> Result<(u64, u64), (&'static str, String)> {
    let mut columns = line.split(',').map(str::trim);
    let delay = columns.next().unwrap_or_default();
    let length = columns.next().filter(|length| !length.is_empty());
    if let Some(more) = columns.next() {
        let text = format!("{more:?} is one column too many: expected delay_ms and length_ms");
        return Err(("", text));
    }
    let number = |key, text: &str| {
        let ns = parse_ns(&format!("{text}ms"));
        let expected =
            || format!("{text:?} is no number of milliseconds: expected one such as 33.4");
        ns.map_err(|_| (key, expected()))
    };
    let delay_ns = number(HEADINGS[0], delay)?;
    let length_ns = match length {
        Some(length) => number(HEADINGS[1], length)?,
        None => length_ns,
    };
    Ok((delay_ns, length_ns))
}

/// Milliseconds as in the file.
fn ms(ns: u64) -> String {
    format!("{}", ns as f64 / 1e6)
}

/// Intervals that need more time than was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMuch {
    /// From 0 on: the first and the last of them.
    pub first: usize,
    pub last: usize,
    /// What they need within the promise's period.
    pub needed_ns: u64,
    pub promised_ns: u64,
    pub period_ns: u64,
}

/// Whether a rate has time for a schedule, in every window as long as the period over which it was promised, beside others
/// that need `others_ns` of such a window. The schedule begins anew after `repeat_ns`; 0: it does not.
///
/// # Errors
/// The first intervals for which it has not.
pub fn check_rate(
    intervals: &[Interval],
    repeat_ns: u64,
    rate: Rate,
    period_ns: u64,
    others_ns: u64,
) -> Result<(), TooMuch> {
    let promised_ns = u128::from(rate.0) * u128::from(period_ns) / 1_000_000;
    let promised_ns = u64::try_from(promised_ns).unwrap_or(u64::MAX);
    let left_ns = promised_ns.saturating_sub(others_ns);
    let too_much = find_window(intervals, repeat_ns, period_ns, |window| {
        window.needed_ns > left_ns
    });
    match too_much {
        None => Ok(()),
        Some(window) => Err(TooMuch {
            first: window.first,
            last: window.last,
            needed_ns: window.needed_ns,
            promised_ns: left_ns,
            period_ns,
        }),
    }
}

/// The most that a schedule needs in any window of that length.
pub fn most_needed_ns(intervals: &[Interval], repeat_ns: u64, window_ns: u64) -> u64 {
    let mut most_ns = 0;
    find_window(intervals, repeat_ns, window_ns, |window| {
        most_ns = most_ns.max(window.needed_ns);
        false
    });
    most_ns
}

/// What is in a window: the first and the last of its intervals, and their time.
struct Window {
    first: usize,
    last: usize,
    needed_ns: u64,
}

/// Of the windows that begin with an interval, the first that is looked for.
fn find_window(
    intervals: &[Interval],
    repeat_ns: u64,
    window_ns: u64,
    mut is_it: impl FnMut(&Window) -> bool,
) -> Option<Window> {
    let count = intervals.len();
    // Whole rounds are in every window; what is left of it is shorter than one, and ends in the next.
    let (rounds, rest_ns) = match repeat_ns {
        0 => (0, window_ns),
        _ => (window_ns / repeat_ns, window_ns % repeat_ns),
    };
    let length_ns = |one: &Interval| one.end_ns - one.start_ns;
    let in_rounds_ns = rounds.saturating_mul(intervals.iter().map(length_ns).sum());
    let at = |number: usize| {
        let later_ns = if number < count { 0 } else { repeat_ns };
        let one = intervals[number % count];
        Interval {
            start_ns: one.start_ns.saturating_add(later_ns),
            end_ns: one.end_ns.saturating_add(later_ns),
        }
    };
    let all = if repeat_ns == 0 { count } else { 2 * count };
    let mut last = 0;
    let mut needed_ns = 0u64;
    for (first, one) in intervals.iter().enumerate() {
        let until_ns = one.start_ns.saturating_add(rest_ns);
        while last < all && at(last).start_ns < until_ns {
            needed_ns += length_ns(&at(last));
            last += 1;
        }
        // The last one may go on beyond the window; of a window that is whole rounds nothing is left.
        let beyond_ns = match last.checked_sub(1).filter(|last| *last >= first) {
            Some(last) => at(last).end_ns.saturating_sub(until_ns),
            None => 0,
        };
        let window = Window {
            first: if rounds == 0 { first } else { 0 },
            last: match rounds {
                0 => last.saturating_sub(1) % count,
                _ => count - 1,
            },
            needed_ns: in_rounds_ns.saturating_add(needed_ns - beyond_ns),
        };
        if is_it(&window) {
            return Some(window);
        }
        if last > first {
            needed_ns -= length_ns(one);
        } else {
            last = first + 1;
        }
    }
    None
}

impl std::fmt::Display for TooMuch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TooMuch {
            needed_ns,
            promised_ns,
            period_ns,
            ..
        } = *self;
        match self.first == self.last {
            true => write!(f, "frame {} needs", self.first + 1)?,
            false => write!(f, "frames {} to {} need", self.first + 1, self.last + 1)?,
        }
        write!(
            f,
            " {} of {}, and the rate has {} left: expected shorter intervals, or a higher rate",
            shown_ns(needed_ns),
            shown_ns(period_ns),
            shown_ns(promised_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn at(start_ms: u64, length_ms: u64) -> Interval {
        Interval {
            start_ns: start_ms * MS,
            end_ns: (start_ms + length_ms) * MS,
        }
    }

    #[test]
    fn delays_are_from_frame_to_frame() {
        let text = "# a film\ndelay_ms,length_ms\n5,4\n\n33 , 6\n40\n";
        assert_eq!(
            read("f.csv", text, 2 * MS),
            Ok(vec![at(5, 4), at(38, 6), at(78, 2)])
        );
        let plain = read("f.csv", "0\n33.366667\n", 4 * MS).unwrap();
        assert_eq!(plain[1].start_ns, 33_366_667);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("", "f.csv:1: no frames: expected a delay in milliseconds in each line"),
            ("1\nx", "f.csv:2: delay_ms: \"x\" is no number of milliseconds: expected one such as 33.4"),
            ("-1", "f.csv:1: delay_ms: \"-1\" is no number of milliseconds: expected one such as 33.4"),
            ("1,2,3", "f.csv:1: \"3\" is one column too many: expected delay_ms and length_ms"),
            ("1,0.05", "f.csv:1: length_ms: 0.05 is too short: expected at least 0.1"),
            (
                "1,4\n#\n3,4",
                "f.csv:3: delay_ms: 3 after the frame before, of line 1, which takes 4: expected at least that",
            ),
            ("99999999999", "f.csv:1: delay_ms: more than 30 days after the trigger: expected less"),
            ("1,nan", "f.csv:1: length_ms: \"nan\" is no number of milliseconds: expected one such as 33.4"),
        ] {
            let problems = read("f.csv", text, 2 * MS).unwrap_err();
            assert_eq!(problems.to_string(), said, "{text}");
        }
        let many = "5\n".repeat(INTERVALS_MAX + 1);
        let problems = read("f.csv", &many, 2 * MS).unwrap_err();
        assert!(problems.to_string().contains("16385 frames"), "{problems}");
        assert!(read("f.csv", &many[2..], 2 * MS).is_ok());
    }

    #[test]
    fn others_leave_less_of_a_rate() {
        let film: Vec<Interval> = (0..10).map(|number| at(number * 33, 4)).collect();
        assert_eq!(most_needed_ns(&film, 0, 33 * MS), 4 * MS);
        assert_eq!(most_needed_ns(&film, 330 * MS, 330 * MS), 40 * MS);
        assert_eq!(most_needed_ns(&[], 0, 33 * MS), 0);
        let rate = Rate::of(0.3).unwrap();
        assert_eq!(check_rate(&film, 0, rate, 33 * MS, 5 * MS), Ok(()));
        let refused = check_rate(&film, 0, rate, 33 * MS, 6 * MS).unwrap_err();
        assert_eq!(
            (refused.needed_ns, refused.promised_ns),
            (4 * MS, 3_900_000)
        );
        assert!(check_rate(&film, 0, rate, 33 * MS, u64::MAX).is_err());
    }

    #[test]
    fn a_rate_has_time_or_has_not() {
        let film: Vec<Interval> = (0..10).map(|number| at(number * 33, 4)).collect();
        let rate = |value: f64| Rate::of(value).unwrap();
        assert_eq!(check_rate(&film, 0, rate(0.13), 33 * MS, 0), Ok(()));
        let refused = check_rate(&film, 0, rate(0.12), 33 * MS, 0).unwrap_err();
        assert_eq!((refused.first, refused.last), (0, 0));
        // Two frames close together.
        let close = [at(0, 4), at(33, 4), at(40, 4), at(73, 4)];
        let refused = check_rate(&close, 0, rate(0.2), 33 * MS, 0).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "frames 2 to 3 need 8ms of 33ms, and the rate has 6600us left: expected shorter intervals, or a higher rate"
        );
        assert_eq!(check_rate(&[], 0, rate(0.2), 33 * MS, 0), Ok(()));
        // One that begins anew is as close to its own beginning.
        assert_eq!(
            check_rate(&film[..1], 33 * MS, rate(0.13), 33 * MS, 0),
            Ok(())
        );
        for (repeat_ms, said) in [
            (20, "frame 1 needs 8ms of 33ms"),
            (4, "frame 1 needs 33ms of 33ms"),
        ] {
            let refused =
                check_rate(&film[..1], repeat_ms * MS, rate(0.2), 33 * MS, 0).unwrap_err();
            assert!(refused.to_string().starts_with(said), "{refused}");
        }
    }

    proptest! {
        /// The check is the sum over every window that begins with an interval.
        #[test]
        fn every_window_is_looked_at(
            frames in prop::collection::vec((1u64..40, 1u64..20), 1..30),
            percent in 1u64..101,
            period_ms in 1u64..100,
            rest_ms in prop::option::of(0u64..50),
        ) {
            let mut end_ms = 0;
            let intervals: Vec<Interval> = frames
                .iter()
                .map(|(gap_ms, length_ms)| {
                    let start_ms = end_ms + gap_ms;
                    end_ms = start_ms + length_ms;
                    at(start_ms, *length_ms)
                })
                .collect();
            let repeat_ns = rest_ms.map_or(0, |rest_ms| (end_ms + rest_ms) * MS);
            let rounds = (period_ms * MS).checked_div(repeat_ns).map_or(1, |rounds| 2 + rounds);
            let all: Vec<Interval> = (0..rounds)
                .flat_map(|round| intervals.iter().map(move |one| Interval {
                    start_ns: one.start_ns + round * repeat_ns,
                    end_ns: one.end_ns + round * repeat_ns,
                }))
                .collect();
            let needed = |from_ns: u64, until_ns: u64| -> u64 {
                let parts = all.iter().map(|one| {
                    one.end_ns.min(until_ns).saturating_sub(one.start_ns.max(from_ns))
                });
                parts.sum()
            };
            let period_ns = period_ms * MS;
            let promised_ns = period_ns * percent / 100;
            let fits = intervals
                .iter()
                .all(|one| needed(one.start_ns, one.start_ns + period_ns) <= promised_ns);
            let rate = Rate(percent * 10_000);
            prop_assert_eq!(check_rate(&intervals, repeat_ns, rate, period_ns, 0).is_ok(), fits);
        }
    }
}
