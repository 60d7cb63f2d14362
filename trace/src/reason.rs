// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a thread had a CPU.

use consort_abi::*;

/// Why a thread ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Nobody: the CPU was idle.
    Idle,
    /// It has a deadline of the kernel's (SCHED_DEADLINE).
    Deadline,
    /// It is real time (SCHED_FIFO, SCHED_RR).
    RealTime,
    /// The stock scheduler, or another one, let it run.
    Stock,
    /// Its turn, by its share.
    Slice,
    /// Its due event had expired.
    Due,
    /// The same, ahead of its domain's share.
    Borrowed,
    /// Its reservation's turn.
    Reserved,
    /// Interrupts, whoever ran then.
    Interrupt,
}

/// Each with the record's number and its word.
const ALL: [(Reason, u32, &str); 9] = [
    (Reason::Idle, CONSORT_TRACE_IDLE, "idle"),
    (Reason::Deadline, CONSORT_TRACE_DEADLINE, "deadline"),
    (Reason::RealTime, CONSORT_TRACE_REAL_TIME, "real time"),
    (Reason::Stock, CONSORT_TRACE_STOCK, "stock slice"),
    (Reason::Slice, CONSORT_TRACE_SLICE, "slice"),
    (Reason::Due, CONSORT_TRACE_DUE_EVENT, "due event"),
    (Reason::Borrowed, CONSORT_TRACE_BORROWED, "borrowed"),
    (Reason::Reserved, CONSORT_TRACE_RESERVED, "reserved"),
    (Reason::Interrupt, CONSORT_TRACE_INTERRUPT, "interrupt"),
];

impl Reason {
    /// As tables, CSV and JSON spell it.
    pub fn word(self) -> &'static str {
        ALL[self as usize].2
    }

    /// `enum consort_trace_reason`.
    pub fn number(self) -> u16 {
        ALL[self as usize].1 as u16
    }

    pub(crate) fn of_number(number: u16) -> Option<Reason> {
        let found = ALL.iter().find(|(_, it, _)| *it == u32::from(number));
        found.map(|(reason, ..)| *reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (index, (reason, number, _)) in ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            assert_eq!(Reason::of_number(number as u16), Some(reason));
        }
        assert_eq!(Reason::of_number(99), None);
    }
}
