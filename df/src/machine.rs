// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a function on this machine, as the kernel would: for the simulator, and for whoever writes one.

use std::mem::offset_of;

use consort_abi::{df_group, DF_MEMBERS};

use crate::{
    confine::{ADDRESS, REACH, RECORD_BYTES},
    instruction::{class, Instruction, EXIT, LOAD_64, STACK},
    Kind, Object, STACK_BYTES,
};

/// Instructions of one call after which it is ended. The kernel loads no function that takes more steps.
pub const STEPS_MAX: u32 = 32_768;

/// What a function sees, in bytes; and room for what it may reach beyond.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    bytes: Box<[u8; RECORD_BYTES]>,
}

/// What a function said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A key for each member.
    Keys(Vec<u64>),
    /// A member's number, or negative.
    Pick(i64),
    /// It did not end.
    Endless,
}

impl Default for Record {
    fn default() -> Self {
        Record {
            bytes: Box::new([0; RECORD_BYTES]),
        }
    }
}

impl Record {
    pub fn new(group: &df_group) -> Self {
        let mut record = Record::default();
        record.set_group(group);
        record
    }

    pub fn group(&self) -> df_group {
        // SAFETY: a C struct of numbers, for which any bytes are values, and shorter than the record.
        unsafe { std::ptr::read_unaligned(self.bytes.as_ptr().cast()) }
    }

    pub fn set_group(&mut self, group: &df_group) {
        // SAFETY: as above.
        unsafe { std::ptr::write_unaligned(self.bytes.as_mut_ptr().cast(), *group) }
    }

    fn members(&self) -> u32 {
        self.read(offset_of!(df_group, nr), 4) as u32
    }

    fn read(&self, at: usize, size: usize) -> u64 {
        let mut word = [0; 8];
        word[..size].copy_from_slice(&self.bytes[at..at + size]);
        u64::from_le_bytes(word)
    }

    fn write(&mut self, at: usize, size: usize, value: u64) {
        self.bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

impl Object {
    /// Asks the function once, for all members or for its pick. What it writes is in the record.
    pub fn run(&self, record: &mut Record) -> Answer {
        match self.kind {
            Kind::Pick => match self.call(record, 0) {
                Some(pick) => Answer::Pick(pick as i64),
                None => Answer::Endless,
            },
            Kind::Keys => {
                let nr = record.members().min(DF_MEMBERS);
                let keys = (0..nr).map(|member| self.call(record, member));
                let keys: Option<Vec<u64>> = keys.collect();
                keys.map_or(Answer::Endless, Answer::Keys)
            }
        }
    }

    /// One call; `None`: it took too many steps.
    fn call(&self, record: &mut Record, member: u32) -> Option<u64> {
        let mut frame = Frame {
            registers: [0; STACK as usize],
            stack: [0; STACK_BYTES as usize],
            record,
        };
        frame.registers[1] = ADDRESS as u64;
        if self.kind == Kind::Keys {
            frame.registers[2] = u64::from(member);
        }
        let mut at = 0;
        for _ in 0..STEPS_MAX {
            let one = self.code[at];
            at += 1;
            if one.code == EXIT {
                return Some(frame.registers[0]);
            }
            if one.code == LOAD_64 {
                let upper = self.code[at].immediate as u32;
                frame.registers[usize::from(one.to)] =
                    u64::from(one.immediate as u32) | u64::from(upper) << 32;
                at += 1;
            } else if let Some(far) = one.jump() {
                if frame.jumps(one) {
                    // The rules: inside.
                    at = (at as i64 + far) as usize;
                }
            } else if one.is_access() {
                frame.access(one);
            } else {
                frame.calculate(one);
            }
        }
        None
    }
}

struct Frame<'a> {
    registers: [u64; STACK as usize],
    stack: [u8; STACK_BYTES as usize],
    record: &'a mut Record,
}

impl Frame<'_> {
    fn register(&self, number: u8) -> u64 {
        self.registers
            .get(usize::from(number))
            .copied()
            .unwrap_or_default()
    }

    fn operand(&self, one: Instruction) -> u64 {
        match one.has_register() {
            true => self.register(one.from),
            false => i64::from(one.immediate) as u64,
        }
    }

