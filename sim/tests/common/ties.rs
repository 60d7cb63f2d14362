// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a simulated sequence is a recorded one, but for ties.
//!
//! Problem  A callback about one task and one about another may come in either order where microseconds decide, and a
//!          model is not right to the microsecond.
//! Rule     Two entries of a recording that are at most [`TIE_NS`] apart and about different tasks may come in either
//!          order. All others come as they were recorded, and nothing is left out or comes in addition.

use super::recording::Entry;

/// Recording one entry takes half of this.
pub const TIE_NS: u64 = 5_000;

/// How far two sequences are the same: so many entries of each.
#[derive(Debug, PartialEq)]
pub struct Same {
    pub recorded: usize,
    pub simulated: usize,
    /// Entries that came before one that was recorded earlier.
    pub overtook: usize,
}

/// Looks for each of the first `count` recorded entries in the simulated sequence; later ones may tie with them.
///
/// # Errors
/// How far the two are the same before something else differs.
pub fn compare(recorded: &[Entry], count: usize, simulated: &[Entry]) -> Result<Same, Same> {
    let mut found = vec![false; recorded.len()];
    let mut same = Same {
        recorded: 0,
        simulated: 0,
        overtook: 0,
    };
    while same.recorded < count {
        let first = same.recorded;
        let number = simulated
            .get(same.simulated)
            .and_then(|entry| next(recorded, &found, first, entry));
        let Some(number) = number else {
            return Err(same);
        };
        found[number] = true;
        same.simulated += 1;
        same.overtook += usize::from(number != first);
        while found.get(same.recorded) == Some(&true) {
            same.recorded += 1;
        }
    }
    Ok(same)
}

/// The recorded entry that is this one, if those from `first` on that are not found yet may come after it.
fn next(recorded: &[Entry], found: &[bool], first: usize, entry: &Entry) -> Option<usize> {
    let earliest_ns = recorded.get(first)?.at_ns;
    let tied = recorded[first..]
        .iter()
        .take_while(|it| it.at_ns - earliest_ns <= TIE_NS);
    let waiting = tied.enumerate().map(|(number, it)| (first + number, it));
    let mut waiting = waiting.filter(|(number, _)| !found[*number]);
    // The first that is about one of its tasks must be it.
    let (number, it) = waiting.find(|(_, it)| is_about_same(it, entry))?;
    (it.text == entry.text).then_some(number)
}

/// Whether a task occurs in both; nobody, `-`, is none.
fn is_about_same(one: &Entry, other: &Entry) -> bool {
    if one.text == other.text {
        return true;
    }
    let names = |entry: &Entry| -> Vec<String> {
        let names = entry.text.split(' ').skip(1).filter(|name| *name != "-");
        names
            .map(|name| name.trim_end_matches('+').to_owned())
            .collect()
    };
    let of_other = names(other);
    names(one).iter().any(|name| of_other.contains(name))
}
