// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hackbench, after the program of that name in rt-tests (Rusty Russell and others), process mode: groups
//! of senders and receivers, each sender sends every message to each receiver of its group. The sending
//! ends are stream sockets or pipes; all wait for one start signal, and the time is that from it to the
//! end of the last process.

use crate::clock::now_ns;
use crate::error::Error;
use crate::processes::{spawn, Child};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

#[derive(Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Transport {
    Sockets,
    Pipes,
}

#[derive(Args, Serialize)]
pub struct Options {
    #[arg(long, value_enum, default_value = "sockets")]
    transport: Transport,
    #[arg(long, default_value_t = 5)]
    groups: usize,
    /// Senders in a group, and as many receivers
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Messages from each sender to each receiver
    #[arg(long, default_value_t = 20)]
    loops: usize,
    /// Size of a message
    #[arg(long, default_value_t = 100)]
    bytes: usize,
}

#[derive(Serialize)]
pub struct Hackbench {
    options: Options,
    seconds: f64,
    us_per_message: f64,
}

pub fn run(options: Options) -> Result<Hackbench, Error> {
    let pipe = || std::io::pipe().map_err(|source| Error::io("make a pipe", source));
    let (mut ready, ready_sender) = pipe()?;
    let (start_receiver, mut start) = pipe()?;
    let mut workers = Vec::new();
    for _ in 0..options.groups {
        start_group(&options, &start_receiver, &ready_sender, &mut workers)?;
    }
    let mut signals = vec![0; workers.len()];
    ready
        .read_exact(&mut signals)
        .map_err(|source| Error::io("wait for the workers", source))?;
    let begin_ns = now_ns();
    start
        .write_all(&signals)
        .map_err(|source| Error::io("start the workers", source))?;
    for worker in workers {
        worker.wait()?;
    }
    let took_ns = now_ns() - begin_ns;
    let messages = options.groups * options.pairs * options.pairs * options.loops;
    Ok(Hackbench {
        seconds: took_ns as f64 / 1e9,
        us_per_message: took_ns as f64 / 1e3 / messages.max(1) as f64,
        options,
    })
}

fn start_group(
    options: &Options,
    start: &std::io::PipeReader,
    ready: &std::io::PipeWriter,
    workers: &mut Vec<Child<()>>,
) -> Result<(), Error> {
    let mut sending_ends = Vec::new();
    for _ in 0..options.pairs {
        let (receiving, sending) = connect(options.transport)?;
        sending_ends.push(sending);
        let bytes_expected = options.pairs * options.loops * options.bytes;
        workers.push(spawn(|| {
            wait_for_start(start, ready)?;
            receive(receiving, bytes_expected, options.bytes)
        })?);
    }
    for _ in 0..options.pairs {
        workers.push(spawn(|| {
            wait_for_start(start, ready)?;
            send(&sending_ends, options.loops, options.bytes)
        })?);
    }
    Ok(())
}

/// A receiving and a sending end.
fn connect(transport: Transport) -> Result<(OwnedFd, OwnedFd), Error> {
    let ends = match transport {
        Transport::Sockets => UnixStream::pair().map(|(one, other)| (one.into(), other.into())),
        Transport::Pipes => std::io::pipe().map(|(reader, writer)| (reader.into(), writer.into())),
    };
    ends.map_err(|source| Error::io("connect a receiver", source))
}

fn wait_for_start(
    mut start: &std::io::PipeReader,
    mut ready: &std::io::PipeWriter,
) -> Result<(), Error> {
    let mut signal = [0];
    ready
        .write_all(&signal)
        .and_then(|()| start.read_exact(&mut signal))
        .map_err(|source| Error::io("wait for the start", source))
}

fn receive(from: OwnedFd, bytes_expected: usize, message_bytes: usize) -> Result<(), Error> {
    let mut from = std::fs::File::from(from);
    let mut message = vec![0; message_bytes];
    let mut received = 0;
    while received < bytes_expected {
        match from.read(&mut message) {
            Ok(0) => return Err(Error::Usage("a sender ended early".into())),
            Ok(bytes) => received += bytes,
            Err(source) => return Err(Error::io("receive", source)),
        }
    }
    Ok(())
}

fn send(to: &[OwnedFd], loops: usize, message_bytes: usize) -> Result<(), Error> {
    let message = vec![0; message_bytes];
    let mut receivers = Vec::new();
    for end in to {
        let copy = end
            .try_clone()
            .map_err(|source| Error::io("copy a descriptor", source))?;
        receivers.push(std::fs::File::from(copy));
    }
    for _ in 0..loops {
        for receiver in &mut receivers {
            receiver
                .write_all(&message)
                .map_err(|source| Error::io("send", source))?;
        }
    }
    Ok(())
}
