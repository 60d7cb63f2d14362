// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that keep the daemon busy for as long as they are let, each in its own way.

use std::{
    io::IoSlice,
    os::fd::{AsRawFd, RawFd},
    sync::OnceLock,
    thread,
    time::Duration,
};

use consort_abi::{
    consort_request, CONSORT_HELLO, CONSORT_LEND, CONSORT_RECOLLECT, CONSORT_RELEASE,
    CONSORT_RESERVE, CONSORT_RESERVE_THREAD,
};
use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags};

use super::{argument, sleeping_thread};
use crate::suite::{
    board::{Board, Field},
    client::{bytes_of, gettid, join_request, request, Client},
    sleepers::Sleepers,
};

/// One attack; an error means that the connection is of no use any more.
type Attack = fn(&Client) -> Result<(), String>;

/// Each of which is repeated without end.
const ATTACKS: &[(&str, Attack)] = &[
    ("garbage", garbage),
    ("hello", hello),
    ("joins", joins),
    ("strangers", strangers),
    ("descriptors", descriptors),
    ("deaf", deaf),
    ("status", status),
    ("reserve", reserve),
    ("credits", credits),
    ("taken", taken),
    ("usage", usage),
    ("silent", silent),
];

pub fn names() -> impl Iterator<Item = &'static str> {
    ATTACKS.iter().map(|(name, _)| *name)
}

/// `attack NAME`: Work counts rounds, Errors connections that came to an end.
pub fn attack(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let name = argument::<String>(arguments, 0)?;
    let attack = ATTACKS.iter().find(|(known, _)| *known == name);
    let (_, attack) = attack.ok_or_else(|| format!("there is no attack {name}"))?;
    board.set(Field::Ready, 1);
    loop {
        // Also refused at once, for who has too many connections or asks too often.
        let mut connected = Client::connect();
        while let Ok(client) = &connected {
            board.add(Field::Work, 1);
            if let Err(text) = attack(client) {
                connected = Err(text);
            }
        }
        board.add(Field::Errors, 1);
    }
}

/// A request that does not exist: refused, and the connection stays.
fn garbage(client: &Client) -> Result<(), String> {
    client.ask(&request(0xffff)).map(|_| ())
}

/// A page for nothing.
fn hello(client: &Client) -> Result<(), String> {
    client.ask(&request(CONSORT_HELLO))?;
    Err("enough".to_owned())
}

fn joins(client: &Client) -> Result<(), String> {
    client.ask(&request(CONSORT_HELLO))?;
    loop {
        client.join(gettid(), 0, "storm")?;
        client.leave(gettid(), 0)?;
    }
}

/// The daemon has to look who that thread is.
fn strangers(client: &Client) -> Result<(), String> {
    client.ask(&request(CONSORT_HELLO))?;
    loop {
        client.ask(&join_request(1, 0, b"storm"))?;
    }
}

/// Messages that carry file descriptors.
fn descriptors(client: &Client) -> Result<(), String> {
    let descriptors: [RawFd; 1] = [std::io::stderr().as_raw_fd()];
    let hello = request(CONSORT_HELLO);
    let parts = [IoSlice::new(bytes_of(&hello))];
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let flags = MsgFlags::MSG_NOSIGNAL;
    // Refused by the kernel, where it knows how.
    let _ = sendmsg::<()>(client.socket(), &parts, &rights, flags, None);
    Ok(())
}

/// Asks, and never reads an answer.
fn deaf(client: &Client) -> Result<(), String> {
    let request = join_request(gettid(), 0, b"bad/name");
    client
        .send_bytes(bytes_of(&request))
        .map_err(|errno| errno.to_string())
}

fn status(client: &Client) -> Result<(), String> {
    let answer = client.control(br#"{"command": "status"}"#)?;
    answer.map(|_| ()).ok_or_else(|| "closed".to_owned())
}

/// Each is a line of the journal.
fn reserve(client: &Client) -> Result<(), String> {
    let flags = CONSORT_RESERVE_THREAD;
    client.ask(&reservation(gettid(), flags))?;
    let released = consort_request {
        tid: gettid(),
        flags,
        ..request(CONSORT_RELEASE)
    };
    client.ask(&released).map(|_| ())
}

fn reservation(tid: i32, flags: u32) -> consort_request {
    let mut wanted = consort_request {
        tid,
        order: 10_000,
        flags,
        event_ns: 30_000_000,
        ..request(CONSORT_RESERVE)
    };
    for (to, from) in wanted.domain.iter_mut().zip(b"guaranteed") {
        *to = *from as std::ffi::c_char;
    }
    wanted
}

/// Lends to more processes than may be lent to, each time another part, and takes half of it back.
fn credits(client: &Client) -> Result<(), String> {
    const PROCESSES: usize = 24;
    static ONES: OnceLock<Sleepers> = OnceLock::new();
    if ONES.get().is_none() {
        let sleepers = Sleepers::start(PROCESSES)?;
        // Those that begin with the reservation have a part in it, and a clock tick may be that soon.
        thread::sleep(Duration::from_millis(50));
        let _ = ONES.set(sleepers);
    }
    let ones = ONES.get().map_or(&[][..], |sleepers| &sleepers.0);
    lend_and_recollect(client, ones.iter().map(|pid| pid.as_raw()))
}

/// The same to threads of its own, which have a part in what is lent already.
fn taken(client: &Client) -> Result<(), String> {
    const THREADS: usize = 24;
    static ONES: OnceLock<Vec<i32>> = OnceLock::new();
    let threads = ONES.get_or_init(|| (0..THREADS).map(|_| sleeping_thread() as i32).collect());
    lend_and_recollect(client, threads.iter().copied())
}

fn lend_and_recollect(
    client: &Client,
    to: impl Iterator<Item = i32> + Clone,
) -> Result<(), String> {
    client.ask(&reservation(0, 0))?;
    for part in (200..1000).cycle() {
        for tid in to.clone() {
            for (kind, order) in [(CONSORT_LEND, part), (CONSORT_RECOLLECT, part / 2)] {
                client.ask(&consort_request {
                    tid,
                    order,
                    ..request(kind)
                })?;
            }
        }
    }
    Ok(())
}

/// What all of this user's reservations use, again and again.
fn usage(client: &Client) -> Result<(), String> {
    client.ask(&reservation(gettid(), CONSORT_RESERVE_THREAD))?;
    loop {
        let answer = client.control(br#"{"command": "reservations", "after": 0}"#)?;
        answer.ok_or("closed")?;
    }
}

/// As many connections as it gets, which say nothing; then all go at once.
fn silent(_: &Client) -> Result<(), String> {
    const CONNECTIONS: usize = 512;
    let held: Vec<Client> = (0..CONNECTIONS)
        .map_while(|_| Client::connect().ok())
        .collect();
    Err(format!("{} were enough", held.len()))
}
