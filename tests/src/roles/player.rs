// SPDX-License-Identifier: MIT OR Apache-2.0
//! Honest programs whose lateness is measured.

use std::{thread::sleep, time::Duration};

use consort::{now_ns, Next, Standing};
use consort_abi::{consort_request, CONSORT_RESERVE, CONSORT_RESERVE_THREAD};

use super::{argument, join, show, work_ns};
use crate::suite::{
    board::{Board, Field},
    client::{gettid, request, Client},
};

const MS: u64 = 1_000_000;
/// What it decodes between two polls.
const CHUNK_NS: u64 = MS / 2;

/// `player DOMAIN PERIOD_MS LENGTH_US LATE_US`: an event of that length every period, and something to decode whenever it may.
/// Extra is by how much an event was late at most, in nanoseconds; Overdue counts those that were more than LATE_US late;
/// Errors counts polls that told it that it is no member, once it was.
pub fn player(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let member = join(&argument::<String>(arguments, 0)?)?;
    let period_ns = argument::<u64>(arguments, 1)? * MS;
    let length_ns = argument::<u64>(arguments, 2)? * 1000;
    let late_max_ns = argument::<u64>(arguments, 3)? * 1000;
    let (mut due_ns, mut decoded) = (now_ns() + period_ns, 0);
    loop {
        let next = Next {
            due_ns,
            // The player that has decoded least goes first.
            best_effort: Some((1, decoded)),
        };
        let others = member.poll(next).map_err(|error| error.to_string())?;
        show(board, &others);
        match others.standing() {
            Standing::Outside if board.get(Field::Ready) == 1 => board.add(Field::Errors, 1),
            Standing::Outside => {}
            _ => board.set(Field::Ready, 1),
        }
        let now = now_ns();
        if now < due_ns {
            work_ns(CHUNK_NS);
            decoded += 1;
            board.add(Field::Work, 1);
            continue;
        }
        note_lateness(board, now - due_ns, late_max_ns);
        work_ns(length_ns);
        // What cannot be had any more is left out.
        let missed = now_ns().saturating_sub(due_ns) / period_ns;
        due_ns += period_ns * (missed + 1);
    }
}

fn note_lateness(board: &Board, late_ns: u64, late_max_ns: u64) {
    board.add(Field::Served, 1);
    if late_ns > late_max_ns {
        board.add(Field::Overdue, 1);
    }
    if late_ns > board.get(Field::Extra) {
        board.set(Field::Extra, late_ns);
    }
}

/// For how little an asker asks.
const RATES: [u32; 2] = [10_000, 11_000];
const PERIOD_NS: u64 = 30 * MS;

/// `asker NUMBER PER_S`: on each command asks for another rate so many times, at that pace. Extra is then the
/// 99th percentile of how long an answer took, Late the median, both in nanoseconds; Errors counts refusals.
pub fn asker(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let number = argument::<usize>(arguments, 0)?;
    let every_ns = 1000 * MS / argument::<u64>(arguments, 1)?;
    let client = Client::hello()?;
    // What is asked for first is made, all others are changes.
    ask_for(&client, RATES[1])?;
    let mut done = 0;
    board.set(Field::Ready, 1);
    loop {
        let command = board.get(Field::Command);
        if command == done {
            sleep(Duration::from_millis(5));
            continue;
        }
        let mut took_ns = Vec::with_capacity(number);
        for index in 0..number {
            let began_ns = now_ns();
            let error = ask_for(&client, RATES[index % RATES.len()])?;
            took_ns.push(now_ns() - began_ns);
            if error != 0 {
                board.add(Field::Errors, 1);
            }
            let next_ns = began_ns + every_ns;
            sleep(Duration::from_nanos(next_ns.saturating_sub(now_ns())));
        }
        took_ns.sort_unstable();
        let percentile = |percent: usize| took_ns[(number * percent).div_ceil(100).max(1) - 1];
        board.set(Field::Extra, percentile(99));
        board.set(Field::Late, percentile(50));
        done = command;
        board.set(Field::Done, done);
    }
}

/// The errno of the answer; 0: it has what it asked for.
fn ask_for(client: &Client, rate: u32) -> Result<i32, String> {
    let reply = client.ask(&consort_request {
        tid: gettid(),
        order: rate,
        flags: CONSORT_RESERVE_THREAD,
        event_ns: PERIOD_NS,
        domain: in_class("guaranteed"),
        ..request(CONSORT_RESERVE)
    })?;
    Ok(reply.error)
}

fn in_class(name: &str) -> [std::ffi::c_char; 64] {
    let mut field = [0; 64];
    for (to, from) in field.iter_mut().zip(name.bytes()) {
        *to = from as std::ffi::c_char;
    }
    field
}
