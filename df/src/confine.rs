// SPDX-License-Identifier: MIT OR Apache-2.0
//! The form in which the kernel gets a function: a program around it that finds the record and writes the answer, and each of
//! its reads and writes confined to the record.
//!
//! The function never holds an address: what it takes for one is a number, of which the lower bits are added to the record's
//! address right before an access, and which is forgotten after it. So it can neither reach nor tell anything else, also in
//! instructions that the processor executes on speculation. What it finds in registers and on its stack is 0 at first. The
//! kernel verifies all that once more, and that the function ends.

use std::mem::offset_of;

use consort_abi::{df_group, DF_MEMBERS};

use crate::{
    instruction::{
        class, Instruction, ADD, ADD_NUMBER, AND_NUMBER, BYTES, CALL, EXIT, JUMP,
        JUMP_IF_NOT_BELOW, JUMP_IF_NOT_BELOW_NUMBER, JUMP_IF_NOT_NUMBER, LOAD, LOAD_4, LOAD_64,
        MOVE, MOVE_NUMBER, SHIFT_LEFT_NUMBER, STACK, STORE, STORE_4, STORE_NUMBER,
    },
    Kind, Object, Problem, STACK_BYTES,
};

/// Bytes that a function's addresses can begin at.
pub const RECORD_REACH: usize = 4096;
/// Bytes of the record: a number of 8 bytes may begin at the last one in reach. As `struct consort_df_record`.
pub const RECORD_BYTES: usize = RECORD_REACH + 16;
/// Where its answers are written: behind the group.
pub(crate) const KEYS: usize = size_of::<df_group>();
pub(crate) const ANSWER: usize = KEYS + DF_MEMBERS as usize * size_of::<u64>();

/// What the function takes for the record's address: none that it could find to be 0.
pub(crate) const ADDRESS: i32 = RECORD_REACH as i32;
pub(crate) const REACH: i32 = RECORD_REACH as i32 - 1;

/// Beyond the function's own part of the stack.
const RECORD: i16 = -STACK_BYTES - 8;
const SPARE: [i16; 2] = [-STACK_BYTES - 16, -STACK_BYTES - 24];
const MEMBER: i16 = -STACK_BYTES - 32;
const MEMBERS: i16 = -STACK_BYTES - 40;

/// `BPF_PSEUDO_MAP_FD`, `BPF_FUNC_map_lookup_elem`.
const IS_MAP: u8 = 1;
const MAP_LOOKUP: i32 = 1;

/// A program for `struct_ops/dispatch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confined {
    code: Vec<Instruction>,
    map_at: usize,
}

impl Confined {
    /// The instructions, for a map of records whose descriptor this is.
    pub fn bytes(&self, map: i32) -> Vec<u8> {
        let mut code = self.code.clone();
        code[self.map_at].immediate = map;
        code.into_iter().flat_map(Instruction::bytes).collect()
    }

    pub fn instructions(&self) -> usize {
        self.code.len()
    }
}

impl Object {
    /// The program that the kernel loads.
    ///
    /// # Errors
    /// [`Problem::JumpsTooFar`].
    pub fn confine(&self) -> Result<Confined, Problem> {
        let mut code = Vec::new();
        let map_at = find_record(&mut code);
        match self.kind {
            Kind::Keys => self.ask_for_keys(&mut code)?,
            Kind::Pick => self.ask_for_pick(&mut code)?,
        }
        code.extend([number(0, 0), plain(EXIT)]);
        Ok(Confined { code, map_at })
    }

    /// Once for each member, by number.
    fn ask_for_keys(&self, code: &mut Vec<Instruction>) -> Result<(), Problem> {
        code.extend([
            load_4(1, 0, offset_of!(df_group, nr) as i16),
            store(STACK, MEMBERS, 1),
            store_number(STACK, MEMBER, 0),
        ]);
        let turn = code.len();
        code.extend([
            load(2, STACK, MEMBER),
            load(1, STACK, MEMBERS),
            // Both to the end, whose distance is not known yet.
            jump_if(JUMP_IF_NOT_BELOW_NUMBER, 2, 0, DF_MEMBERS as i32),
            jump_if(JUMP_IF_NOT_BELOW, 2, 1, 0),
        ]);
        let ends = [code.len() - 2, code.len() - 1];
        self.clear(code, 2);
        self.body(code)?;
        code.extend([
            load(1, STACK, MEMBER),
            load(2, STACK, RECORD),
            with(MOVE, 3, 1),
            with_number(SHIFT_LEFT_NUMBER, 3, 3),
            with(ADD, 2, 3),
            store(2, KEYS as i16, 0),
            with_number(ADD_NUMBER, 1, 1),
            store(STACK, MEMBER, 1),
        ]);
        let back = distance(code.len(), turn)?;
        code.push(Instruction {
            offset: back,
            ..plain(JUMP)
        });
        for at in ends {
            code[at].offset = distance(at, code.len())?;
        }
        code.extend([load(1, STACK, RECORD), store_number(1, ANSWER as i16, 1)]);
        Ok(())
    }

    fn ask_for_pick(&self, code: &mut Vec<Instruction>) -> Result<(), Problem> {
        self.clear(code, 1);
        self.body(code)?;
        code.extend([
            load(1, STACK, RECORD),
            store(1, KEYS as i16, 0),
            store_number(1, ANSWER as i16, 2),
        ]);
        Ok(())
    }

    /// What the function finds: its arguments, up to register `arguments`, and 0.
    fn clear(&self, code: &mut Vec<Instruction>, arguments: u8) {
        for slot in self.stack_slots() {
            code.push(store_number(STACK, slot, 0));
        }
        code.push(number(1, ADDRESS));
        code.extend(
            (0..STACK)
                .filter(|register| *register == 0 || *register > arguments)
                .map(|register| number(register, 0)),
        );
    }

