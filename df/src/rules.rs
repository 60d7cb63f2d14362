// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each instruction of a function may be: so little that nothing but numbers and its own record is left.

use crate::{
    instruction::{class, Instruction, CALL, EXIT, JUMP, JUMP_FAR, LOAD_64, MAY_JUMP, STACK},
    problem::Refused,
    Problem, STACK_BYTES,
};

pub(crate) fn check(code: &[Instruction]) -> Result<(), Problem> {
    let mut second = false;
    let seconds: Vec<bool> = code
        .iter()
        .map(|one| {
            let is_second = second;
            second = !second && one.code == LOAD_64;
            is_second
        })
        .collect();
    for (at, one) in code.iter().enumerate() {
        let checked = match seconds[at] {
            true => check_second(*one),
            false => check_one(code, &seconds, at),
        };
        checked.map_err(|what| Problem::Refused { at, what })?;
    }
    let ends = matches!(code.last(), Some(last) if last.code == EXIT || last.code == JUMP || last.code == JUMP_FAR);
    if !ends || second || seconds.last() == Some(&true) {
        let at = code.len().saturating_sub(1);
        let what = Refused::NoEnd;
        return Err(Problem::Refused { at, what });
    }
    Ok(())
}

/// The upper half of a number of 64 bits.
fn check_second(one: Instruction) -> Result<(), Refused> {
    let upper = Instruction {
        immediate: one.immediate,
        ..Instruction::default()
    };
    match one == upper {
        true => Ok(()),
        false => Err(Refused::Unknown),
    }
}

fn check_one(code: &[Instruction], seconds: &[bool], at: usize) -> Result<(), Refused> {
    let one = code[at];
    if one.to > STACK || one.from > STACK {
        return Err(Refused::Unknown);
    }
    if one.code == CALL {
        return Err(Refused::Call);
    }
    if one.code == LOAD_64 {
        return check_number(code, at);
    }
    match one.class() {
        class::LDX | class::ST | class::STX => check_access(one),
        class::ALU | class::ALU64 => check_arithmetic(one),
        class::JMP | class::JMP32 => check_jump(code, seconds, at),
        _ => Err(Refused::Unknown),
    }
}

fn check_number(code: &[Instruction], at: usize) -> Result<(), Refused> {
    match code[at] {
        Instruction { to: STACK, .. } => Err(Refused::StackAddress),
        Instruction {
            from: 0, offset: 0, ..
        } if at + 1 < code.len() => Ok(()),
        _ => Err(Refused::Address),
    }
}

fn check_access(one: Instruction) -> Result<(), Refused> {
    if !one.is_access() {
        return Err(Refused::Atomic);
    }
    if one.is_signed_load() && one.size() == 8 {
        return Err(Refused::Unknown);
    }
    let (address, other) = match one.class() {
        class::LDX => (one.from, one.to),
        class::STX => (one.to, one.from),
        _ => (one.to, 0),
    };
    if other == STACK {
        return Err(Refused::StackAddress);
    }
    if one.class() == class::ST && one.from != 0 || one.class() != class::ST && one.immediate != 0 {
        return Err(Refused::Unknown);
    }
    let size = one.size() as i16;
    let is_inside = (-STACK_BYTES..=-size).contains(&one.offset) && one.offset % size == 0;
    match address == STACK && !is_inside {
        true => Err(Refused::Stack),
        false => Ok(()),
    }
}

const NEGATE: u8 = 0x80;
const MODULO: u8 = 0x90;
const DIVIDE: u8 = 0x30;
const MOVE: u8 = 0xb0;
const END: u8 = 0xd0;

fn check_arithmetic(one: Instruction) -> Result<(), Refused> {
    if one.to == STACK || (one.has_register() && one.from == STACK) {
        return Err(Refused::StackAddress);
    }
    let operation = one.code & 0xf0;
    let is_64 = one.class() == class::ALU64;
    let plain = match operation {
        END => {
            let to_order = !is_64 || !one.has_register();
            return match to_order
                && one.from == 0
                && one.offset == 0
                && matches!(one.immediate, 16 | 32 | 64)
            {
                true => Ok(()),
                false => Err(Refused::Unknown),
            };
        }
        NEGATE => !one.has_register() && one.offset == 0 && one.from == 0 && one.immediate == 0,
        MOVE if one.has_register() => {
            matches!(one.offset, 0 | 8 | 16) || (is_64 && one.offset == 32)
        }
        // Signed, or not.
        DIVIDE | MODULO => {
            matches!(one.offset, 0 | 1) && (one.has_register() || one.immediate != 0)
        }
        _ => operation < 0xe0 && one.offset == 0,
    };
    let width = if is_64 { 64 } else { 32 };
    let shifts = matches!(operation, 0x60 | 0x70 | 0xc0) && !one.has_register();
    let operand = match one.has_register() {
        true => one.immediate == 0,
        false => one.from == 0 && (!shifts || (0..width).contains(&one.immediate)),
    };
    match plain && operand {
        true => Ok(()),
        false => Err(Refused::Unknown),
    }
}

fn check_jump(code: &[Instruction], seconds: &[bool], at: usize) -> Result<(), Refused> {
    let one = code[at];
    let is_plain = |one: Instruction| one.to == 0 && one.from == 0;
    match one.code {
        EXIT => {
            return match is_plain(one) && one.offset == 0 && one.immediate == 0 {
                true => Ok(()),
                false => Err(Refused::Unknown),
            }
        }
        JUMP if is_plain(one) && one.immediate == 0 => {}
        JUMP_FAR if is_plain(one) && one.offset == 0 => {}
        MAY_JUMP | JUMP | JUMP_FAR => return Err(Refused::Unknown),
        _ => {
            let is_condition = matches!(one.code & 0xf0, 0x10..=0x70 | 0xa0..=0xd0);
            let operand = match one.has_register() {
                true => one.immediate == 0,
                false => one.from == 0,
            };
            if one.to == STACK || (one.has_register() && one.from == STACK) {
                return Err(Refused::StackAddress);
            }
            if !is_condition || !operand {
                return Err(Refused::Unknown);
            }
        }
    }
    let target = one.jump().map_or(-1, |far| at as i64 + 1 + far);
    let is_start = usize::try_from(target).is_ok_and(|target| seconds.get(target) == Some(&false));
    match is_start {
        true => Ok(()),
        false => Err(Refused::JumpsOut),
    }
}
