// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose threads have names.

use consort::{announce, now_ns, Next};

use super::{argument, show, work_ns};
use crate::suite::board::{Board, Field};

const CHUNK_NS: u64 = 500_000;

/// `named NAME`: always wants the CPU, and tells how much it has done; `Extra` is what its first control variable says.
pub fn named(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let announced =
        announce(&argument::<String>(arguments, 0)?).map_err(|error| error.to_string())?;
    let mut work = 0;
    loop {
        work_ns(CHUNK_NS);
        work += 1;
        board.add(Field::Work, 1);
        announced
            .set_state(0, work)
            .map_err(|error| error.to_string())?;
        if work % 16 == 0 {
            announced.look().map_err(|error| error.to_string())?;
        }
        let said = announced.control(0).map_err(|error| error.to_string())?;
        board.set(Field::Extra, said as u64);
        board.set(Field::Ready, 1);
    }
}

/// `polling NAME`: of a cooperation domain that a group file describes.
pub fn polling(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let announced =
        announce(&argument::<String>(arguments, 0)?).map_err(|error| error.to_string())?;
    loop {
        work_ns(CHUNK_NS);
        board.add(Field::Work, 1);
        let next = Next {
            due_ns: consort::NEVER,
            best_effort: Some((1, now_ns())),
        };
        let others = announced.member().poll(next);
        show(board, &others.map_err(|error| error.to_string())?);
        board.set(Field::Ready, 1);
    }
}
