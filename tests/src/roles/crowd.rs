// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of many threads and processes.

use std::{
    io::{Read, Write},
    os::unix::{net::UnixStream, process::CommandExt},
    process::Command,
    thread,
    time::Duration,
};

use consort::{now_ns, Domain, Next};

use super::{argument, join, work_ns};
use crate::suite::{
    board::{Board, Field, VARIABLE},
    client::{gettid, Client},
};

const MS: u64 = 1_000_000;
const STACK_BYTES: usize = 64 * 1024;

/// `deserter`: a thread joins by the bare socket and ends without leaving; the process lives on. On command 1, another
/// thread joins in the same slot, and stays.
pub fn deserter(board: &Board, _: &[&str]) -> Result<(), String> {
    let client = Client::hello()?;
    let join = |stay: bool| -> Result<(), String> {
        let reply = client.join(gettid(), 5, "deserters")?;
        if reply.error != 0 {
            return Err(format!("cannot join: {}", reply.text));
        }
        board.add(Field::Work, 1);
        if stay {
            loop {
                thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        scope
            .spawn(|| join(false))
            .join()
            .unwrap_or_else(|_| Err("the thread panicked".to_owned()))?;
        board.set(Field::Ready, 1);
        while board.get(Field::Command) == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        let second = scope.spawn(|| join(true));
        while board.get(Field::Work) < 2 && !second.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        board.set(Field::Done, 1);
        second
            .join()
            .unwrap_or_else(|_| Err("the thread panicked".to_owned()))
    })
}

/// `threads NUMBER AT_ONCE`: starts and ends so many threads; each works, yields, sleeps a little.
pub fn threads(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let (mut left, at_once) = (
        argument::<usize>(arguments, 0)?,
        argument::<usize>(arguments, 1)?,
    );
    board.set(Field::Ready, 1);
    while left > 0 {
        let batch = left.min(at_once);
        thread::scope(|scope| -> Result<(), String> {
            for number in 0..batch {
                let body = move || {
                    work_ns(MS / 20);
                    thread::yield_now();
                    thread::sleep(Duration::from_micros(number as u64 % 7 * 100));
                    board.add(Field::Work, 1);
                };
                let started = thread::Builder::new()
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, body);
                started.map_err(|error| format!("cannot start a thread: {error}"))?;
            }
            Ok(())
        })?;
        left -= batch;
    }
    Ok(())
}

/// `members ROUNDS`: in each round 70 threads join one domain by libconsort and poll. Work counts those that got in, Errors
/// those that were refused because the page is full; any other refusal ends it.
pub fn members(board: &Board, arguments: &[&str]) -> Result<(), String> {
    board.set(Field::Ready, 1);
    for _ in 0..argument::<u32>(arguments, 0)? {
        let barrier = std::sync::Barrier::new(70);
        thread::scope(|scope| -> Result<(), String> {
            let body = || -> Result<(), String> {
                let joined = Domain::named("crowd").join();
                barrier.wait();
                match joined {
                    Ok(member) => {
                        for _ in 0..3 {
                            member
                                .poll(Next::due(now_ns() + MS))
                                .map_err(|error| error.to_string())?;
                        }
                        board.add(Field::Work, 1);
                    }
                    Err(consort::Error::NoFreeSlot) => board.add(Field::Errors, 1),
                    Err(error) => return Err(error.to_string()),
                }
                Ok(())
            };
            let threads: Vec<_> = (0..70).map(|_| scope.spawn(body)).collect();
            threads.into_iter().try_for_each(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("a thread panicked".to_owned()))
            })
        })?;
    }
    Ok(())
}

/// `ping-pong PAIRS ROUNDS`: threads in pairs throw a byte to and fro, as hackbench does. Work counts throws.
pub fn ping_pong(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let (pairs, rounds) = (
        argument::<usize>(arguments, 0)?,
        argument::<usize>(arguments, 1)?,
    );
    board.set(Field::Ready, 1);
    let player = |mut socket: UnixStream, serves: bool| -> std::io::Result<()> {
        let mut ball = [0; 100];
        for _ in 0..rounds {
            if serves {
                socket.write_all(&ball)?;
            }
            socket.read_exact(&mut ball)?;
            if !serves {
                socket.write_all(&ball)?;
            }
            board.add(Field::Work, 1);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let mut players = Vec::new();
        for _ in 0..pairs {
            let (one, other) = UnixStream::pair().map_err(|error| error.to_string())?;
            players.push(scope.spawn(move || player(one, true)));
            players.push(scope.spawn(move || player(other, false)));
        }
        players
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result.map_err(|error| error.to_string()),
                Err(_) => Err("a thread panicked".to_owned()),
            })
    })
}

/// `family`: on command 1 starts a hog thread and a child that is a hog, and becomes a hog itself. Extra is the child's
/// number.
pub fn family(board: &Board, _: &[&str]) -> Result<(), String> {
    board.set(Field::Ready, 1);
    while board.get(Field::Command) == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    let mut command = std::process::Command::new("/proc/self/exe");
    command.args(["role", "hog"]).env(VARIABLE, board.path());
    let child = command.spawn();
    let child = child.map_err(|error| format!("cannot start a child: {error}"))?;
    board.set(Field::Extra, u64::from(child.id()));
    thread::spawn(|| loop {
        work_ns(MS);
    });
    board.set(Field::Done, 1);
    // The hogs in it never end; the test ends all.
    loop {
        work_ns(MS);
    }
}

/// `executes DOMAIN ROLE...`: a thread that is not its process' first joins, and executes the program of that role.
pub fn executes(_: &Board, arguments: &[&str]) -> Result<(), String> {
    let domain = argument::<String>(arguments, 0)?;
    let mut program = Command::new("/proc/self/exe");
    program.arg("role").args(&arguments[1..]);
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let _member = join(&domain)?;
            Err(format!("cannot execute: {}", program.exec()))
        });
        second
            .join()
            .unwrap_or_else(|_| Err("the thread panicked".to_owned()))
    })
}