    fn access(&mut self, one: Instruction) {
        let size = one.size();
        if one.class() == class::LDX {
            let value = self.read(one.from, one.offset, size);
            let shift = 64 - 8 * size as u32;
            self.registers[usize::from(one.to)] = match one.is_signed_load() {
                true => ((value << shift) as i64 >> shift) as u64,
                false => value,
            };
            return;
        }
        let value = match one.class() {
            class::ST => i64::from(one.immediate) as u64,
            _ => self.register(one.from),
        };
        if one.to == STACK {
            let at = (STACK_BYTES + one.offset) as usize;
            self.stack[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        } else {
            let at = self.reach(one.to, one.offset);
            self.record.write(at, size, value);
        }
    }

    fn read(&self, address: u8, offset: i16, size: usize) -> u64 {
        if address != STACK {
            return self.record.read(self.reach(address, offset), size);
        }
        let (at, mut word) = ((STACK_BYTES + offset) as usize, [0; 8]);
        word[..size].copy_from_slice(&self.stack[at..at + size]);
        u64::from_le_bytes(word)
    }

    /// Where in the record an address is taken to point.
    fn reach(&self, address: u8, offset: i16) -> usize {
        let points = self
            .register(address)
            .wrapping_add(i64::from(offset) as u64);
        (points & REACH as u64) as usize
    }

    fn jumps(&self, one: Instruction) -> bool {
        let (mut a, mut b) = (self.register(one.to), self.operand(one));
        let (mut signed_a, mut signed_b) = (a as i64, b as i64);
        if one.class() == class::JMP32 {
            (a, b) = (u64::from(a as u32), u64::from(b as u32));
            (signed_a, signed_b) = (i64::from(a as i32), i64::from(b as i32));
        }
        match one.code & 0xf0 {
            0x00 => true,
            0x10 => a == b,
            0x20 => a > b,
            0x30 => a >= b,
            0x40 => a & b != 0,
            0x50 => a != b,
            0x60 => signed_a > signed_b,
            0x70 => signed_a >= signed_b,
            0xa0 => a < b,
            0xb0 => a <= b,
            0xc0 => signed_a < signed_b,
            _ => signed_a <= signed_b,
        }
    }

    fn calculate(&mut self, one: Instruction) {
        let (a, b) = (self.register(one.to), self.operand(one));
        let result = match one.class() {
            class::ALU64 => wide(one, a, b),
            // To an order of bytes: this machine's, or the other one.
            _ if one.code & 0xf0 == 0xd0 => swap(a, one.immediate, one.has_register()),
            _ => u64::from(narrow(one, a, b)),
        };
        self.registers[usize::from(one.to)] = result;
    }
}

fn swap(value: u64, bits: i32, swaps: bool) -> u64 {
    match (bits, swaps) {
        (16, true) => u64::from((value as u16).swap_bytes()),
        (32, true) => u64::from((value as u32).swap_bytes()),
        (_, true) => value.swap_bytes(),
        (16, false) => u64::from(value as u16),
        (32, false) => u64::from(value as u32),
        (_, false) => value,
    }
}

fn wide(one: Instruction, a: u64, b: u64) -> u64 {
    let is_signed = one.offset == 1;
    match one.code & 0xf0 {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 if is_signed => match b {
            0 => 0,
            _ => (a as i64).wrapping_div(b as i64) as u64,
        },
        0x30 => a.checked_div(b).unwrap_or(0),
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a.wrapping_shl(b as u32),
        0x70 => a.wrapping_shr(b as u32),
        0x80 => a.wrapping_neg(),
        0x90 if is_signed => match b {
            0 => a,
            _ => (a as i64).wrapping_rem(b as i64) as u64,
        },
        0x90 => a.checked_rem(b).unwrap_or(a),
        0xa0 => a ^ b,
        0xb0 => match one.offset {
            8 => i64::from(b as i8) as u64,
            16 => i64::from(b as i16) as u64,
            32 => i64::from(b as i32) as u64,
            _ => b,
        },
        0xc0 => (a as i64).wrapping_shr(b as u32) as u64,
        // Unconditional in the wide class.
        _ => swap(a, one.immediate, true),
    }
}

fn narrow(one: Instruction, a: u64, b: u64) -> u32 {
    let is_signed = one.offset == 1;
    let (a, b) = (a as u32, b as u32);
    match one.code & 0xf0 {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 if is_signed => match b {
            0 => 0,
            _ => (a as i32).wrapping_div(b as i32) as u32,
        },
        0x30 => a.checked_div(b).unwrap_or(0),
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a.wrapping_shl(b),
        0x70 => a.wrapping_shr(b),
        0x80 => a.wrapping_neg(),
        0x90 if is_signed => match b {
            0 => a,
            _ => (a as i32).wrapping_rem(b as i32) as u32,
        },
        0x90 => a.checked_rem(b).unwrap_or(a),
        0xa0 => a ^ b,
        0xb0 => match one.offset {
            8 => i32::from(b as i8) as u32,
            16 => i32::from(b as i16) as u32,
            _ => b,
        },
        // Shifts with a sign; orders of bytes are elsewhere.
        _ => (a as i32).wrapping_shr(b) as u32,
    }
}
