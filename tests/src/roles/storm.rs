// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that ask the daemon for more than one user may have.

use consort_abi::{CONSORT_CONTROL, CONSORT_JOIN};
use nix::errno::Errno;

use super::argument;
use crate::suite::{
    board::{Board, Field},
    client::{bytes_of, gettid, join_request, request, Client},
};

/// `join-storm NUMBER`: joins and leaves so many times, as fast as it goes. Work counts joins, Errors refusals with
/// EAGAIN and a text; any other refusal ends it.
pub fn joins(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let client = Client::hello()?;
    let mut is_member = false;
    board.set(Field::Ready, 1);
    for _ in 0..argument::<u32>(arguments, 0)? {
        let reply = match is_member {
            true => client.leave(gettid(), 0)?,
            false => client.join(gettid(), 0, "storm")?,
        };
        match reply.error {
            0 => {
                is_member = !is_member;
                board.add(Field::Work, 1);
            }
            error if error == Errno::EAGAIN as i32 && reply.text.contains("requests a second") => {
                board.add(Field::Errors, 1);
            }
            error => return Err(format!("errno {error}: {}", reply.text)),
        }
    }
    Ok(())
}

/// `connections NUMBER`: opens so many and keeps them. Work counts those that got a page, Errors those refused with EDQUOT
/// and a text.
pub fn connections(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let mut kept = Vec::new();
    for _ in 0..argument::<u32>(arguments, 0)? {
        match Client::hello() {
            Ok(client) => {
                kept.push(client);
                board.add(Field::Work, 1);
            }
            Err(text) if text.contains("most that one user may have") => {
                board.add(Field::Errors, 1)
            }
            // The rate of requests is limited, too; that is another test's.
            Err(text) if text.contains("requests a second") => {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            // Nor is everyone of a crowd told.
            Err(text) if text.contains("closed the connection") => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(text) => return Err(text),
        }
    }
    board.set(Field::Ready, 1);
    std::thread::sleep(std::time::Duration::from_secs(3600));
    Ok(())
}

/// `deaf`: asks and asks, and never reads an answer, until the daemon closes the connection.
pub fn deaf(board: &Board, _: &[&str]) -> Result<(), String> {
    let client = Client::hello()?;
    let request = join_request(gettid(), 0, b"bad/name");
    board.set(Field::Ready, 1);
    while client.send_bytes(bytes_of(&request)).is_ok() {
        board.add(Field::Work, 1);
    }
    Ok(())
}

/// `noise NUMBER`: sends so many messages of random bytes behind a good head. Work counts refusals and closed connections,
/// Errors what was granted.
pub fn noise(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let mut seed = 12345_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut client = Client::connect()?;
    for _ in 0..argument::<u32>(arguments, 0)? {
        let kind = if random() % 2 == 0 {
            CONSORT_JOIN
        } else {
            CONSORT_CONTROL
        };
        let mut message = bytes_of(&request(kind)).to_vec();
        message[8..]
            .iter_mut()
            .for_each(|byte| *byte = random() as u8);
        if random() % 4 == 0 {
            message.extend((0..random() % 3000).map(|index| index as u8));
        }
        match client.ask_bytes(&message)? {
            Some(reply) if reply.error == 0 => board.add(Field::Errors, 1),
            Some(_) => board.add(Field::Work, 1),
            None => {
                board.add(Field::Work, 1);
                client = Client::connect()?;
            }
        }
    }
    Ok(())
}
