// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that knows Consort by consort.h alone, breaks the contract, and asks why it was demoted.

use std::{
    ffi::{c_void, CStr},
    fs::File,
    os::fd::AsRawFd,
    thread::sleep,
    time::Duration,
};

use super::{argument, header::*, work_ns};
use crate::suite::board::{Board, Field};

const MS: u64 = 1_000_000;
/// Commands, in the order in which they can be given.
pub const ASK: u64 = 1;
pub const SLEEP: u64 = 2;
pub const SLEEP_AGAIN: u64 = 3;

/// CONSORT_OUTSIDE.
const OUTSIDE: u32 = 0;

/// What `consort_why()` said.
pub const NOTHING: u64 = 0;
pub const SLEPT: u64 = 1;
pub const SOMETHING_ELSE: u64 = 2;

struct Errant<'a> {
    board: &'a Board,
    member: *mut c_void,
    /// The command whose deed is done, and about which is to be asked after the next poll.
    asks: u64,
}

impl Errant<'_> {
    fn ask(&self) -> u64 {
        // SAFETY: the member is this thread's; its text is valid until the next call.
        let why = unsafe { consort_why(self.member) };
        if why.is_null() {
            return SOMETHING_ELSE;
        }
        // SAFETY: as above.
        match unsafe { CStr::from_ptr(why) }.to_string_lossy() {
            text if text.is_empty() => NOTHING,
            text if text.contains("it slept outside of poll") => SLEPT,
            _ => SOMETHING_ELSE,
        }
    }

    fn work(&mut self) {
        let command = self.board.get(Field::Command);
        if self.asks != 0 {
            self.board.set(Field::Extra, self.ask());
            self.board.set(Field::Done, self.asks);
            self.asks = 0;
        } else if command != self.board.get(Field::Done) {
            match command {
                SLEEP | SLEEP_AGAIN => sleep(Duration::from_millis(50)),
                _ => {}
            }
            self.asks = command;
        }
        work_ns(MS / 5);
        self.board.add(Field::Polls, 1);
    }
}

extern "C" fn on_best_effort(of: *mut c_void, event: *mut Event, data: *mut c_void) {
    // SAFETY: what `errant` made the event with, which outlives it.
    let errant = unsafe { &mut *data.cast::<Errant>() };
    errant.work();
    let mut others = Others::default();
    // SAFETY: the loop runs, and the event is its own.
    let results = unsafe {
        [
            consort_loop_others(of, &mut others),
            consort_event_submit_best_effort(of, event, 1, 0),
        ]
    };
    if results != [0, 0] {
        errant.board.add(Field::Errors, 1);
    }
    errant
        .board
        .set(Field::Standing, u64::from(others.standing) + 1);
    // Once the scheduler knows this thread.
    if others.standing != OUTSIDE {
        errant.board.set(Field::Ready, 1);
    }
}

/// `errant DOMAIN LOG`: an event loop that always has a best-effort event, with standard error in the file LOG. By command one
/// of its events does nothing else (1), or sleeps for 50 ms (2, 3). Extra is what `consort_why()` said in the
/// next one.
pub fn errant(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let log = argument::<String>(arguments, 1)?;
    let log = File::create(&log).map_err(|error| format!("{log}: {error}"))?;
    // SAFETY: both descriptors are open.
    if unsafe { libc::dup2(log.as_raw_fd(), libc::STDERR_FILENO) } < 0 {
        return Err(std::io::Error::last_os_error().to_string());
    }
    let member = join(&argument::<String>(arguments, 0)?, &Options::default())?;
    let mut errant = Errant {
        board,
        member,
        asks: 0,
    };
    let mut event = new_event(on_best_effort, std::ptr::from_mut(&mut errant).cast());
    let mut of = std::ptr::null_mut();
    // SAFETY: the member is this thread's, the event stays where it is.
    unsafe {
        done("loop", consort_loop_new(member, &mut of))?;
        let submitted = consort_event_submit_best_effort(of, &mut event, 1, 0);
        done("submit", submitted)?;
        done("run", consort_loop_run(of))?;
    }
    Ok(())
}
