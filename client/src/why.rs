// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why the scheduler demoted a member, in words.

use std::fmt;

const BITS: u32 = consort_abi::CONSORT_WHY_BITS;

/// What a member did when it was last demoted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Why {
    /// It ran on when it should have polled.
    PolledLate {
        /// Beyond its yield-by time.
        late_us: u32,
    },
    /// It slept outside of poll.
    Slept,
}

impl Why {
    /// What the scheduler wrote into a slot; what this version does not know counts as nothing.
    pub(crate) fn read(why: u32) -> Option<Why> {
        match why & ((1 << BITS) - 1) {
            consort_abi::CONSORT_WHY_POLLED_LATE => Some(Why::PolledLate {
                late_us: why >> BITS,
            }),
            consort_abi::CONSORT_WHY_SLEPT => Some(Why::Slept),
            _ => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::PolledLate { late_us } => write!(
                f,
                "it polled too late: it still ran {}.{:03} ms after its yield-by time; cut its work into shorter \
                 events, or declare a longer event_ns when joining",
                late_us / 1000,
                late_us % 1000
            ),
            Why::Slept => f.write_str(
                "it slept outside of poll: a lock, a read or write that blocks, a page fault or a sleep; wait in \
                 poll, or leave that to another thread",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Why;

    #[test]
    fn slots_are_read() {
        let text = |why| Why::read(why).unwrap().to_string();
        assert_eq!(Why::read(0), None);
        assert_eq!(Why::read(15), None);
        assert!(text(1 | 1234 << 4).contains("ran 1.234 ms after"));
        assert!(text(2).contains("outside of poll"));
    }
}
