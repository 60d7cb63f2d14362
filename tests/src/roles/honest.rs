// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that keep the contract, or break it only when their test tells them to.

use std::{thread::sleep, time::Duration};

use consort::{now_ns, Domain, Next, Standing};

use super::{argument, join, show, work_ns};
use crate::suite::board::{Board, Field};

const MS: u64 = 1_000_000;
/// What a member does between two polls.
const CHUNK_NS: u64 = 500_000;

/// Always wants the CPU.
pub fn hog(board: &Board, _: &[&str]) -> Result<(), String> {
    board.set(Field::Ready, 1);
    loop {
        work_ns(CHUNK_NS);
        board.add(Field::Work, 1);
    }
}

/// `member DOMAIN`: always has best-effort work in small chunks, and a due event every 20 ms.
pub fn member(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let member = join(&argument::<String>(arguments, 0)?)?;
    let mut due_ns = now_ns() + 20 * MS;
    loop {
        work_ns(CHUNK_NS);
        board.add(Field::Work, 1);
        let now = now_ns();
        if due_ns <= now {
            board.add(Field::Served, 1);
            due_ns = now + 20 * MS;
        }
        let next = Next {
            due_ns,
            // The member that has waited longest goes first.
            best_effort: Some((1, now)),
        };
        let others = member.poll(next).map_err(|error| error.to_string())?;
        show(board, &others);
        // Ready once the scheduler knows this thread, and its first polls are over.
        if others.standing() != Standing::Outside {
            board.set(Field::Ready, 1);
        }
    }
}

/// `ticker DOMAIN PERIOD_MS`: a short event every period, asleep between.
pub fn ticker(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let member = join(&argument::<String>(arguments, 0)?)?;
    let period_ns = argument::<u64>(arguments, 1)? * MS;
    let mut due_ns = now_ns();
    loop {
        due_ns = (due_ns + period_ns).max(now_ns());
        let others = member
            .poll(Next::due(due_ns))
            .map_err(|error| error.to_string())?;
        show(board, &others);
        work_ns(MS / 10);
        board.add(Field::Served, 1);
        if others.standing() != Standing::Outside {
            board.set(Field::Ready, 1);
        }
    }
}

/// `steady DOMAIN PERIOD_MS LENGTH_MS`: an event of that length every period. Extra is by how much one was late at most, in
/// nanoseconds; Errors counts polls that told it that it is no member, once it was.
pub fn steady(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let member = join(&argument::<String>(arguments, 0)?)?;
    let period_ns = argument::<u64>(arguments, 1)? * MS;
    let length_ns = argument::<u64>(arguments, 2)? * MS;
    let mut due_ns = now_ns();
    loop {
        due_ns += period_ns;
        let polled = member.poll(Next::due(due_ns));
        let others = polled.map_err(|error| error.to_string())?;
        let late_ns = now_ns().saturating_sub(due_ns);
        show(board, &others);
        match others.standing() {
            Standing::Outside if board.get(Field::Ready) == 1 => board.add(Field::Errors, 1),
            Standing::Outside => {}
            _ => board.set(Field::Ready, 1),
        }
        if late_ns > board.get(Field::Extra) {
            board.set(Field::Extra, late_ns);
        }
        work_ns(length_ns);
        board.add(Field::Served, 1);
        // A member that is behind leaves out what cannot be had any more.
        if now_ns() > due_ns + period_ns {
            due_ns = now_ns();
        }
    }
}

/// `obedient DOMAIN`: polls with best-effort work until its board commands otherwise. Extra shows the standing as the
/// scheduler's side has it right after the deed, before any poll.
///
/// 1: blocks outside poll for 50 ms   2: runs 300 ms without a poll   3: polls on, timely
pub fn obedient(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let member = join(&argument::<String>(arguments, 0)?)?;
    let poll = |board: &Board| -> Result<(), String> {
        let next = Next {
            due_ns: now_ns() + 10 * MS,
            best_effort: Some((1, 0)),
        };
        let others = member.poll(next).map_err(|error| error.to_string())?;
        show(board, &others);
        Ok(())
    };
    let mut done = 0;
    loop {
        work_ns(MS / 5);
        let command = board.get(Field::Command);
        if command == done {
            poll(board)?;
            board.set(Field::Ready, 1);
            continue;
        }
        match command {
            1 => sleep(Duration::from_millis(50)),
            2 => work_ns(300 * MS),
            _ => (0..20).try_for_each(|_| poll(board))?,
        }
        let standing = member
            .others()
            .map_err(|error| error.to_string())?
            .standing();
        board.set(
            Field::Extra,
            if standing == Standing::Demoted { 3 } else { 2 },
        );
        done = command;
        board.set(Field::Done, done);
        // Stands still in its standing, running, until told to poll.
        while command != 3 && board.get(Field::Command) == done {
            work_ns(MS);
        }
    }
}

/// `forker DOMAIN`: joins and forks. The child's first poll must be refused; then, on command 1, the child joins itself.
/// Extra is the errno of the child's refused poll.
pub fn forker(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let domain = argument::<String>(arguments, 0)?;
    let member = join(&domain)?;
    // SAFETY: this process has one thread.
    let child = unsafe { nix::unistd::fork() }.map_err(|errno| errno.to_string())?;
    if child.is_parent() {
        loop {
            work_ns(CHUNK_NS);
            let next = Next {
                due_ns: now_ns() + 5 * MS,
                best_effort: None,
            };
            show(
                board,
                &member.poll(next).map_err(|error| error.to_string())?,
            );
        }
    }
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    let refused = member.poll(Next {
        due_ns: now_ns(),
        best_effort: Some((0, 0)),
    });
    board.set(
        Field::Extra,
        refused.map_or_else(|error| error.errno() as u64, |_| 0),
    );
    drop(member);
    board.set(Field::Ready, 1);
    while board.get(Field::Command) == 0 {
        sleep(Duration::from_millis(5));
    }
    let own = join(&domain)?;
    own.poll(Next::due(now_ns() + MS))
        .map_err(|error| error.to_string())?;
    board.set(Field::Done, 1);
    loop {
        own.poll(Next::due(now_ns() + 10 * MS))
            .map_err(|error| error.to_string())?;
    }
}

/// `joiner`: joins without naming a domain, and stays until killed.
pub fn joiner(board: &Board, _: &[&str]) -> Result<(), String> {
    let member = Domain::private()
        .join()
        .map_err(|error| error.to_string())?;
    board.set(Field::Ready, 1);
    loop {
        let others = member
            .poll(Next::due(now_ns() + 10 * MS))
            .map_err(|error| error.to_string())?;
        show(board, &others);
    }
}
