// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions of the BPF machine, as the kernel numbers them (Linux: instruction-set.rst).

/// One instruction of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instruction {
    pub code: u8,
    pub to: u8,
    pub from: u8,
    pub offset: i16,
    pub immediate: i32,
}

pub const BYTES: usize = 8;
/// The stack pointer.
pub const STACK: u8 = 10;

/// The lowest three bits of a code.
pub mod class {
    pub const LDX: u8 = 1;
    pub const ST: u8 = 2;
    pub const STX: u8 = 3;
    pub const ALU: u8 = 4;
    pub const JMP: u8 = 5;
    pub const JMP32: u8 = 6;
    pub const ALU64: u8 = 7;
}

pub const CALL: u8 = 0x85;
pub const EXIT: u8 = 0x95;
pub const JUMP: u8 = 0x05;
/// `may_goto`.
pub const MAY_JUMP: u8 = 0xe5;
/// A jump whose distance is the immediate.
pub const JUMP_FAR: u8 = 0x06;
/// Takes two instructions.
pub const LOAD_64: u8 = 0x18;
pub const MOVE: u8 = 0xbf;
pub const MOVE_NUMBER: u8 = 0xb7;
pub const ADD: u8 = 0x0f;
pub const ADD_NUMBER: u8 = 0x07;
pub const AND_NUMBER: u8 = 0x57;
pub const SHIFT_LEFT_NUMBER: u8 = 0x67;
pub const JUMP_IF_NOT_NUMBER: u8 = 0x55;
pub const JUMP_IF_NOT_BELOW: u8 = 0x3d;
pub const JUMP_IF_NOT_BELOW_NUMBER: u8 = 0x35;
pub const LOAD: u8 = 0x79;
pub const LOAD_4: u8 = 0x61;
pub const STORE: u8 = 0x7b;
pub const STORE_4: u8 = 0x63;
pub const STORE_NUMBER: u8 = 0x7a;

const MODE: u8 = 0xe0;
const MODE_MEMORY: u8 = 0x60;
const MODE_SIGNED: u8 = 0x80;

impl Instruction {
    pub fn read(bytes: [u8; BYTES]) -> Self {
        Instruction {
            code: bytes[0],
            to: bytes[1] & 15,
            from: bytes[1] >> 4,
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            immediate: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }

    pub fn bytes(self) -> [u8; BYTES] {
        let [o0, o1] = self.offset.to_le_bytes();
        let [i0, i1, i2, i3] = self.immediate.to_le_bytes();
        [self.code, self.to | self.from << 4, o0, o1, i0, i1, i2, i3]
    }

    pub fn class(self) -> u8 {
        self.code & 7
    }

    /// A load or store of plain memory.
    pub fn is_access(self) -> bool {
        let mode = self.code & MODE;
        match self.class() {
            class::LDX => mode == MODE_MEMORY || mode == MODE_SIGNED,
            class::ST | class::STX => mode == MODE_MEMORY,
            _ => false,
        }
    }

    pub fn is_signed_load(self) -> bool {
        self.class() == class::LDX && self.code & MODE == MODE_SIGNED
    }

    /// Bytes that an access reaches.
    pub fn size(self) -> usize {
        match self.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        }
    }

    pub fn is_arithmetic(self) -> bool {
        matches!(self.class(), class::ALU | class::ALU64)
    }

    /// Whether the second operand is a register.
    pub fn has_register(self) -> bool {
        self.code & 8 != 0
    }

    /// How far it may go beyond the next instruction; `None`: it is no jump.
    pub fn jump(self) -> Option<i64> {
        let is_jump = matches!(self.class(), class::JMP | class::JMP32);
        if !is_jump || self.code == CALL || self.code == EXIT {
            return None;
        }
        match self.code {
            JUMP_FAR => Some(i64::from(self.immediate)),
            _ => Some(i64::from(self.offset)),
        }
    }
}
