// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that another scheduling class has for a while.

use std::{thread, time::Duration};

use super::{
    argument,
    lock::{burn_ns, Lock},
};
use crate::suite::{
    board::{Board, Field},
    process::set_realtime,
};

const MS: u64 = 1_000_000;

/// `riser HOW`: is real-time again and again. HOW: `itself`, for a fifth of the CPU time that it uses; `lock`, while it
/// holds a lock for which a real-time thread of its own waits; `never`: it sleeps, for the test to raise it.
pub fn riser(board: &Board, arguments: &[&str]) -> Result<(), String> {
    match argument::<String>(arguments, 0)?.as_str() {
        "itself" => by_itself(board),
        "lock" => by_lock(board),
        _ => {
            board.set(Field::Ready, 1);
            loop {
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn by_itself(board: &Board) -> Result<(), String> {
    board.set(Field::Ready, 1);
    loop {
        burn_ns(4 * MS);
        set_realtime(0, true)?;
        burn_ns(MS);
        set_realtime(0, false)?;
        board.add(Field::Work, 1);
    }
}

fn by_lock(board: &Board) -> Result<(), String> {
    let lock = Lock::new(true);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| -> Result<(), String> {
            set_realtime(0, true)?;
            board.set(Field::Ready, 1);
            loop {
                thread::sleep(Duration::from_millis(5));
                lock.take();
                lock.give_back();
                board.add(Field::Work, 1);
            }
        });
        while !waiter.is_finished() {
            lock.take();
            burn_ns(3 * MS);
            lock.give_back();
            burn_ns(3 * MS);
        }
        waiter.join().unwrap_or(Err("the waiter panicked".into()))
    })
}
