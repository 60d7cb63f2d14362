// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler records of members: made when one joins, removed when it leaves.

use std::mem::size_of;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::{
    skeleton::interface::{consort_record, consort_second, RECORD_BUCKETS},
    Tardiness,
};

/// A member's key in the map.
fn key(client: u32, slot: u32) -> [u8; 4] {
    (client * 64 + slot).to_ne_bytes()
}

/// Begins a member's record. Without room for one more it has none.
pub(crate) fn begin(records: &MapHandle, client: u32, slot: u32) {
    let empty = [0; size_of::<consort_record>()];
    let _ = records.update(&key(client, slot), &empty, MapFlags::ANY);
}

pub(crate) fn end(records: &MapHandle, client: u32, slot: u32) {
    let _ = records.delete(&key(client, slot));
}

/// What a member's record says of the last `seconds` before `now_ns`; `None`: it has none.
pub(crate) fn read(
    records: &MapHandle,
    client: u32,
    slot: u32,
    now_ns: u64,
    seconds: u32,
) -> Option<Tardiness> {
    let bytes = records
        .lookup(&key(client, slot), MapFlags::ANY)
        .ok()
        .flatten()?;
    if bytes.len() < size_of::<consort_record>() {
        return None;
    }
    // SAFETY: integers only, for which any bytes are a value, and enough are there.
    let record = unsafe { bytes.as_ptr().cast::<consort_record>().read_unaligned() };
    Some(summary(&record, now_ns, seconds))
}

fn summary(record: &consort_record, now_ns: u64, seconds: u32) -> Tardiness {
    let now_s = (now_ns / 1_000_000_000) as u32;
    let is_recent =
        |second: &&consort_second| second.events > 0 && now_s.wrapping_sub(second.second) < seconds;
    let mut told = Tardiness {
        demotions: record.demotions,
        why: record.why,
        why_late_ns: record.why_late_ns,
        ..Tardiness::default()
    };
    let mut sum_ns = 0u64;
    let mut buckets = [0u64; RECORD_BUCKETS as usize];
    for second in record.seconds.iter().filter(is_recent) {
        told.events += u64::from(second.events);
        sum_ns = sum_ns.saturating_add(second.late_ns);
        told.max_ns = told.max_ns.max(second.late_max_ns);
        for (sum, count) in buckets.iter_mut().zip(&second.buckets) {
            *sum += u64::from(*count);
        }
    }
    told.mean_ns = sum_ns.checked_div(told.events).unwrap_or_default();
    told.p99_ns = percentile_ns(&buckets, told.events, 99).min(told.max_ns);
    told
}

/// What `percent` of the events were later than at most: the upper end of the bucket in which that is.
fn percentile_ns(buckets: &[u64], events: u64, percent: u64) -> u64 {
    let below = (events * percent).div_ceil(100);
    let mut seen = 0;
    for (bucket, count) in buckets.iter().enumerate() {
        seen += count;
        if seen >= below {
            return upper_end_ns(bucket);
        }
    }
    u64::MAX
}

fn upper_end_ns(bucket: usize) -> u64 {
    let octave_ns = |octave: usize| 1024u64 << octave;
    match bucket {
        0 => 1024,
        odd if odd % 2 == 1 => octave_ns(odd / 2) / 2 * 3,
        even => octave_ns(even / 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seconds_are_summed_and_older_ones_are_not() {
        // SAFETY: integers only.
        let mut record: consort_record = unsafe { std::mem::zeroed() };
        record.seconds[0] = consort_second {
            second: 32,
            events: 99,
            late_ns: 99_000,
            late_max_ns: 1_000,
            buckets: [0; RECORD_BUCKETS as usize],
        };
        record.seconds[0].buckets[0] = 99;
        record.seconds[1] = record.seconds[0];
        record.seconds[1].second = 17;
        record.seconds[2] = consort_second {
            second: 34,
            events: 1,
            late_ns: 5_000_000,
            late_max_ns: 5_000_000,
            buckets: [0; RECORD_BUCKETS as usize],
        };
        record.seconds[2].buckets[25] = 1;
        let told = summary(&record, 34_500_000_000, 10);
        assert_eq!((told.events, told.max_ns), (100, 5_000_000));
        assert_eq!(told.mean_ns, 50_990);
        assert_eq!(told.p99_ns, 1_024);
        let told = summary(&record, 34_500_000_000, 2);
        assert_eq!((told.events, told.p99_ns), (1, 5_000_000));
        assert_eq!(summary(&record, 90_000_000_000, 10).events, 0);
    }

    #[test]
    fn buckets_are_half_octaves() {
        assert_eq!(upper_end_ns(1), 1536);
        assert_eq!(upper_end_ns(2), 2048);
        assert_eq!(upper_end_ns(3), 3072);
    }
}
