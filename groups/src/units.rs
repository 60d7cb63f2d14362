// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durations as people write them, so that what is shown can be given back.

/// In the largest unit that needs no fraction.
pub(crate) fn shown_ns(ns: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let whole = units
        .into_iter()
        .find(|(_, unit_ns)| ns > 0 && ns.is_multiple_of(*unit_ns));
    match whole {
        Some((unit, unit_ns)) => format!("{}{unit}", ns / unit_ns),
        None => format!("{ns}ns"),
    }
}
