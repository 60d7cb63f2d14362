// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of CPUs, laid out as the scheduler's C sees them.

use crate::ffi::cpumask;
use crate::setup::Cpu;

const BITS: u32 = u64::BITS;

impl cpumask {
    pub fn of(cpus: impl IntoIterator<Item = Cpu>) -> Self {
        let mut mask = Self::default();
        for cpu in cpus {
            mask.set(cpu);
        }
        mask
    }

    pub fn set(&mut self, cpu: Cpu) {
        self.bits[(cpu / BITS) as usize] |= 1 << (cpu % BITS);
    }

    pub fn clear(&mut self, cpu: Cpu) {
        self.bits[(cpu / BITS) as usize] &= !(1 << (cpu % BITS));
    }

    pub fn has(&self, cpu: Cpu) -> bool {
        self.bits[(cpu / BITS) as usize] >> (cpu % BITS) & 1 != 0
    }

    pub fn count(&self) -> u32 {
        self.bits.iter().map(|word| word.count_ones()).sum()
    }

    pub fn and(&self, other: &Self) -> Self {
        let mut both = *self;
        for (word, theirs) in both.bits.iter_mut().zip(other.bits) {
            *word &= theirs;
        }
        both
    }

    pub fn first(&self) -> Option<Cpu> {
        let at = self.bits.iter().position(|word| *word != 0)?;
        Some(at as u32 * BITS + self.bits[at].trailing_zeros())
    }

    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }

    pub fn iter(&self) -> impl Iterator<Item = Cpu> + '_ {
        self.bits.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                if left == 0 {
                    return None;
                }
                let bit = left.trailing_zeros();
                left &= left - 1;
                Some(at as u32 * BITS + bit)
            })
        })
    }
}