    /// The words of the stack that it uses.
    fn stack_slots(&self) -> Vec<i16> {
        let uses = self.code.iter().filter(|one| {
            one.is_access()
                && STACK
                    == if one.class() == class::LDX {
                        one.from
                    } else {
                        one.to
                    }
        });
        let mut slots: Vec<i16> = uses.map(|one| one.offset.div_euclid(8) * 8).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// The function, each access confined, and its ends where the code goes on.
    fn body(&self, code: &mut Vec<Instruction>) -> Result<(), Problem> {
        let start = code.len();
        let mut starts = Vec::with_capacity(self.code.len() + 1);
        let mut jumps = Vec::new();
        let mut is_second = false;
        for (at, one) in self.code.iter().enumerate() {
            starts.push(code.len());
            if std::mem::take(&mut is_second) {
                code.push(*one);
            } else if one.code == EXIT {
                jumps.push((code.len(), self.code.len()));
                code.push(plain(JUMP));
            } else if let Some(far) = one.jump() {
                // The rules: inside.
                jumps.push((code.len(), (at as i64 + 1 + far) as usize));
                code.push(match one.code {
                    crate::instruction::JUMP_FAR => plain(JUMP),
                    _ => *one,
                });
            } else if one.is_access() {
                confine(*one, code);
            } else {
                is_second = one.code == LOAD_64;
                code.push(*one);
            }
        }
        starts.push(code.len());
        debug_assert!(starts[0] == start);
        for (at, target) in jumps {
            code[at].offset = distance(at, starts[target])?;
        }
        Ok(())
    }
}

/// Looks the CPU's record up, or ends. Returns where the map is named.
fn find_record(code: &mut Vec<Instruction>) -> usize {
    code.extend([
        // The first argument of `dispatch`: the CPU.
        load(6, 1, 0),
        Instruction {
            code: STORE_4,
            ..store(STACK, -4, 6)
        },
        with(MOVE, 2, STACK),
        with_number(ADD_NUMBER, 2, -4),
    ]);
    let map_at = code.len();
    code.extend([
        Instruction {
            from: IS_MAP,
            ..with_number(LOAD_64, 1, 0)
        },
        Instruction::default(),
        Instruction {
            immediate: MAP_LOOKUP,
            ..plain(CALL)
        },
        Instruction {
            offset: 2,
            ..jump_if(JUMP_IF_NOT_NUMBER, 0, 0, 0)
        },
        number(0, 0),
        plain(EXIT),
        store(STACK, RECORD, 0),
    ]);
    map_at
}

/// Appends the access to the record instead of to wherever it points.
fn confine(one: Instruction, code: &mut Vec<Instruction>) {
    let address = match one.class() {
        class::LDX => one.from,
        _ => one.to,
    };
    if address == STACK {
        code.push(one);
        return;
    }
    let mut spare = (0..STACK).filter(|register| *register != one.to && *register != one.from);
    let (Some(first), Some(second)) = (spare.next(), spare.next()) else {
        unreachable!("ten registers less two");
    };
    let is_load = one.class() == class::LDX;
    // What is loaded may have the address in its own register until then.
    let pointer = if is_load { one.to } else { second };
    code.push(store(STACK, SPARE[0], first));
    if !is_load {
        code.push(store(STACK, SPARE[1], second));
    }
    if pointer != address {
        code.push(with(MOVE, pointer, address));
    }
    if one.offset != 0 {
        code.push(with_number(ADD_NUMBER, pointer, i32::from(one.offset)));
    }
    code.extend([
        with_number(AND_NUMBER, pointer, REACH),
        load(first, STACK, RECORD),
        with(ADD, first, pointer),
    ]);
    code.push(match is_load {
        true => Instruction {
            from: first,
            offset: 0,
            ..one
        },
        false => Instruction {
            to: first,
            offset: 0,
            ..one
        },
    });
    code.push(load(first, STACK, SPARE[0]));
    if !is_load {
        code.push(load(second, STACK, SPARE[1]));
    }
}

fn distance(from: usize, to: usize) -> Result<i16, Problem> {
    i16::try_from(to as i64 - from as i64 - 1).map_err(|_| Problem::JumpsTooFar)
}

fn plain(code: u8) -> Instruction {
    Instruction {
        code,
        ..Instruction::default()
    }
}

fn with(code: u8, to: u8, from: u8) -> Instruction {
    Instruction {
        to,
        from,
        ..plain(code)
    }
}

fn with_number(code: u8, to: u8, immediate: i32) -> Instruction {
    Instruction {
        to,
        immediate,
        ..plain(code)
    }
}

fn number(to: u8, immediate: i32) -> Instruction {
    with_number(MOVE_NUMBER, to, immediate)
}

fn load(to: u8, from: u8, offset: i16) -> Instruction {
    Instruction {
        offset,
        ..with(LOAD, to, from)
    }
}

fn load_4(to: u8, from: u8, offset: i16) -> Instruction {
    Instruction {
        offset,
        ..with(LOAD_4, to, from)
    }
}

fn store(to: u8, offset: i16, from: u8) -> Instruction {
    Instruction {
        offset,
        ..with(STORE, to, from)
    }
}

fn store_number(to: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction {
        offset,
        ..with_number(STORE_NUMBER, to, immediate)
    }
}

fn jump_if(code: u8, to: u8, from: u8, immediate: i32) -> Instruction {
    Instruction {
        to,
        from,
        immediate,
        ..plain(code)
    }
}

const _: () = assert!(ANSWER + size_of::<u64>() <= RECORD_REACH && BYTES == 8);
