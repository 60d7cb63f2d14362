// SPDX-License-Identifier: MIT OR Apache-2.0
//! A member that does what bytes say: for fuzzers, which look for what its slot may not say.
//!
//! | byte | then | |
//! | --- | --- | --- |
//! | 0 to 7 | 8 bytes | they are written into that word of the slot |
//! | 8 to 15 | 4 bytes | so many nanoseconds from now, or before, as a time in that word |
//! | 16 | | one more poll is counted |
//! | 17 | | gives the CPU up |
//! | 18 | 1 byte | sleeps for so many times 50 us |
//! | 19 | 1 byte | leaves, and joins again |
//! | others | | uses the CPU for as many times 20 us |
//!
//! The last one is followed by the first one.

use super::{At, Behaviour, Do};

const NAP_NS: u64 = 50_000;
const PIECE_NS: u64 = 20_000;

pub(crate) struct Script {
    domain: usize,
    is_member: bool,
    bytes: Vec<u8>,
    next: usize,
}

impl Script {
    pub fn new(domain: usize, bytes: &[u8]) -> Self {
        Self {
            domain,
            is_member: false,
            bytes: bytes.to_vec(),
            next: 0,
        }
    }

    /// The next `N` bytes; what is missing at the end is 0.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        for (to, from) in taken.iter_mut().zip(self.bytes.iter().skip(self.next)) {
            *to = *from;
        }
        self.next += N;
        taken
    }
}

impl Behaviour for Script {
    fn next(&mut self, at: &mut At<'_>) -> Do {
        if !self.is_member {
            self.is_member = true;
            return Do::Join(self.domain);
        }
        if self.next >= self.bytes.len() {
            self.next = 0;
            // So that one of writes alone comes to an end, too.
            return Do::Work(PIECE_NS);
        }
        let [what] = self.take();
        match what {
            0..8 => {
                let value = u64::from_le_bytes(self.take());
                at.write_word(usize::from(what), value);
                Do::Again
            }
            8..16 => {
                let from_now = i64::from(i32::from_le_bytes(self.take()));
                let time_ns = at.now_ns().saturating_add_signed(from_now);
                at.write_word(usize::from(what - 8), time_ns);
                Do::Again
            }
            16 => {
                at.count_poll();
                Do::Again
            }
            17 => Do::Yield,
            18 => {
                let [count] = self.take();
                Do::Sleep(at.now_ns() + u64::from(count) * NAP_NS)
            }
            19 => {
                let [_] = self.take();
                self.is_member = false;
                Do::Leave
            }
            count => Do::Work(u64::from(count) * PIECE_NS),
        }
    }
}
